//! The requests and questions of the agents that have no answer.

use std::collections::BTreeSet;

use agent_worker_protocol::{AgentName, ApprovalAnsweredData, ApprovalOpenData, Event, QuestionId};

use super::{
    RunProgress, TranscriptLine,
    agent_row::AgentStatusRow,
    event_text::{agent_notice, wanted_text},
};
use crate::{
    live::attention_prompt::OpenItemIds,
    output::{styled_line::Tone, text::one_line},
};

impl RunProgress {
    /// Returns the numbers of all approval requests and questions without an answer.
    pub(crate) fn open_item_ids(&self) -> OpenItemIds {
        open_ids(&self.agents.iter().collect::<Vec<_>>())
    }

    /// Returns the numbers of the approval requests and questions of one agent without an answer.
    pub(crate) fn open_item_ids_of(&self, agent: &AgentName) -> OpenItemIds {
        open_ids(&self.agents.iter().filter(|row| row.name == *agent).collect::<Vec<_>>())
    }

    /// Prints nothing: the message with the question follows.
    pub(super) fn question_opened(
        &mut self,
        event: &Event,
        question: QuestionId,
    ) -> Vec<TranscriptLine> {
        if let Some(row) = self.row_of(event) {
            row.open_questions.insert(question.get());
        }
        Vec::new()
    }

    /// Prints nothing: the message with the answer follows.
    pub(super) fn question_answered(
        &mut self,
        event: &Event,
        question: QuestionId,
    ) -> Vec<TranscriptLine> {
        if let Some(row) = self.row_of(event) {
            row.open_questions.remove(&question.get());
        }
        Vec::new()
    }

    pub(super) fn approval_opened(
        &mut self,
        event: &Event,
        data: &ApprovalOpenData,
    ) -> Vec<TranscriptLine> {
        if let Some(row) = self.row_of(event) {
            row.open_approvals.insert(data.approval.get());
        }
        let wanted = wanted_text(data, &self.folder);
        agent_notice(event, Tone::Warn, &format!("wants #{}: {wanted}", data.approval))
    }

    pub(super) fn approval_answered(
        &mut self,
        event: &Event,
        data: &ApprovalAnsweredData,
    ) -> Vec<TranscriptLine> {
        if let Some(row) = self.row_of(event) {
            row.open_approvals.remove(&data.approval.get());
        }
        let (tool, by) = (one_line(&data.tool), event.by.as_deref().unwrap_or_default());
        let basis = data.grant.map(|grant| format!(" (grant #{grant})")).unwrap_or_default();
        let text = format!("request #{} ({tool}) is {} by {by}{basis}", data.approval, data.answer);
        agent_notice(event, Tone::Plain, &text)
    }
}

fn open_ids(rows: &[&AgentStatusRow]) -> OpenItemIds {
    let ids = |of: fn(&AgentStatusRow) -> &BTreeSet<i64>| {
        rows.iter().flat_map(|row| of(row).iter().copied()).collect()
    };
    OpenItemIds {
        approvals: ids(|row| &row.open_approvals),
        questions: ids(|row| &row.open_questions),
    }
}
