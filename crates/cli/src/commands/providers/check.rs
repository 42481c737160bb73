//! `agent-worker providers check`: one smallest request to a provider.

use std::time::Duration;

use agent_worker_backends::{ApiModel, ModelPrice, api_model, model_prices};
use agent_worker_models::{
    ConversationEntry, ModelAnswer, ModelClient, ModelPrompt, ProviderEndpoint, ProviderOverrides,
    RequestSettings, UserPart, wire_of,
};
use agent_worker_protocol::{FailureClass, Keyword as _};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use crate::{
    error::{CliError, CliErrorKind},
    input::context::{CommandContext, Format, OutputArgs},
    output::{
        styled_line::{StyledLine, Tone},
        verdict::RunVerdict,
    },
};

/// Maximum duration of the check; a local server may have to load its model first.
const CHECK_TIMEOUT: Duration = Duration::from_mins(2);
/// Maximum number of tokens of the answer: the least that every API accepts.
const MAX_ANSWER_TOKENS: u32 = 16;
const PROMPT: &str = "Reply with: ok";

/// Check a provider with one small request, which may cost money
///
/// The request has a few words and allows an answer of 16 tokens. Key and endpoint come from the environment, as for an agent
/// with `backend: api`. Exits with 1 if the provider refuses the request.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker providers check anthropic")]
pub(crate) struct Args {
    /// Name of the provider, as in `agent-worker providers`
    provider: String,
    /// Model to ask [default: the cheapest model of the provider with a known price]
    #[arg(long, short)]
    model: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The result of a check.
#[derive(Debug, Serialize)]
struct CheckReport {
    provider: String,
    model: String,
    endpoint: String,
    ok: bool,
    millis: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// Class of the failure.
    class: Option<&'static str>,
    /// Explanation of the failure.
    why: Option<String>,
}

/// Runs the command.
pub(super) async fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let ApiModel { provider, model } = checked_model(args)?;
    let env = &ctx.settings.env;
    let usage = |error: &dyn std::fmt::Display| CliError::new(CliErrorKind::Failed, error);
    let endpoint = ProviderEndpoint::resolve(&provider, &ProviderOverrides::default(), env)
        .map_err(|error| usage(&error))?;
    let client = ModelClient::new(env).map_err(|error| usage(&error))?;
    let url = endpoint.base_url.clone();
    ctx.console.note(&format!(
        "asks {model} at {url} for at most {MAX_ANSWER_TOKENS} tokens, which may cost money"
    ))?;
    let began = Instant::now();
    let answer = ask(&client, &endpoint, &model).await;
    let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let report = CheckReport {
        provider,
        model,
        endpoint: url,
        ok: answer.is_ok(),
        millis,
        input_tokens: answer.as_ref().map_or(0, |answer| answer.tokens.input),
        output_tokens: answer.as_ref().map_or(0, |answer| answer.tokens.output),
        class: answer.as_ref().err().map(|(class, _)| class.word()),
        why: answer.err().map(|(_, why)| why),
    };
    match args.output.format() {
        Format::Json => ctx.console.print_json(&report)?,
        Format::Text => ctx.console.print_line(&report.line())?,
    }
    Ok(if report.ok { RunVerdict::Done } else { RunVerdict::Failed })
}

impl CheckReport {
    fn line(&self) -> StyledLine {
        if let (Some(class), Some(why)) = (&self.class, &self.why) {
            let rest = format!(": {class}: {why}");
            return StyledLine::new(Tone::Bad, "failed").with(Tone::Plain, rest);
        }
        let Self { provider, model, millis, input_tokens, output_tokens, .. } = self;
        let rest = format!(
            ": {provider} answered as {model} in {millis} ms ({input_tokens} + {output_tokens} tokens)"
        );
        StyledLine::new(Tone::Good, "ok").with(Tone::Plain, rest)
    }
}

/// Returns the model to ask.
fn checked_model(args: &Args) -> Result<ApiModel, CliError> {
    let provider = args.provider.as_str();
    if let Some(model) = &args.model {
        let found = api_model(Some(provider), model);
        return found.ok_or_else(|| {
            CliError::new(CliErrorKind::Usage, format!("`{model}` is not the name of a model"))
        });
    }
    let of_provider = model_prices().iter().filter(|price| price.provider() == provider);
    let cheapest = of_provider.min_by_key(|price| price.input).map(ModelPrice::bare_name);
    let model = cheapest.ok_or_else(|| {
        let message = format!("no model of `{provider}` is known");
        let hint = format!("name one: agent-worker providers check {provider} --model MODEL");
        CliError::new(CliErrorKind::Usage, message).with_hint(hint)
    })?;
    Ok(ApiModel { provider: provider.to_owned(), model: model.to_owned() })
}

async fn ask(
    client: &ModelClient,
    endpoint: &ProviderEndpoint,
    model: &str,
) -> Result<ModelAnswer, (FailureClass, String)> {
    let entries = [ConversationEntry::User(vec![UserPart::Text(PROMPT.to_owned())])];
    let settings =
        RequestSettings { max_tokens: Some(MAX_ANSWER_TOKENS), ..RequestSettings::default() };
    let prompt =
        ModelPrompt { model, system: "", tools: &[], entries: &entries, settings: &settings };
    let request = wire_of(endpoint.shape).write_request(&prompt);
    let answer = timeout(CHECK_TIMEOUT, client.ask(endpoint, request, |_| ())).await;
    let late = || format!("no answer within {} s", CHECK_TIMEOUT.as_secs());
    let answer = answer.map_err(|_| (FailureClass::Timeout, late()))?;
    answer.map_err(|failure| (failure.class, failure.why))
}
