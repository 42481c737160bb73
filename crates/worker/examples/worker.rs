//! The worker as a standalone program, the equivalent of `agent-worker worker` for the tests of this crate.

use agent_worker_worker::{Error, run_worker};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run_worker(std::io::stdin().lock()).await
}
