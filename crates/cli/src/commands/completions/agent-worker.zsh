#compdef agent-worker
# Completion of agent-worker for zsh.
_agent-worker() {
    local line typed
    local -a values shown folders
    typed="${(j: :)${(@q)words[1,CURRENT-1]}} ${(q)PREFIX}"
    for line in "${(@f)$("${words[1]}" complete zsh "$typed" 2>/dev/null)}"; do
        [[ -n $line ]] || continue
        if [[ $line == */ ]]; then
            folders+=("$line")
        else
            values+=("${line%%$'\t'*}")
            shown+=("${line/$'\t'/  -- }")
        fi
    done
    (( $#values )) && compadd -l -d shown -a values
    (( $#folders )) && compadd -S '' -a folders
    return 0
}
if [[ "${funcstack[1]}" == "_agent-worker" ]]; then
    _agent-worker "$@"
elif (( $+functions[compdef] )); then
    compdef _agent-worker agent-worker
fi
