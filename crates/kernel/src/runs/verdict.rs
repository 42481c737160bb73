//! The verdict of a team about its run, set by the coordinator or the finisher. The run ends as before, when no work is
//! left; a verdict `failed` then makes a run that would be done fail.

use agent_worker_protocol::{
    EffectKey, Permission, ToolName,
    api::{FinishReply, FinishRequest},
};
use agent_worker_store::NewVerdict;

use crate::{
    error::{Error, Result},
    kernel::Principal,
    messaging::size_limits,
    runs::Runs,
};

/// Maximum size of a summary.
const MAX_SUMMARY_BYTES: usize = 8 * 1024;

impl Runs<'_> {
    /// Sets the verdict of the calling agent's run.
    pub async fn finish(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        request: FinishRequest,
    ) -> Result<FinishReply> {
        who.require(Permission::Send)?;
        let Principal::Agent(attempt) = who else {
            return Err(Error::Forbidden("only an agent may set the verdict of its run"));
        };
        let run_context = self.0.run_context(attempt.run).await?;
        if run_context.instance.is_global() {
            return Err(Error::Forbidden("standalone agents have no run with a result"));
        }
        self.0.pass_gate(who, ToolName::RunFinish).await?;
        let summary = request.summary.trim().to_owned();
        if summary.is_empty() {
            return Err(Error::BadRequest("the summary is empty".into()));
        }
        size_limits::check("a summary", summary.len(), MAX_SUMMARY_BYTES)?;
        let new = NewVerdict { outcome: request.outcome, summary };
        let (by, now) = (who.author_with_key(key)?, self.0.now());
        let once = self.0.store.verdict_set(by, run_context.workflow, new, now).await?;
        let deduplicated = once.is_deduplicated();
        Ok(FinishReply { verdict: once.value(), deduplicated })
    }
}
