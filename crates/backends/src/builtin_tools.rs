//! The built-in tools of agents with direct access to a model: names, descriptions, schemas and effects.
//!
//! The workflow parser checks names with this table, the kernel decides permissions with it, and the worker offers the tools.
//! `crates/tools` carries them out. The arguments have the names that permissions and the views already know.

/// A built-in tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BuiltinTool {
    /// Runs a shell command.
    Bash,
    /// Reads the output of a command in the background.
    BashOutput,
    /// Ends a command in the background.
    BashKill,
    /// Reads a file.
    ReadFile,
    /// Writes a whole file.
    WriteFile,
    /// Replaces passages of a file.
    EditFile,
    /// Lists the files below a folder.
    ListFiles,
    /// Searches in files.
    SearchCode,
    /// Fetches a page.
    FetchUrl,
}

/// The row of a built-in tool.
#[derive(Debug)]
pub struct BuiltinToolSpec {
    /// The tool of this row.
    pub tool: BuiltinTool,
    /// Name that models call.
    pub name: &'static str,
    /// Further names in `tools:`, `permissions:` and agent files: those of Claude Code.
    pub aliases: &'static [&'static str],
    /// Description for models.
    pub description: &'static str,
    /// JSON schema of the arguments.
    pub schema: &'static str,
    /// Effect of a call.
    pub effect: BuiltinEffect,
    /// Argument that the brackets of a permission pattern match; none for a tool that acts on an earlier call.
    pub subject: Option<&'static str>,
}

/// Effect of a built-in tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinEffect {
    /// The tool only reads files.
    Reads,
    /// The tool changes files.
    Edits,
    /// The tool runs a command, which may do anything.
    Runs,
    /// The tool sends a request to a server.
    Fetches,
    /// The tool acts on a command that an earlier call has started.
    Follows,
}

/// The rows of all built-in tools, in the order in which models get them.
pub static BUILTIN_TOOLS: [BuiltinToolSpec; 9] = [
    BuiltinToolSpec {
        tool: BuiltinTool::Bash,
        name: "bash",
        aliases: &["Bash"],
        description: "Runs a shell command in the working folder, and returns its exit code and its output (both streams in \
                      order). Each call has a new shell. With run_in_background it returns an id at once; the command ends \
                      with the turn.",
        schema: r#"{"type":"object","properties":{
            "command":{"type":"string","description":"The command line, for bash or sh."},
            "timeout":{"type":"integer","minimum":1,"maximum":600,"description":"Seconds until the command is ended (default 120)."},
            "run_in_background":{"type":"boolean","description":"Start the command and return its id."},
            "description":{"type":"string","description":"What the command does, in a few words."}},
            "required":["command"],"additionalProperties":false}"#,
        effect: BuiltinEffect::Runs,
        subject: Some("command"),
    },
    BuiltinToolSpec {
        tool: BuiltinTool::BashOutput,
        name: "bash_output",
        aliases: &["BashOutput"],
        description: "Returns the output of a command in the background since the last call, and whether it still runs.",
        schema: r#"{"type":"object","properties":{
            "id":{"type":"string","description":"The id that bash returned."},
            "wait":{"type":"integer","minimum":0,"maximum":600,"description":"Seconds to wait for the end of the command (default 0)."}},
            "required":["id"],"additionalProperties":false}"#,
        effect: BuiltinEffect::Follows,
        subject: None,
    },
    BuiltinToolSpec {
        tool: BuiltinTool::BashKill,
        name: "bash_kill",
        aliases: &["KillBash", "KillShell"],
        description: "Ends a command in the background and everything in its process group.",
        schema: r#"{"type":"object","properties":{
            "id":{"type":"string","description":"The id that bash returned."}},
            "required":["id"],"additionalProperties":false}"#,
        effect: BuiltinEffect::Follows,
        subject: None,
    },
    BuiltinToolSpec {
        tool: BuiltinTool::ReadFile,
        name: "read_file",
        aliases: &["Read"],
        description: "Reads a text file with line numbers, or an image (PNG, JPEG, GIF, WebP). Long files are read in parts \
                      with offset and limit.",
        schema: r#"{"type":"object","properties":{
            "path":{"type":"string","description":"The file: absolute, or relative to the working folder."},
            "offset":{"type":"integer","minimum":1,"description":"First line (default 1)."},
            "limit":{"type":"integer","minimum":1,"description":"Maximum number of lines (default 2000)."}},
            "required":["path"],"additionalProperties":false}"#,
        effect: BuiltinEffect::Reads,
        subject: Some("path"),
    },
    BuiltinToolSpec {
        tool: BuiltinTool::WriteFile,
        name: "write_file",
        aliases: &["Write"],
        description: "Writes a whole text file and creates its folders. A file that exists must have been read in this turn.",
        schema: r#"{"type":"object","properties":{
            "path":{"type":"string","description":"The file: absolute, or relative to the working folder."},
            "content":{"type":"string","description":"The whole text of the file."}},
            "required":["path","content"],"additionalProperties":false}"#,
        effect: BuiltinEffect::Edits,
        subject: Some("path"),
    },
    BuiltinToolSpec {
        tool: BuiltinTool::EditFile,
        name: "edit_file",
        aliases: &["Edit", "MultiEdit"],
        description: "Replaces exact passages of a text file, all or none. The file must have been read in this turn. Each \
                      old_string must occur exactly once, unless replace_all is true. Edits apply in order.",
        schema: r#"{"type":"object","properties":{
            "path":{"type":"string","description":"The file: absolute, or relative to the working folder."},
            "edits":{"type":"array","minItems":1,"items":{"type":"object","properties":{
                "old_string":{"type":"string","description":"The passage, exactly as in the file, without line numbers."},
                "new_string":{"type":"string","description":"Its replacement."},
                "replace_all":{"type":"boolean","description":"Replace every occurrence."}},
                "required":["old_string","new_string"],"additionalProperties":false}}},
            "required":["path","edits"],"additionalProperties":false}"#,
        effect: BuiltinEffect::Edits,
        subject: Some("path"),
    },
    BuiltinToolSpec {
        tool: BuiltinTool::ListFiles,
        name: "list_files",
        aliases: &["Glob", "LS"],
        description: "Lists files below a folder, sorted by path. Files that .gitignore names are left out.",
        schema: r#"{"type":"object","properties":{
            "path":{"type":"string","description":"The folder (default: the working folder)."},
            "pattern":{"type":"string","description":"Glob, such as src/**/*.rs (default: every file)."},
            "limit":{"type":"integer","minimum":1,"description":"Maximum number of files (default 500)."}},
            "additionalProperties":false}"#,
        effect: BuiltinEffect::Reads,
        subject: Some("path"),
    },
    BuiltinToolSpec {
        tool: BuiltinTool::SearchCode,
        name: "search_code",
        aliases: &["Grep"],
        description: "Searches the lines of files for a regular expression (Rust syntax). Files that .gitignore names and \
                      binary files are left out.",
        schema: r#"{"type":"object","properties":{
            "pattern":{"type":"string","description":"The regular expression."},
            "path":{"type":"string","description":"File or folder (default: the working folder)."},
            "glob":{"type":"string","description":"Only files that match, such as *.rs."},
            "context":{"type":"integer","minimum":0,"maximum":20,"description":"Lines before and after each match (default 0)."},
            "case_sensitive":{"type":"boolean","description":"Distinguish upper and lower case (default true)."},
            "limit":{"type":"integer","minimum":1,"description":"Maximum number of matching lines (default 200)."}},
            "required":["pattern"],"additionalProperties":false}"#,
        effect: BuiltinEffect::Reads,
        subject: Some("path"),
    },
    BuiltinToolSpec {
        tool: BuiltinTool::FetchUrl,
        name: "fetch_url",
        aliases: &["WebFetch"],
        description: "Fetches a page by http or https and returns its text. Addresses of this machine and of private networks \
                      are refused.",
        schema: r#"{"type":"object","properties":{
            "url":{"type":"string","description":"The address."}},
            "required":["url"],"additionalProperties":false}"#,
        effect: BuiltinEffect::Fetches,
        subject: Some("url"),
    },
];

impl BuiltinToolSpec {
    /// Returns true if the word is the name of the tool or an alias, in any case.
    pub fn is_named(&self, word: &str) -> bool {
        let mut names = std::iter::once(&self.name).chain(self.aliases);
        names.any(|name| name.eq_ignore_ascii_case(word))
    }
}

/// Returns the tool that models call by exactly this name.
pub fn builtin_tool(name: &str) -> Option<&'static BuiltinToolSpec> {
    BUILTIN_TOOLS.iter().find(|row| row.name == name)
}

/// Returns the tool that people call by this name or alias, in any case.
pub fn find_builtin_tool(word: &str) -> Option<&'static BuiltinToolSpec> {
    BUILTIN_TOOLS.iter().find(|row| row.is_named(word))
}

/// Returns the tools that an entry of `tools:` selects: a name, an alias, or a pattern with `*`.
pub fn matching_builtin_tools(entry: &str) -> Vec<&'static BuiltinToolSpec> {
    if !entry.contains('*') {
        return find_builtin_tool(entry).into_iter().collect();
    }
    let entry = entry.to_ascii_lowercase();
    BUILTIN_TOOLS.iter().filter(|row| matches_glob(&entry, row.name)).collect()
}

/// Returns true if a rule about the tool `named` holds for a call of `called`. Only calls of built-in tools have aliases.
pub fn names_same_tool(named: &str, called: &str) -> bool {
    named == called || builtin_tool(called).is_some_and(|row| row.is_named(named))
}

/// Compares a name with a pattern, whose `*` stands for any text.
fn matches_glob(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|tail| {
            tail.char_indices()
                .map(|(at, _)| at)
                .chain([tail.len()])
                .any(|at| matches_glob(rest, &tail[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_schema_is_an_object_that_names_the_subject_and_refuses_other_arguments() {
        for row in &BUILTIN_TOOLS {
            let schema: Value = serde_json::from_str(row.schema).unwrap();
            assert_eq!(schema["type"], "object", "{}", row.name);
            assert_eq!(schema["additionalProperties"], false, "{}", row.name);
            let subject = row.subject.is_none_or(|name| schema["properties"][name].is_object());
            assert!(subject, "{}", row.name);
        }
    }

    #[test]
    fn no_word_names_two_tools() {
        let words = BUILTIN_TOOLS.iter().flat_map(|row| row.aliases.iter().chain([&row.name]));
        let mut words: Vec<_> = words.map(|word| word.to_ascii_lowercase()).collect();
        words.sort_unstable();
        // `Bash` is an alias that differs from its tool in case alone, for messages.
        words.dedup();
        for word in words {
            let rows = BUILTIN_TOOLS.iter().filter(|row| row.is_named(&word));
            assert_eq!(rows.count(), 1, "{word}");
        }
    }

    #[test]
    fn a_rule_names_a_builtin_tool_in_any_case_and_other_tools_exactly() {
        for (named, called, expected) in [
            ("Bash", "bash", true),
            ("bash", "bash", true),
            ("READ", "read_file", true),
            ("Read_File", "read_file", true),
            ("Grep", "list_files", false),
            ("Bash", "Bash", true),
            ("bash", "Bash", false),
            ("Read", "read", false),
            ("mcp__x__y", "mcp__x__y", true),
        ] {
            assert_eq!(names_same_tool(named, called), expected, "{named} {called}");
        }
    }

    #[test]
    fn an_entry_of_tools_is_a_name_an_alias_or_a_pattern() {
        let names = |entry| -> Vec<_> {
            matching_builtin_tools(entry).iter().map(|row| row.name).collect()
        };
        assert_eq!(names("bash"), ["bash"]);
        assert_eq!(names("Grep"), ["search_code"]);
        assert_eq!(names("bash*"), ["bash", "bash_output", "bash_kill"]);
        assert_eq!(names("*_file"), ["read_file", "write_file", "edit_file"]);
        assert_eq!(names("*_f*e"), ["read_file", "write_file", "edit_file"]);
        assert_eq!(names("*").len(), BUILTIN_TOOLS.len());
        assert_eq!(names("nosuch*"), Vec::<&str>::new());
        assert_eq!(names("bas"), Vec::<&str>::new());
    }
}
