# Completion of agent-worker for bash.
_agent_worker() {
    local word about
    COMPREPLY=()
    while IFS=$'\t' read -r word about; do
        printf -v word '%q' "$word"
        COMPREPLY+=("$word")
    done < <("$1" complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    # Inside a folder the path goes on.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}
complete -F _agent_worker agent-worker
