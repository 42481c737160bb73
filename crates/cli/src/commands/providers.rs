//! `agent-worker providers`: lists the models whose prices are known.

use agent_worker_backends::{ModelPrice, PriceSource, model_prices};
use serde::Serialize;

use crate::{
    error::CliError,
    input::context::{CommandContext, Format, OutputArgs},
    output::{
        state_text::format_dollars,
        table::Column::{Figure, Name, Text},
        verdict::RunVerdict,
    },
};

/// Written for a price that is not known.
const UNKNOWN: &str = "-";

/// List model providers and the prices of their models
///
/// Prices are in dollars per million tokens. They apply where a program reports tokens and no cost; a model that is not
/// listed has the cost `unknown`. This version calls no provider: each agent's program uses its own login or key.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker providers --json")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) output: OutputArgs,
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
pub(crate) fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let prices = model_prices();
    match args.output.format() {
        Format::Json => {
            let views: Vec<_> = prices.iter().map(PriceView::from).collect();
            ctx.console.print_json_list(&views)
        }
        Format::Text => {
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
