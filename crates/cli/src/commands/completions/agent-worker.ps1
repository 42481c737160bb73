# Completion of agent-worker for PowerShell.
Register-ArgumentCompleter -Native -CommandName agent-worker -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $line = $commandAst.ToString()
    $end = $cursorPosition - $commandAst.Extent.StartOffset
    if ($end -lt $line.Length) { $line = $line.Substring(0, $end) } else { $line = $line.PadRight($end) }
    agent-worker complete powershell $line 2>$null | ForEach-Object {
        $word, $about = $_ -split "`t", 2
        if (-not $about) { $about = $word }
        # PowerShell reads a word that begins with @ as a variable.
        $text = if ($word.StartsWith('@')) { "'$word'" } else { $word }
        [System.Management.Automation.CompletionResult]::new($text, $word, 'ParameterValue', $about)
    }
}
