//! `agent-worker providers`: lists providers of models and the prices of models, and checks a provider with one request.

mod check;

use agent_worker_backends::{ModelPrice, PROVIDERS, PriceSource, ProviderSpec, model_prices};
use agent_worker_models::{ProviderEndpoint, ProviderOverrides};
use serde::Serialize;

use crate::{
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        settings::CliSettings,
    },
    output::{
        state_text::format_dollars,
        styled_line::StyledLine,
        table::Column::{Figure, Name, Text},
        verdict::RunVerdict,
    },
};

/// Written for a price that is not known.
const UNKNOWN: &str = "-";

/// List model providers and the prices of their models
///
/// `backend: api` calls these providers. KEY is the variable that is set, or the one to set. Prices are in dollars per
/// million tokens. They apply where a program or a provider reports tokens and no cost; a model that is not listed has the
/// cost `unknown`. With --json the list has the prices. Only `providers check` calls a provider.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker providers --json")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<ProvidersCommand>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Subcommand)]
enum ProvidersCommand {
    Check(check::Args),
}

impl Args {
    /// Returns the format of a failure.
    pub(super) fn format(&self) -> Format {
        match &self.command {
            Some(ProvidersCommand::Check(args)) => args.output.format(),
            None => self.output.format(),
        }
    }
}

/// The price of a model as a JSON document, in micro-dollars per million tokens.
#[derive(Serialize)]
struct PriceView<'a> {
    provider: &'a str,
    model: &'a str,
    input_micros: u64,
    output_micros: u64,
    cache_read_micros: Option<u64>,
    cache_write_micros: Option<u64>,
    /// The largest request, in input tokens, to which the price applies.
    max_request_tokens: Option<u64>,
    as_of: &'a str,
    source: PriceSource,
}

impl<'a> From<&'a ModelPrice> for PriceView<'a> {
    fn from(price: &'a ModelPrice) -> Self {
        Self {
            provider: price.provider(),
            model: price.bare_name(),
            input_micros: price.input,
            output_micros: price.output,
            cache_read_micros: price.from_cache,
            cache_write_micros: price.into_cache,
            max_request_tokens: price.max_request_tokens,
            as_of: &price.as_of,
            source: price.source,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    if let Some(ProvidersCommand::Check(args)) = &args.command {
        return check::run(args, ctx).await;
    }
    let prices = model_prices();
    match args.output.format() {
        Format::Json => {
            let views: Vec<_> = prices.iter().map(PriceView::from).collect();
            ctx.console.print_json_list(&views)
        }
        Format::Text => {
            let rows: Vec<_> =
                PROVIDERS.iter().map(|row| provider_row(row, ctx.settings)).collect();
            ctx.console.print_table([Name("PROVIDER"), Text("KEY"), Text("ENDPOINT")], &rows)?;
            ctx.console.print_line(&StyledLine::plain(""))?;
            let rows: Vec<_> = prices.iter().map(price_row).collect();
            let head = [
                Name("MODEL"),
                Figure("INPUT"),
                Figure("OUTPUT"),
                Figure("CACHE READ"),
                Figure("CACHE WRITE"),
                Figure("AS OF"),
                Text("SOURCE"),
            ];
            ctx.console.print_table(head, &rows)?;
            ctx.console.note(
                "dollars per million tokens; a model that is not listed has the cost `unknown`",
            )
        }
    }?;
    Ok(RunVerdict::Done)
}

/// Returns the provider, the variable of its key, and its endpoint in this environment.
fn provider_row(row: &ProviderSpec, settings: &CliSettings) -> [String; 3] {
    let is_set = |name: &&&str| settings.env.get(**name).is_some_and(|value| !value.is_empty());
    let usual = row.name.to_ascii_uppercase();
    let own = row.key_variables.iter().find(|name| name.starts_with(&usual));
    let key = match (row.key_variables.iter().find(is_set), own.or(row.key_variables.first())) {
        (Some(name), _) => format!("{name} is set"),
        (None, Some(name)) if row.needs_key() => format!("set {name}"),
        (None, Some(_) | None) => "not needed".to_owned(),
    };
    let found = ProviderEndpoint::base_url(row.name, &ProviderOverrides::default(), &settings.env);
    let endpoint = found.unwrap_or_else(|_| format!("set {}", row.base_url_variable));
    [row.name.to_owned(), key, endpoint]
}

fn price_row(price: &ModelPrice) -> [String; 7] {
    let dollars = |micros: Option<u64>| micros.map_or_else(|| UNKNOWN.to_owned(), format_dollars);
    [
        price.model.clone(),
        dollars(Some(price.input)),
        dollars(Some(price.output)),
        dollars(price.from_cache),
        dollars(price.into_cache),
        price.as_of.clone(),
        price.source.description().to_owned(),
    ]
}
