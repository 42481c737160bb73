//! A worker as a program of its own: what `agent-worker worker` is, for this room's tests.

use agent_worker_worker::{Error, run_worker};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run_worker(std::io::stdin().lock()).await
}
