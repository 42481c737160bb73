# Completion of agent-worker for fish.
function __agent_worker_complete
    agent-worker complete fish (commandline --cut-at-cursor --current-process | string collect) 2>/dev/null
end
complete --command agent-worker --no-files --arguments '(__agent_worker_complete)'
