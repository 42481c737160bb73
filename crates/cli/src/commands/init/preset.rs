//! The presets of `init`: the choice among them, and the text of a file. Pure.

/// A first file for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preset {
    /// Two scripted agents, which need no program and no key.
    Mock,
    /// Two agents of one program, which write a note and check it.
    Pair(Program),
    /// The same with a model's API.
    Api,
    /// A review of the changes in a project.
    Review,
    /// A standing team.
    Office,
    /// A review in a CI service.
    Ci,
}

/// The program of the agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Claude,
    Codex,
    Gemini,
}

/// A model that the environment has a key for, or the first choice without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelChoice {
    /// Name of the model, as `provider/model`.
    pub(super) model: String,
    /// The variable that holds the key, or that should.
    pub(super) variable: String,
    /// The reason for or against the model.
    pub(super) why: String,
    /// True if the provider can be called as it is.
    pub(super) is_usable: bool,
}

/// A preset with its program, and the reason for the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) preset: Preset,
    /// The program of the agents; none for scripted agents.
    pub(super) program: Option<Program>,
    /// The model of agents without a program.
    pub(super) model: Option<ModelChoice>,
    pub(super) reason: String,
}

/// Chooses by the flag, by the installed programs, of which the first in the order of [`Program::ALL`] is used, and by the model that
/// can be called.
pub(super) fn choose(
    requested: Option<Preset>,
    installed: &[Program],
    model: &ModelChoice,
) -> Choice {
    let found = Program::ALL.into_iter().find(|program| installed.contains(program));
    let (preset, program, reason) = match (requested, found) {
        (Some(preset @ Preset::Mock), _) => {
            (preset, None, "scripted agents: --mock was given".to_owned())
        }
        (Some(preset @ Preset::Pair(program)), _) => {
            let (title, name) = (program.title(), program.backend());
            (preset, Some(program), format!("agents of {title}: --{name} was given"))
        }
        (Some(Preset::Api), _) => (Preset::Api, None, model.reason()),
        (Some(preset), Some(program)) => {
            (preset, Some(program), format!("agents of {}: it is installed", program.title()))
        }
        (Some(preset), None) => {
            let program = Program::Claude;
            (preset, Some(program), format!("agents of {}; {NONE_INSTALLED}", program.title()))
        }
        (None, Some(program)) => {
            let reason = format!("agents of {}: it is installed", program.title());
            (Preset::Pair(program), Some(program), reason)
        }
        (None, None) if model.is_usable => {
            (Preset::Api, None, format!("{}; {NONE_INSTALLED}", model.reason()))
        }
        (None, None) => (Preset::Mock, None, format!("scripted agents: {NONE_INSTALLED}")),
    };
    let model = (preset == Preset::Api).then(|| model.clone());
    Choice { preset, program, model, reason }
}

const NONE_INSTALLED: &str = "neither Claude Code nor Codex nor Gemini CLI is installed";

impl ModelChoice {
    fn reason(&self) -> String {
        let Self { model, why, .. } = self;
        let sign = if self.is_usable { ':' } else { ';' };
        format!("agents of {model}{sign} {why}")
    }
}

impl Program {
    /// The programs, the first choice first.
    pub(super) const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Gemini];

    /// Returns the name of the backend.
    pub(super) fn backend(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
        }
    }

    fn key_variable(self) -> &'static str {
        match self {
            Self::Claude => "ANTHROPIC_API_KEY",
            Self::Codex => "OPENAI_API_KEY",
            Self::Gemini => "GEMINI_API_KEY",
        }
    }

    /// Returns the line of an agent that reads the project and asks no person.
    fn read_only(self) -> &'static str {
        match self {
            Self::Claude => "permissions: { default: deny, allow: [Read, Glob, Grep] }",
            Self::Codex => "permissions: { default: deny }",
            Self::Gemini => {
                "# Gemini CLI refuses the calls that it would ask about, such as edits and commands."
            }
        }
    }
}

impl Preset {
    /// Returns the word for programs.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Mock => "mock",
            Self::Pair(program) => program.backend(),
            Self::Api => "api",
            Self::Review => "review",
            Self::Office => "office",
            Self::Ci => "ci",
        }
    }

    /// Returns the name of the file if none is given.
    pub(super) fn default_file(self) -> &'static str {
        match self {
            Self::Mock | Self::Pair(_) | Self::Api => "team.yaml",
            Self::Review => "review.yaml",
            Self::Office => "office.yaml",
            Self::Ci => "ci.yaml",
        }
    }

    /// Returns the command that starts the team.
    pub(super) fn command(self, file: &str) -> String {
        match self {
            Self::Mock | Self::Pair(_) | Self::Api | Self::Review => {
                format!("agent-worker run {file}")
            }
            Self::Office => format!("agent-worker up {file}"),
            Self::Ci => format!("agent-worker run {file} --ci"),
        }
    }

    fn template(self) -> &'static str {
        match self {
            Self::Mock => include_str!("mock.yaml"),
            Self::Pair(Program::Claude) => include_str!("claude.yaml"),
            Self::Pair(Program::Codex) => include_str!("codex.yaml"),
            Self::Pair(Program::Gemini) => include_str!("gemini.yaml"),
            Self::Api => include_str!("api.yaml"),
            Self::Review => include_str!("review.yaml"),
            Self::Office => include_str!("office.yaml"),
            Self::Ci => include_str!("ci.yaml"),
        }
    }
}

impl Choice {
    /// Returns the name of the backend of all agents.
    pub(super) fn backend(&self) -> &'static str {
        match (self.program, &self.model) {
            (Some(program), _) => program.backend(),
            (None, Some(_)) => "api",
            (None, None) => "mock",
        }
    }

    /// Returns the text of the file, which mentions its own path.
    pub(super) fn text(&self, file: &str) -> String {
        let text = self.preset.template();
        let text = match self.program {
            None => text.to_owned(),
            Some(program) => text
                .replace("KEY_VARIABLE", program.key_variable())
                .replace("READ_ONLY", program.read_only())
                .replace("PROGRAM", program.backend()),
        };
        let text = match &self.model {
            None => text,
            Some(ModelChoice { model, variable, .. }) => {
                text.replace("KEY_VARIABLE", variable).replace("MODEL_NAME", model)
            }
        };
        // Last, because a path may contain one of the other words.
        text.replace("FILE", file)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const REQUESTS: [Option<Preset>; 9] = [
        None,
        Some(Preset::Mock),
        Some(Preset::Pair(Program::Claude)),
        Some(Preset::Pair(Program::Codex)),
        Some(Preset::Pair(Program::Gemini)),
        Some(Preset::Api),
        Some(Preset::Review),
        Some(Preset::Office),
        Some(Preset::Ci),
    ];

    /// Returns a model without a key.
    fn model() -> ModelChoice {
        let (model, variable) = ("anthropic/claude-sonnet-5-5".into(), "ANTHROPIC_API_KEY".into());
        ModelChoice { model, variable, why: "it is".into(), is_usable: false }
    }

    #[test]
    fn a_model_with_a_key_is_used_if_it_is_asked_for_or_no_program_is_installed() {
        for (requested, installed, is_usable, expected) in [
            (None, &[][..], true, Preset::Api),
            (None, &[], false, Preset::Mock),
            (None, &[Program::Codex], true, Preset::Pair(Program::Codex)),
            (Some(Preset::Api), &[Program::Codex], true, Preset::Api),
            (Some(Preset::Api), &[], false, Preset::Api),
            (Some(Preset::Mock), &[], true, Preset::Mock),
        ] {
            let choice = choose(requested, installed, &ModelChoice { is_usable, ..model() });
            assert_eq!(choice.preset, expected, "{requested:?} {installed:?} {is_usable}");
            assert_eq!(choice.model.is_some(), expected == Preset::Api, "{requested:?}");
        }
    }

    #[test]
    fn a_flag_decides_and_without_one_the_first_installed_program() {
        use Program::{Claude, Codex, Gemini};
        for (requested, installed, expected) in [
            (None, &[][..], (Preset::Mock, None)),
            (None, &[Gemini], (Preset::Pair(Gemini), Some(Gemini))),
            (None, &[Gemini, Codex], (Preset::Pair(Codex), Some(Codex))),
            (None, &[Gemini, Codex, Claude], (Preset::Pair(Claude), Some(Claude))),
            (Some(Preset::Mock), &[Claude], (Preset::Mock, None)),
            (Some(Preset::Pair(Gemini)), &[Claude], (Preset::Pair(Gemini), Some(Gemini))),
            (Some(Preset::Review), &[], (Preset::Review, Some(Claude))),
            (Some(Preset::Review), &[Codex], (Preset::Review, Some(Codex))),
            (Some(Preset::Office), &[Gemini], (Preset::Office, Some(Gemini))),
            (Some(Preset::Ci), &[Gemini, Claude], (Preset::Ci, Some(Claude))),
        ] {
            let Choice { preset, program, .. } = choose(requested, installed, &model());
            assert_eq!((preset, program), expected, "{requested:?} {installed:?}");
        }
    }

    #[test]
    fn every_preset_is_valid_with_every_program_and_has_no_placeholder() {
        for requested in REQUESTS {
            for installed in [&[][..], &[Program::Claude], &[Program::Codex], &[Program::Gemini]] {
                let choice = choose(requested, installed, &model());
                let text = choice.text("here/first.yaml");
                let parsed = agent_worker_workflow::parse(&text, Path::new("first.yaml"));
                let workflow = parsed.unwrap_or_else(|error| panic!("{choice:?}: {error:?}"));
                assert!(workflow.kickoff_problem().is_none(), "{choice:?}");
                assert_eq!(workflow.unknown_mentions().len(), 0, "{choice:?}");
                assert!(workflow.params.iter().all(|param| !param.required), "{choice:?}");
                let backend = choice.backend();
                let backends = workflow.agents.iter().map(|agent| agent.backend.word());
                assert!(backends.into_iter().all(|word| word == backend), "{choice:?}");
                for placeholder in ["FILE", "PROGRAM", "READ_ONLY", "KEY_VARIABLE", "MODEL_NAME"] {
                    assert!(!text.contains(placeholder), "{choice:?}: {placeholder}");
                }
                assert!(text.contains("here/first.yaml"), "{choice:?}");
            }
        }
    }

    #[test]
    fn a_path_is_written_as_it_is() {
        let text = choose(Some(Preset::Ci), &[], &model()).text("PROGRAM-READ_ONLY.yaml");
        assert!(text.contains("agent-worker run PROGRAM-READ_ONLY.yaml --ci"), "{text}");
    }

    #[test]
    fn the_key_is_that_of_the_backend() {
        for program in Program::ALL {
            let spec = agent_worker_backends::find_backend(program.backend()).unwrap();
            assert!(spec.key_variables.contains(&program.key_variable()), "{program:?}");
        }
    }
}
