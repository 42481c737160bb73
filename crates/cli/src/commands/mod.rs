//! The commands, one file each: `Args` is the help, `run` is the implementation.

mod agent;
mod answer;
mod approve;
mod ask;
mod attach;
mod backends;
mod chat;
mod clear;
pub(crate) mod complete;
mod completions;
mod config;
mod context;
pub(crate) mod daemon;
mod dead;
mod demo;
mod doc;
mod doctor;
mod down;
mod export;
mod feedback;
pub(crate) mod help_topic;
mod init;
mod interrupt;
mod logs;
mod ls;
mod man;
mod mcp;
mod mock;
mod new;
mod overview;
mod pause;
mod peek;
mod pending;
mod proposals;
mod propose;
mod providers;
mod ps;
mod receipts;
mod resource;
mod restart;
mod resume;
mod revoke;
mod rm;
mod run;
mod runs;
pub(crate) mod sandbox;
mod schema;
mod send;
mod session;
mod start;
mod stats;
mod status;
mod stop;
mod token;
mod tool;
mod top;
mod turns;
mod up;
mod use_agent;
mod validate;
mod veto;
mod vote;
mod why;

use crate::{
    error::CliError,
    input::context::{CommandContext, Format},
    output::verdict::RunVerdict,
};

/// A command of this crate; its arguments are defined only when it is named.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Commands {
    Run(run::Args),
    Start(start::Args),
    Up(up::Args),
    Attach(attach::Args),
    Pause(pause::Args),
    Resume(resume::Args),
    Interrupt(interrupt::Args),
    Mock(mock::Args),
    Restart(restart::Args),
    Stop(stop::Args),
    Down(down::Args),
    Rm(rm::Args),
    Ls(ls::Args),
    Ps(ps::Args),
    Status(status::Args),
    Why(why::Args),
    Peek(peek::Args),
    Top(top::Args),
    Logs(logs::Args),
    Turns(turns::Args),
    Runs(runs::Args),
    Stats(stats::Args),
    Export(export::Args),
    Receipts(receipts::Args),
    Dead(dead::Args),
    Clear(clear::Args),
    Send(send::Args),
    New(Box<new::Args>),
    Ask(ask::Args),
    Chat(chat::Args),
    Agent(agent::Args),
    Use(use_agent::Args),
    Session(session::Args),
    Doc(doc::Args),
    Resource(resource::Args),
    Context(context::Args),
    Proposals(proposals::Args),
    Propose(Box<propose::Args>),
    Vote(vote::Args),
    Veto(veto::Args),
    Answer(answer::Args),
    Pending(pending::Args),
    Approve(approve::Args),
    Deny(approve::DenyArgs),
    Revoke(revoke::Args),
    Demo(demo::Args),
    Init(init::Args),
    Validate(validate::Args),
    Schema(schema::Args),
    Doctor(doctor::Args),
    Backends(backends::Args),
    Providers(providers::Args),
    Tool(tool::Args),
    Mcp(mcp::Args),
    Token(token::Args),
    Feedback(feedback::Args),
    Config(config::Args),
    Completions(completions::Args),
    Man(man::Args),
    /// No command was given.
    #[command(skip)]
    Overview,
    /// A request of a completion script.
    #[command(skip)]
    Complete(complete::CompletionRequest),
    /// A request for a help topic.
    #[command(skip)]
    HelpTopic(&'static help_topic::HelpTopic),
    /// A command for the running daemon.
    #[command(skip)]
    Daemon(daemon::DaemonCommand),
}

impl Commands {
    /// Returns the format of a failure; commands that follow a run report theirs in its envelope.
    #[expect(clippy::too_many_lines, reason = "one line for each command")]
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Run(_)
            | Self::Start(_)
            | Self::Up(_)
            | Self::Attach(_)
            | Self::Resume(_)
            | Self::Restart(_)
            | Self::Completions(_)
            | Self::Demo(_)
            | Self::Man(_)
            | Self::Complete(_)
            | Self::HelpTopic(_)
            | Self::Overview
            | Self::Top(_) => Format::Text,
            Self::Pause(args) => args.output.format(),
            Self::Interrupt(args) => args.output.format(),
            Self::Mock(args) => args.format(),
            Self::Stop(args) => args.output.format(),
            Self::Down(args) => args.output.format(),
            Self::Rm(args) => args.output.format(),
            Self::Ls(args) => args.output.format(),
            Self::Ps(args) => args.output.format(),
            Self::Status(args) => args.output.format(),
            Self::Why(args) => args.output.format(),
            Self::Peek(args) => args.output.format(),
            Self::Logs(args) => args.output.format(),
            Self::Turns(args) => args.output.format(),
            Self::Runs(args) => args.output.format(),
            Self::Stats(args) => args.output.format(),
            Self::Export(args) => args.format(),
            Self::Receipts(args) => args.output.format(),
            Self::Resource(args) => args.format(),
            Self::Dead(args) => args.format(),
            Self::Clear(args) => args.output.format(),
            Self::Send(args) => args.output.format(),
            Self::New(args) => args.output.format(),
            Self::Ask(args) => args.output.format(),
            Self::Chat(args) => args.output.format(),
            Self::Agent(args) => args.format(),
            Self::Use(args) => args.output.format(),
            Self::Session(args) => args.format(),
            Self::Doc(args) => args.format(),
            Self::Context(args) => args.format(),
            Self::Proposals(args) => args.output.format(),
            Self::Propose(args) => args.output.format(),
            Self::Vote(args) => args.output.format(),
            Self::Veto(args) => args.output.format(),
            Self::Answer(args) => args.output.format(),
            Self::Pending(args) => args.output.format(),
            Self::Approve(args) => args.output.format(),
            Self::Deny(args) => args.output.format(),
            Self::Revoke(args) => args.output.format(),
            Self::Init(args) => args.output.format(),
            Self::Validate(args) => args.output.format(),
            Self::Schema(args) => args.output.format(),
            Self::Doctor(args) => args.output.format(),
            Self::Backends(args) => args.output.format(),
            Self::Providers(args) => args.format(),
            Self::Tool(args) => args.format(),
            Self::Mcp(args) => args.format(),
            Self::Token(args) => args.format(),
            Self::Feedback(args) => args.format(),
            Self::Config(args) => args.format(),
            Self::Daemon(ask) => ask.format(),
        }
    }

    /// Returns the same command with a request for its file's parameters; `None` if it takes no file.
    pub(crate) fn into_file_help(self) -> Option<Self> {
        match self {
            Self::Run(args) => Some(Self::Run(args.with_help_requested())),
            Self::Start(args) => Some(Self::Start(args.with_help_requested())),
            Self::Up(args) => Some(Self::Up(args.with_help_requested())),
            _ => None,
        }
    }

    /// Runs the command.
    #[expect(clippy::too_many_lines, reason = "one line for each command")]
    pub(crate) async fn run(self, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
        match self {
            Self::Run(args) => Box::pin(run::run(args, ctx)).await,
            Self::Start(args) => Box::pin(start::run(args, ctx)).await,
            Self::Up(args) => Box::pin(up::run(args, ctx)).await,
            Self::Attach(args) => Box::pin(attach::run(args, ctx)).await,
            Self::Pause(args) => pause::run(args, ctx).await,
            Self::Resume(args) => resume::run(args, ctx).await,
            Self::Interrupt(args) => interrupt::run(args, ctx).await,
            Self::Mock(args) => mock::run(args, ctx).await,
            Self::Restart(args) => restart::run(args, ctx).await,
            Self::Stop(args) => stop::run(args, ctx).await,
            Self::Down(args) => down::run(args, ctx).await,
            Self::Rm(args) => rm::run(args, ctx).await,
            Self::Ls(args) => ls::run(args, ctx).await,
            Self::Ps(args) => ps::run(args, ctx).await,
            Self::Status(args) => status::run(args, ctx).await,
            Self::Why(args) => why::run(args, ctx).await,
            Self::Peek(args) => peek::run(args, ctx).await,
            Self::Top(args) => Box::pin(top::run(args, ctx)).await,
            Self::Logs(args) => logs::run(args, ctx).await,
            Self::Turns(args) => turns::run(args, ctx).await,
            Self::Runs(args) => runs::run(args, ctx).await,
            Self::Stats(args) => stats::run(args, ctx).await,
            Self::Export(args) => Box::pin(export::run(args, ctx)).await,
            Self::Receipts(args) => receipts::run(args, ctx).await,
            Self::Resource(args) => resource::run(args, ctx).await,
            Self::Dead(args) => dead::run(args, ctx).await,
            Self::Clear(args) => clear::run(args, ctx).await,
            Self::Send(args) => send::run(args, ctx).await,
            Self::New(args) => new::run(*args, ctx).await,
            Self::Ask(args) => ask::run(args, ctx).await,
            Self::Chat(args) => Box::pin(chat::run(args, ctx)).await,
            Self::Agent(args) => agent::run(args, ctx).await,
            Self::Use(args) => use_agent::run(args, ctx).await,
            Self::Session(args) => session::run(args, ctx).await,
            Self::Doc(args) => doc::run(args, ctx).await,
            Self::Context(args) => context::run(args, ctx).await,
            Self::Proposals(args) => proposals::run(args, ctx).await,
            Self::Propose(args) => propose::run(*args, ctx).await,
            Self::Vote(args) => vote::run(args, ctx).await,
            Self::Veto(args) => veto::run(args, ctx).await,
            Self::Answer(args) => answer::run(args, ctx).await,
            Self::Pending(args) => pending::run(args, ctx).await,
            Self::Approve(args) => approve::run(args, ctx).await,
            Self::Deny(args) => approve::deny(args, ctx).await,
            Self::Revoke(args) => revoke::run(args, ctx).await,
            Self::Demo(args) => Box::pin(demo::run(args, ctx)).await,
            Self::Init(args) => init::run(&args, ctx),
            Self::Validate(args) => validate::run(&args, ctx),
            Self::Schema(args) => schema::run(&args, ctx),
            Self::Config(args) => config::run(&args, ctx),
            Self::Doctor(args) => doctor::run(&args, ctx).await,
            Self::Backends(args) => backends::run(&args, ctx).await,
            Self::Providers(args) => Box::pin(providers::run(&args, ctx)).await,
            Self::Tool(args) => Box::pin(tool::run(args, ctx)).await,
            Self::Mcp(args) => mcp::run(args, ctx).await,
            Self::Token(args) => token::run(args, ctx).await,
            Self::Feedback(args) => feedback::run(args, ctx).await,
            Self::Completions(args) => completions::run(&args, ctx),
            Self::Man(args) => man::run(&args, ctx),
            Self::Complete(request) => complete::run(request, ctx).await,
            Self::HelpTopic(topic) => help_topic::run(topic, ctx),
            Self::Overview => overview::run(ctx).await,
            Self::Daemon(ask) => daemon::run(ask, ctx).await,
        }
    }
}
