//! Questions to a person. The turn that asked ends; the answer wakes the agent.

use agent_worker_protocol::{
    EffectKey, Permission, QuestionId, ToolName,
    api::{AnswerRequest, AskReply, AskRequest, ListPage, QuestionView, SendReply},
};
use agent_worker_store::{Instance, NewQuestion, QuestionQuery, QuestionRow};
use agent_worker_workflow::nearest;

use crate::{
    access::instance_resolution::InstanceSelector,
    error::{Error, Result},
    kernel::{Kernel, Principal},
    messaging::size_limits,
    views::{ListingScope, page::PageRequest},
    voting::proposals::proposal_hops,
};

/// Maximum size of a question.
const MAX_QUESTION_BYTES: usize = 8 * 1024;
const MAX_QUESTION_OPTIONS: usize = 20;

/// Words the message that asks a question.
fn question_text(id: QuestionId, new: &NewQuestion) -> String {
    let options = match &new.options[..] {
        [] => String::new(),
        options => format!("\nOptions: {}", options.join(" | ")),
    };
    format!("[QUESTION] #{id} {}{options}", new.question)
}

/// Asks the user and stores the answers.
#[derive(Clone, Copy)]
pub struct Questions<'k>(pub(crate) &'k Kernel);

impl Questions<'_> {
    /// Asks a person a question, as an agent.
    pub async fn ask(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        request: AskRequest,
    ) -> Result<AskReply> {
        let Principal::Agent(attempt) = who else {
            who.require_authenticated()?;
            return Err(Error::Forbidden("only an agent may ask a person"));
        };
        self.0.pass_gate(who, ToolName::AskHuman).await?;
        let question = request.question.trim().to_owned();
        if question.is_empty() {
            return Err(Error::BadRequest("the question is empty".into()));
        }
        size_limits::check("a question", question.len(), MAX_QUESTION_BYTES)?;
        let options = request.options.unwrap_or_default();
        if options.len() > MAX_QUESTION_OPTIONS
            || options.iter().any(|option| option.trim().is_empty())
        {
            let message = format!(
                "at most {MAX_QUESTION_OPTIONS} options are allowed, and none may be empty"
            );
            return Err(Error::BadRequest(message));
        }
        let instance = self.0.resolve_own_instance(who, &InstanceSelector::default()).await?;
        let run_context = self.0.run_context(attempt.run).await?;
        let new = NewQuestion {
            question,
            options,
            text: question_text,
            hop_context: proposal_hops(who, &run_context),
        };
        let now = self.0.now();
        let once =
            self.0.store.question_ask(who.author_with_key(key)?, instance.id, new, now).await?;
        let deduplicated = once.is_deduplicated();
        let note = "End your turn now: the answer will wake you.".to_owned();
        Ok(AskReply { question: once.value(), note, deduplicated })
    }

    /// Answers a question and wakes the agent that asked.
    pub async fn answer(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        id: QuestionId,
        request: AnswerRequest,
    ) -> Result<SendReply> {
        if let Principal::Agent(_) = who {
            return Err(Error::Forbidden("only a person may answer an agent's question"));
        }
        who.require(Permission::Approve)?;
        let selector = InstanceSelector { target: request.target, project: request.project };
        let (instance, run) = self.0.live_instance(who, &selector).await?;
        let all = self.0.store.question_list(instance.id, QuestionQuery::All).await?;
        let asked = all.into_iter().find(|question| question.id == id);
        let missing = || Error::missing(format!("question #{id}"), &instance.instance);
        let asked = asked.ok_or_else(missing)?;
        if asked.run != run {
            return Err(Error::EarlierRun { question: id, instance: instance.instance });
        }
        let answer = match_option(&asked, request.answer)?;
        size_limits::check("an answer", answer.len(), size_limits::MAX_INLINE_BYTES)?;
        let (by, now) = (who.author_with_key(key)?, self.0.now());
        let once = self.0.store.question_answer(by, instance.id, id, answer, now).await?;
        self.0.end_hold(who).await;
        let woken = vec![asked.agent];
        let blockers = self.0.send_blockers(who, run, &woken).await?;
        Ok(SendReply {
            deduplicated: once.is_deduplicated(),
            seq: once.value(),
            instance: instance.instance,
            paused: blockers.paused,
            stopped: blockers.stopped,
            woken,
            cc: Vec::new(),
            unknown: Vec::new(),
            now: Vec::new(),
        })
    }

    /// Lists the open questions of agents.
    pub async fn list(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        scope: ListingScope,
        page: &PageRequest,
    ) -> Result<ListPage<QuestionView>> {
        let mut page = page.start("questions")?;
        for instance in self.0.instances_in_scope(who, selector, scope).await? {
            if page.is_complete() {
                break;
            }
            let open = self.0.questions_of(&instance).await?;
            for question in open {
                page.push((instance.id, question.id), question);
            }
        }
        page.finish()
    }
}

impl Kernel {
    /// Returns the open questions of an instance.
    pub(crate) async fn questions_of(&self, instance: &Instance) -> Result<Vec<QuestionView>> {
        let open = self.store.question_list(instance.id, QuestionQuery::Open).await?;
        let view =
            |QuestionRow { id, run, agent, question, options, asked, answer }| QuestionView {
                instance: instance.instance.clone(),
                project: instance.project.clone().into(),
                id,
                run,
                agent,
                question,
                options,
                asked,
                answer,
            };
        Ok(open.into_iter().map(view).collect())
    }
}

/// Returns the answer, in the spelling of the matching option if there are options.
fn match_option(question: &QuestionRow, answer: String) -> Result<String> {
    let typed = answer.trim();
    if typed.is_empty() {
        return Err(Error::BadRequest("the answer is empty".into()));
    }
    if question.options.is_empty() {
        return Ok(answer);
    }
    let found = question.options.iter().find(|option| option.eq_ignore_ascii_case(typed));
    found.cloned().ok_or_else(|| {
        let all = question.options.join(", ");
        let near = nearest(typed, question.options.iter().map(String::as_str));
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        Error::BadRequest(format!(
            "the answer to question #{} must be one of: {all}{near}",
            question.id
        ))
    })
}
