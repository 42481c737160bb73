//! The next steps for a person: open questions and approvals, a limit, failures of agents. Pure, except that a time is shown from now.

use agent_worker_backends::{BackendKind, BackendSpec, find_backend};
use agent_worker_protocol::{
    AgentName, AgentState, FailureClass, Millis, Outcome, PauseCause, RunState, Target,
    api::{AgentFailure, AgentView, LastFailure, QuestionView, ResumeRequest, RunView},
};

use crate::output::{clock, restart_method::RestartMethod, text::one_line};

/// Backend without output of its own.
const MOCK: &str = "mock";

/// Returns the next steps for a run, each step once; `questions` are the open ones that the caller has read.
pub(crate) fn run_next_steps(run: &RunView, questions: &[QuestionView]) -> Vec<String> {
    let mut steps: Vec<String> =
        run.agents.iter().flat_map(|agent| request_steps(agent, run, questions)).collect();
    steps.extend(run_limit_step(run));
    steps.extend(run.agents.iter().filter_map(|agent| {
        let failure = run.unrecovered_failures().find(|failed| failed.agent == agent.name);
        stopped_step(agent, run, failure)
    }));
    steps.extend(failure_steps(run, run.unrecovered_failures()));
    if steps.is_empty() && matches!(run.state, RunState::Ended { outcome: Outcome::Failed }) {
        steps.push(RestartMethod::of(run).after_fix());
    }
    steps
}

/// Returns the next steps for an agent of `run`.
pub(crate) fn agent_next_steps(
    agent: &AgentView,
    run: &RunView,
    questions: &[QuestionView],
) -> Vec<String> {
    let mut steps = request_steps(agent, run, questions);
    let failure = agent.last_failure.clone().filter(|failure| !failure.recovered);
    let failure = failure.map(|failure| AgentFailure { agent: agent.name.clone(), failure });
    steps.extend(run_limit_step(run).filter(|_| failure.is_some()));
    steps.extend(stopped_step(agent, run, failure.as_ref()));
    steps.extend(failure_steps(run, failure.iter()));
    steps
}

/// Returns a step for each open question and approval request of a live run.
fn request_steps(agent: &AgentView, run: &RunView, open: &[QuestionView]) -> Vec<String> {
    let (questions, approvals) = match &agent.state {
        AgentState::Waiting { questions, approvals, .. } => (&questions[..], &approvals[..]),
        _ => (&[][..], &[][..]),
    };
    // At a limit the agent's state names the limit, and its questions stay open.
    let is_its = |question: &&QuestionView| {
        run.state.is_live() && question.run == run.run && question.agent == agent.name
    };
    let others = open.iter().filter(is_its).map(|question| question.id);
    let others = others.filter(|id| !questions.contains(id));
    let questions: Vec<_> = questions.iter().copied().chain(others).collect();
    let (name, target) = (&agent.name, Target::instance(&run.instance));
    let approvals = approvals.iter().map(|id| {
        format!(
            "approve request {id} of {name}: agent-worker approve {id} --target {target}; \
             or deny it: agent-worker deny {id} --target {target}"
        )
    });
    let questions = questions.iter().map(|id| {
        let text = open.iter().find(|question| question.id == *id);
        let text = text.map(|question| format!(" ({})", one_line(&question.question)));
        let text = text.unwrap_or_default();
        format!(
            "answer question {id} of {name}{text}: agent-worker answer {id} \"…\" --target {target}"
        )
    });
    approvals.chain(questions).collect()
}

/// Returns the step at a limit, which blocks every agent of the run.
fn run_limit_step(run: &RunView) -> Option<String> {
    let RunState::Paused { cause: PauseCause::Limit { room_at, .. } } = &run.state else {
        return None;
    };
    Some(limit_step(&Target::instance(&run.instance), &run.needs, *room_at))
}

/// Returns the step at a limit: the command that raises it, and the time from which the run continues by itself.
pub(crate) fn limit_step(
    target: &Target,
    needs: &ResumeRequest,
    room_at: Option<Millis>,
) -> String {
    let raise = format!("raise the limit: {}", needs.to_command(target));
    match room_at {
        Some(at) => format!("{}, or {raise}", wait_text(at)),
        None => raise,
    }
}

/// Returns the step of waiting for a run that is paused at a limit and continues by itself.
pub(crate) fn wait_step(state: &RunState) -> Option<String> {
    let RunState::Paused { cause } = state else { return None };
    cause.room_at().map(wait_text)
}

fn wait_text(room_at: Millis) -> String {
    let at = clock::format_local_time(room_at, clock::now());
    format!("wait until {at}, when the run continues by itself")
}

/// Returns the step for an agent that the daemon has stopped, for example at its own limit. A failure has steps of its own, and
/// a person who has stopped an agent needs none.
fn stopped_step(
    agent: &AgentView,
    run: &RunView,
    failure: Option<&AgentFailure>,
) -> Option<String> {
    let AgentState::Stopped { why } = &agent.state else { return None };
    let needs_step = run.state.is_live() && failure.is_none() && !why.starts_with("stopped ");
    let target = Target::agent(agent.name.clone(), &run.instance);
    needs_step.then(|| format!("resume the agent: agent-worker resume {target}"))
}

/// Returns the steps after these failures. An ended run needs one restart after all of them.
fn failure_steps<'a>(
    run: &RunView,
    failures: impl Iterator<Item = &'a AgentFailure>,
) -> Vec<String> {
    let is_at_limit = run_limit_step(run).is_some();
    let failures = failures.filter(|failed| match failed.failure.class {
        // The provider may accept requests again by then.
        FailureClass::RateLimited | FailureClass::Transient => !is_at_limit,
        _ => true,
    });
    let mut fixes: Vec<Fix> = Vec::new();
    for AgentFailure { agent, failure } in failures {
        let fix = FailedAgent::new(agent, run).fix(failure);
        if !fixes.contains(&fix) {
            fixes.push(fix);
        }
    }
    match &fixes[..] {
        [] => Vec::new(),
        [one] => vec![one.with_retry()],
        several if run.state.is_live() => several.iter().map(Fix::with_retry).collect(),
        several => {
            let fixes = several.iter().map(|fix| fix.what.clone());
            fixes.chain([format!("then: {}", several[0].retry)]).collect()
        }
    }
}

/// A fix of a failure and the command after it.
#[derive(PartialEq, Eq)]
struct Fix {
    what: String,
    retry: String,
}

impl Fix {
    fn with_retry(&self) -> String {
        let Self { what, retry } = self;
        // A comma after a command would look like a part of it.
        let last = what.rsplit("; ").next().unwrap_or(what);
        let separator = if last.contains(": ") { ";" } else { "," };
        format!("{what}{separator} then: {retry}")
    }
}

/// The agent that failed, and its backend if that is known.
struct FailedAgent<'a> {
    name: &'a AgentName,
    backend_word: &'a str,
    backend: Option<&'static BackendSpec>,
    run: &'a RunView,
}

impl<'a> FailedAgent<'a> {
    fn new(name: &'a AgentName, run: &'a RunView) -> Self {
        let view = run.agents.iter().find(|view| view.name == *name);
        let backend_word = view.map_or("", |view| &view.backend);
        Self { name, backend_word, backend: find_backend(backend_word), run }
    }

    fn fix(&self, failure: &LastFailure) -> Fix {
        let Self { name, .. } = self;
        let (what, retry) = match failure.class {
            FailureClass::Auth => return self.credentials_fix(),
            FailureClass::Billing => {
                (format!("add credit to the account of {name}"), self.resume())
            }
            FailureClass::RateLimited => {
                (format!("wait until the provider of {name} accepts requests"), self.resume())
            }
            FailureClass::Transient => {
                (format!("check that the provider of {name} can be reached"), self.resume())
            }
            FailureClass::Permission => {
                (format!("allow the call in `permissions` of {name}"), self.restart())
            }
            FailureClass::Timeout => {
                (format!("raise `timeout` or `silence` of {name}"), self.restart())
            }
            FailureClass::ContextOverflow => {
                (format!("shorten the messages for {name}"), self.restart())
            }
            FailureClass::Output => (
                format!("relax `output_schema` of {name}, or describe the answer in its prompt"),
                self.restart(),
            ),
            FailureClass::MissingProgram => (self.program_fix(&failure.message), self.resume()),
            FailureClass::OutdatedProgram => (self.update_fix(), self.resume()),
            FailureClass::Crash | FailureClass::Fatal => (self.output_fix(), self.resume()),
        };
        Fix { what, retry }
    }

    /// Names the correction of a program that cannot start, with which the worker's message ends. A path of the user's
    /// own needs no installation.
    fn program_fix(&self, message: &str) -> String {
        let Self { name, .. } = self;
        let correction = message.split_once("; ").map(|(_, correction)| correction);
        if let Some(install) = correction.and_then(|it| it.strip_prefix("install it: ")) {
            return format!("install the program of {name}: {install}");
        }
        if let Some(command) = correction.and_then(|it| it.strip_prefix("make it executable: ")) {
            return format!("make the program of {name} executable: {command}");
        }
        match correction {
            Some(correction) => format!("for {name}: {correction}"),
            None if message.ends_with(" does not exist") => {
                format!("correct the path in `command` of {name}")
            }
            None => match self.backend.and_then(|backend| backend.install) {
                Some(install) => format!("install the program of {name}: {install}"),
                None => format!("install the program of {name}"),
            },
        }
    }

    /// Names the command that updates the program.
    fn update_fix(&self) -> String {
        let Self { name, .. } = self;
        match self.backend.and_then(|backend| backend.install) {
            Some(install) => format!("update the program of {name}: {install}"),
            None => format!("update the program of {name}"),
        }
    }

    /// Names the program, and its output if the run keeps one; a program may fail without any.
    fn output_fix(&self) -> String {
        let Self { name, .. } = self;
        if self.backend_word == MOCK {
            return format!("correct the mock rules of {name}");
        }
        if self.run.memory && !self.run.state.is_live() {
            return format!("fix the cause of the failure of {name}");
        }
        let logs = Target::agent((*name).clone(), &self.run.instance);
        format!("check the program of {name}; its output, if any: agent-worker logs {logs}")
    }

    /// Names the variable of the key and the program that logs in. A live run keeps the variables that it started
    /// with, so only a login takes effect in it.
    fn credentials_fix(&self) -> Fix {
        let Self { name, .. } = self;
        if self.backend.is_some_and(|backend| backend.kind == BackendKind::Api) {
            let what = format!("set a valid key of the provider of {name}");
            return Fix { what, retry: self.restart() };
        }
        let Some(key) = self.backend.and_then(|backend| backend.key_variables.first()) else {
            // The key may be in a file or a service, where a live run finds it.
            return Fix { what: format!("give {name} a valid key"), retry: self.resume() };
        };
        let key = format!("set {key} to a valid key");
        let login = self.backend.filter(|backend| !backend.login.files.is_empty());
        let login = login.and_then(|backend| backend.programs.first());
        let (resume, restart) = (self.resume(), self.restart());
        match login {
            Some(program) if resume == restart => {
                Fix { what: format!("{key} or log in to `{program}`"), retry: restart }
            }
            Some(program) => Fix {
                what: format!("log in to `{program}`, then: {resume}; or {key}"),
                retry: restart,
            },
            None => Fix { what: key, retry: restart },
        }
    }

    /// Returns the command that lets the agent try again.
    fn resume(&self) -> String {
        if self.run.state.is_live() {
            let agent = Target::agent(self.name.clone(), &self.run.instance);
            format!("agent-worker resume {agent}")
        } else {
            self.restart()
        }
    }

    /// Returns the action that lets the agent try again with another file or other variables.
    fn restart(&self) -> String {
        if self.run.instance.is_global() {
            format!("agent-worker agent end {}, and create it again", self.name)
        } else {
            RestartMethod::of(self.run).action()
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{LimitKind, QuestionId};

    use super::*;
    use crate::output::samples;

    fn run(backend: &str, state: RunState, failures: Vec<AgentFailure>) -> RunView {
        let mut run = RunView { state, last_failures: failures, ..samples::run() };
        for agent in &mut run.agents {
            backend.clone_into(&mut agent.backend);
        }
        run
    }

    fn failed(backend: &str, failures: Vec<AgentFailure>) -> RunView {
        run(backend, RunState::Ended { outcome: Outcome::Failed }, failures)
    }

    fn missing(agent: &str, message: &str) -> AgentFailure {
        let failed = samples::failure(agent, FailureClass::MissingProgram);
        let failure = LastFailure { message: message.into(), ..failed.failure };
        AgentFailure { failure, ..failed }
    }

    #[test]
    fn each_class_of_failure_has_its_next_step() {
        for (class, backend, expected) in [
            (
                FailureClass::Auth,
                "claude",
                "set ANTHROPIC_API_KEY to a valid key or log in to `claude`, then: agent-worker restart @review:pr-1",
            ),
            (
                FailureClass::Auth,
                "command",
                "give coder a valid key, then: agent-worker restart @review:pr-1",
            ),
            (
                FailureClass::MissingProgram,
                "codex",
                "install the program of coder: npm install --global @openai/codex; \
                 then: agent-worker restart @review:pr-1",
            ),
            (
                FailureClass::Timeout,
                "mock",
                "raise `timeout` or `silence` of coder, then: agent-worker restart @review:pr-1",
            ),
            (
                FailureClass::Crash,
                "command",
                "check the program of coder; its output, if any: agent-worker logs coder@review:pr-1; \
                 then: agent-worker restart @review:pr-1",
            ),
            (
                FailureClass::Crash,
                "mock",
                "correct the mock rules of coder, then: agent-worker restart @review:pr-1",
            ),
        ] {
            let view = failed(backend, vec![samples::failure("coder", class)]);
            assert_eq!(run_next_steps(&view, &[]), [expected]);
        }
    }

    #[test]
    fn a_program_that_replaces_that_of_the_backend_is_not_installed() {
        let failures = vec![missing("coder", "the program `/p/none` does not exist")];
        let step =
            "correct the path in `command` of coder, then: agent-worker restart @review:pr-1";
        assert_eq!(run_next_steps(&failed("claude", failures), &[]), [step]);
    }

    #[test]
    fn several_failures_of_an_ended_run_need_one_restart() {
        let failures = vec![
            missing("coder", "there is no program `gemini`; install it: npm install gemini"),
            missing("reviewer", "`./a.sh` is not executable; make it executable: chmod +x a.sh"),
            missing("tester", "the program `/p/b.sh` does not exist"),
            missing(
                "writer",
                "`./c.sh` needs the interpreter `x`, which does not exist; install x",
            ),
        ];
        let expected = [
            "install the program of coder: npm install gemini",
            "make the program of reviewer executable: chmod +x a.sh",
            "correct the path in `command` of tester",
            "for writer: install x",
            "then: agent-worker restart @review:pr-1",
        ];
        assert_eq!(run_next_steps(&failed("acp", failures), &[]), expected);
    }

    #[test]
    fn a_live_run_continues_with_its_agent_and_a_recovered_failure_needs_no_step() {
        let refused = samples::failure("coder", FailureClass::Auth);
        let view = run("claude", RunState::Running, vec![refused.clone()]);
        let step = "log in to `claude`, then: agent-worker resume coder@review:pr-1; \
                    or set ANTHROPIC_API_KEY to a valid key, then: agent-worker restart @review:pr-1";
        assert_eq!(run_next_steps(&view, &[]), [step]);
        let last_failure = Some(refused.failure.clone());
        let agent = AgentView { last_failure, ..view.agents[0].clone() };
        assert_eq!(agent_next_steps(&agent, &view, &[]), [step]);
        let failure = LastFailure { recovered: true, ..refused.failure.clone() };
        let recovered = AgentFailure { failure: failure.clone(), ..refused };
        let view = run("claude", RunState::Running, vec![recovered]);
        assert_eq!(run_next_steps(&view, &[]).len(), 0);
        let agent = AgentView { last_failure: Some(failure), ..agent };
        assert_eq!(agent_next_steps(&agent, &view, &[]).len(), 0);
    }

    #[test]
    fn a_key_that_no_variable_holds_needs_no_restart_of_a_live_run() {
        let refused = samples::failure("coder", FailureClass::Auth);
        let view = run("command", RunState::Running, vec![refused]);
        let step = "give coder a valid key, then: agent-worker resume coder@review:pr-1";
        assert_eq!(run_next_steps(&view, &[]), [step]);
    }

    #[test]
    fn a_run_at_a_limit_needs_a_higher_one_before_its_agent_can_try_again() {
        let cause = PauseCause::limit(LimitKind::Wall, "3s".to_owned());
        let refused = samples::failure("coder", FailureClass::RateLimited);
        let needs = ResumeRequest { wall: Some("2h".parse().unwrap()), ..Default::default() };
        let view = run("claude", RunState::Paused { cause }, vec![refused.clone()]);
        let view = RunView { needs, ..view };
        let step = "raise the limit: agent-worker resume @review:pr-1 --wall 2h";
        assert_eq!(run_next_steps(&view, &[]), [step]);
        let agent = AgentView { last_failure: Some(refused.failure), ..view.agents[0].clone() };
        assert_eq!(agent_next_steps(&agent, &view, &[]), [step]);
    }

    #[test]
    fn a_run_whose_limit_has_room_again_later_may_wait_for_it() {
        let (limit, detail, at) = (LimitKind::Cost, "$20 of $20".to_owned(), samples::at(60));
        let cause = PauseCause::Limit { limit, detail, room_at: Some(at), next_call: None };
        let needs = ResumeRequest { cost_micros: Some(40_000_000), ..Default::default() };
        let view = RunView { needs, ..run("mock", RunState::Paused { cause }, Vec::new()) };
        let at = clock::format_local_time(at, clock::now());
        let step = format!(
            "wait until {at}, when the run continues by itself, \
             or raise the limit: agent-worker resume @review:pr-1 --cost-usd 40"
        );
        assert_eq!(run_next_steps(&view, &[]), [step]);
    }

    #[test]
    fn an_agent_at_its_own_limit_is_resumed_by_a_person() {
        let mut view = run("mock", RunState::Running, Vec::new());
        let why = "cost limit ($20 spent in the last 24 hours, $20 allowed)".to_owned();
        view.agents[0].state = AgentState::Stopped { why };
        let step = "resume the agent: agent-worker resume coder@review:pr-1";
        assert_eq!(run_next_steps(&view, &[]), [step]);
        assert_eq!(agent_next_steps(&view.agents[0], &view, &[]), [step]);
        view.last_failures = vec![samples::failure("coder", FailureClass::Billing)];
        let [fix] = &run_next_steps(&view, &[])[..] else { panic!("one step") };
        assert!(fix.starts_with("add credit"), "{fix}");
        view.last_failures.clear();
        view.agents[0].state = AgentState::Stopped { why: "stopped by the user".to_owned() };
        assert!(run_next_steps(&view, &[]).is_empty());
    }

    #[test]
    fn a_question_and_an_approval_are_steps() {
        let waiting = AgentState::Waiting {
            questions: vec![QuestionId::new(2)],
            approvals: vec![agent_worker_protocol::ApprovalId::new(1)],
            asked: samples::at(1),
        };
        let mut view = run("mock", RunState::Paused { cause: PauseCause::Human }, Vec::new());
        view.agents[0].state = waiting;
        let question = QuestionView {
            instance: view.instance.clone(),
            project: "/p".into(),
            id: QuestionId::new(2),
            run: view.run,
            agent: samples::agent_name("coder"),
            question: "which\ncolor?".into(),
            options: Vec::new(),
            asked: samples::at(1),
            answer: None,
        };
        let expected = [
            "approve request 1 of coder: agent-worker approve 1 --target @review:pr-1; \
             or deny it: agent-worker deny 1 --target @review:pr-1",
            "answer question 2 of coder (which color?): agent-worker answer 2 \"…\" --target @review:pr-1",
        ];
        assert_eq!(run_next_steps(&view, std::slice::from_ref(&question)), expected);
        // At a limit the state of the agent does not name its question.
        let cause = PauseCause::limit(LimitKind::Wall, "2h".to_owned());
        view.agents[0].state = AgentState::Paused { why: cause.to_string() };
        view.state = RunState::Paused { cause };
        let limit = "raise the limit: agent-worker resume @review:pr-1";
        assert_eq!(run_next_steps(&view, &[question]), [expected[1], limit]);
    }

    #[test]
    fn a_failed_run_without_a_failed_agent_is_restarted_after_a_fix() {
        let step = "fix the cause and restart: agent-worker restart @review:pr-1";
        assert_eq!(run_next_steps(&failed("mock", Vec::new()), &[]), [step]);
        assert_eq!(run_next_steps(&samples::run(), &[]).len(), 0);
    }
}
