//! Questions to a person. The turn that asked ends; the answer wakes whoever asked.

use agent_worker_protocol::{
    EffectKey, Permission, QuestionId, ToolName,
    api::{AnswerRequest, AskRequest, Asked, QuestionView, SendReply},
};
use agent_worker_store::{Error as StoreError, Instance, NewQuestion, Question, QuestionQuery};
use agent_worker_workflow::nearest;

use crate::{
    error::{Error, Result},
    kernel::{Kernel, Principal},
    place::Place,
    proposals::said,
    sizes,
    views::Breadth,
};

/// The longest a question is.
const QUESTION: usize = 8 * 1024;
const MOST_OPTIONS: usize = 20;

impl Kernel {
    /// Asks a person something, as an agent.
    pub async fn ask_human(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        request: AskRequest,
    ) -> Result<Asked> {
        let Principal::Agent(attempt) = who else {
            who.require_known()?;
            return Err(Error::Forbidden("only an agent asks a person"));
        };
        self.pass_gate(who, ToolName::AskHuman).await?;
        let question = request.question.trim().to_owned();
        if question.is_empty() {
            return Err(Error::BadRequest("an empty question asks nothing".into()));
        }
        sizes::check("a question", question.len(), QUESTION)?;
        let options = request.options.unwrap_or_default();
        if options.len() > MOST_OPTIONS || options.iter().any(|option| option.trim().is_empty()) {
            let message = format!("options are up to {MOST_OPTIONS} texts that say something");
            return Err(Error::BadRequest(message));
        }
        let instance = self.instance_of(who, &Place::default()).await?;
        let card = self.card(attempt.run).await?;
        let new = NewQuestion { question, options, said: said(who, &card) };
        let now = self.now();
        let once = self.store.question_ask(who.by(key)?, instance.id, new, now).await?;
        let deduplicated = once.is_deduplicated();
        let note = "End your turn now: the answer will wake you.".to_owned();
        Ok(Asked { question: once.value(), note, deduplicated })
    }

    /// Answers a question; whoever asked is woken.
    pub async fn question_answer(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        id: QuestionId,
        request: AnswerRequest,
    ) -> Result<SendReply> {
        if let Principal::Agent(_) = who {
            return Err(Error::Forbidden("what an agent asks a person is answered by a person"));
        }
        who.require(Permission::Approve)?;
        let place = Place { target: request.target, project: request.project };
        let (instance, run) = self.instance(who, &place).await?;
        let all = self.store.question_list(instance.id, QuestionQuery::All).await?;
        let asked = all.into_iter().find(|question| question.id == id);
        let asked = asked.ok_or(Error::Store(StoreError::NotFound("question")))?;
        let answer = fitting(&asked, request.answer)?;
        sizes::check("an answer", answer.len(), sizes::INLINE)?;
        let (by, now) = (who.by(key)?, self.now());
        let once = self.store.question_answer(by, instance.id, id, answer, now).await?;
        let woken = vec![asked.agent];
        let hindered = self.hindered(who, run, &woken).await?;
        Ok(SendReply {
            deduplicated: once.is_deduplicated(),
            seq: once.value(),
            instance: instance.instance,
            paused: hindered.paused,
            stopped: hindered.stopped,
            woken,
            cc: Vec::new(),
            unknown: Vec::new(),
        })
    }

    /// Lists what agents want to know from a person.
    pub async fn question_list(
        &self,
        who: &Principal,
        place: &Place,
        breadth: Breadth,
    ) -> Result<Vec<QuestionView>> {
        let mut views = Vec::new();
        for instance in self.instances(who, place, breadth).await? {
            views.extend(self.questions_of(&instance).await?);
        }
        Ok(views)
    }

    /// The open questions of an instance.
    pub(crate) async fn questions_of(&self, instance: &Instance) -> Result<Vec<QuestionView>> {
        let open = self.store.question_list(instance.id, QuestionQuery::Open).await?;
        let view = |Question { id, run, agent, question, options, asked, answer }| QuestionView {
            instance: instance.instance.clone(),
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

/// The answer, as one of the options spells it where there are any.
fn fitting(question: &Question, answer: String) -> Result<String> {
    let typed = answer.trim();
    if typed.is_empty() {
        return Err(Error::BadRequest("an empty answer says nothing".into()));
    }
    if question.options.is_empty() {
        return Ok(answer);
    }
    let found = question.options.iter().find(|option| option.eq_ignore_ascii_case(typed));
    found.cloned().ok_or_else(|| {
        let all = question.options.join(", ");
        let near = nearest(typed, question.options.iter().map(String::as_str));
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        Error::BadRequest(format!("question #{} is answered by one of: {all}{near}", question.id))
    })
}
