//! The command line.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use proto::v1::RequestClass;

const EXAMPLES: &str = "\
Examples:
  jcold get timelines --since 1h             the last hour's, newest first
  jcold get timelines -n shop -o wide        of one namespace, with pods and routes
  jcold describe timeline 6f1d0c2a           one, whole; the beginning of its id is enough
  jcold get timeline 6f1d0c2a -o json        the same for a program
  jcold get requests 6f1d0c2a --class user   its first requests, one a line

Exit status: 0 on success, 1 when the collector cannot be reached or does not have what was
asked for, 2 when the command line is wrong.";

/// Shows the cold starts of JVMs: when each milestone came, who paid, and what the first request cost.
#[derive(Debug, Parser)]
#[command(name = "jcold", version, after_help = EXAMPLES)]
pub struct Cli {
    /// Address of the collector.
    #[arg(
        long,
        global = true,
        env = "JCOLD_COLLECTOR",
        hide_env_values = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:4600"
    )]
    pub collector: String,

    /// Colour: auto (on a terminal, unless NO_COLOR is set), always (also into a pipe) or never.
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        hide_possible_values = true
    )]
    pub color: Color,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List things, one a line.
    #[command(subcommand)]
    Get(Get),
    /// Show one thing whole: who paid, milestones, first requests, routes, CPU, connections.
    #[command(subcommand)]
    Describe(Describe),
}

/// What to list.
#[derive(Debug, Subcommand)]
pub enum Get {
    /// Timelines, newest exec first.
    #[command(aliases = ["timeline", "tl"])]
    Timelines(GetTimelines),
    /// The first requests of a timeline, in the order in which they came.
    ///
    /// A timeline keeps the first 200 user requests of the process, and the first 20 of each route and class.
    #[command(aliases = ["request", "req"])]
    Requests(GetRequests),
}

/// What to show.
#[derive(Debug, Subcommand)]
pub enum Describe {
    /// A timeline.
    #[command(aliases = ["timelines", "tl"])]
    Timeline(DescribeTimeline),
}

/// Which timelines, and how.
#[derive(Debug, Args)]
pub struct GetTimelines {
    /// Only this timeline: its id, or a prefix that only it has.
    #[arg(conflicts_with_all = ["node", "namespace", "workload", "since", "limit"])]
    pub id: Option<String>,

    /// Only of this node.
    #[arg(long)]
    pub node: Option<String>,

    /// Only of pods in this namespace.
    #[arg(long, short = 'n')]
    pub namespace: Option<String>,

    /// Only of this workload's pods.
    #[arg(long)]
    pub workload: Option<String>,

    /// Only exec'd so long ago or later, for instance 90s, 30m, 1h, 2d.
    #[arg(long, value_name = "DURATION", value_parser = proto::duration::parse)]
    pub since: Option<Duration>,

    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,

    /// How to print them.
    #[arg(long, short, value_enum, default_value_t)]
    pub output: Output,
}

/// Whose requests, which, and how.
#[derive(Debug, Args)]
pub struct GetRequests {
    /// The timeline's id, or a prefix that only it has.
    pub id: String,

    /// Only of this class.
    #[arg(long, value_enum)]
    pub class: Option<Class>,

    /// How to print them; json and yaml are the timeline with nothing but its id and these requests.
    #[arg(long, short, value_enum, default_value_t)]
    pub output: Output,
}

/// Which timeline, and how.
#[derive(Debug, Args)]
pub struct DescribeTimeline {
    /// Its id, or a prefix that only it has.
    pub id: String,

    /// How to print it; wide is as table.
    #[arg(long, short, value_enum, default_value_t)]
    pub output: Output,
}

/// A form of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text in columns.
    #[default]
    Table,
    /// Text in more columns.
    Wide,
    /// The proto3 JSON mapping, as grpcurl prints it.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Class {
    /// Anybody else.
    User,
    /// The kubelet.
    Probe,
    /// The pod itself.
    SelfWarmup,
}

impl From<Class> for RequestClass {
    fn from(class: Class) -> Self {
        match class {
            Class::User => Self::User,
            Class::Probe => Self::Probe,
            Class::SelfWarmup => Self::SelfWarmup,
        }
    }
}

/// When to print in colour, and with bars of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Also into a pipe.
    Always,
    /// Not on a terminal either; its bars stay.
    Never,
}
