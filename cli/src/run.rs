//! From a command to its text.

use std::io::IsTerminal as _;
use std::time::{SystemTime, UNIX_EPOCH};

use proto::json::Json as _;
use proto::v1::{RequestClass, Timeline, TimelineFilter};
use timeline::render::{self, Style};

use crate::args::{Cli, Color, Command, Describe, DescribeTimeline, Get, GetRequests, GetTimelines, Output};
use crate::client::{Client, ClientError};

/// What a command prints.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// For stdout.
    pub text: String,
    /// A remark for stderr, which scripts need not read.
    pub remark: Option<String>,
}

/// Runs a command.
pub async fn run(cli: Cli) -> Result<Printed, ClientError> {
    let mut client = Client::connect(&cli.collector).await?;
    match cli.command {
        Command::Get(Get::Timelines(GetTimelines { id: Some(id), output, .. })) => {
            Ok(print_row(&client.get(&id).await?, output))
        }
        Command::Get(Get::Timelines(command)) => get(&mut client, command).await,
        Command::Get(Get::Requests(GetRequests { id, class, output })) => {
            let mut timeline = client.get(&id).await?;
            let class = class.map(RequestClass::from);
            timeline.requests.retain(|request| class.is_none_or(|class| request.class() == class));
            Ok(print_requests(timeline, output))
        }
        Command::Describe(Describe::Timeline(DescribeTimeline { id, output })) => {
            let timeline = client.get(&id).await?;
            let text = match output {
                Output::Table | Output::Wide => render::describe_with(&timeline, style(cli.color)),
                Output::Json | Output::Yaml => structured(&timeline.to_json(), output),
            };
            Ok(Printed { text, remark: None })
        }
    }
}

async fn get(client: &mut Client, command: GetTimelines) -> Result<Printed, ClientError> {
    let now_ns = now_ns();
    let filter = TimelineFilter {
        node: command.node.unwrap_or_default(),
        namespace: command.namespace.unwrap_or_default(),
        workload: command.workload.unwrap_or_default(),
        since: command.since.map(|ago| {
            let since_ns = now_ns.saturating_sub(i64::try_from(ago.as_nanos()).unwrap_or(i64::MAX));
            prost_types::Timestamp {
                seconds: since_ns.div_euclid(1_000_000_000),
                nanos: i32::try_from(since_ns.rem_euclid(1_000_000_000)).unwrap_or_default(),
            }
        }),
        until: None,
    };
    let list = client.list(filter, command.limit).await?;
    let more = !list.next_page_token.is_empty();
    let text = match command.output {
        Output::Table | Output::Wide if list.timelines.is_empty() => String::new(),
        Output::Table | Output::Wide => render::list(&list.timelines, now_ns, command.output == Output::Wide),
        Output::Json | Output::Yaml => structured(&with_list(list.to_json(), "timelines"), command.output),
    };
    let remark = if list.timelines.is_empty() {
        Some("no timelines match".to_owned())
    } else {
        more.then(|| format!("there are more than {}: ask for them with --limit", command.limit))
    };
    Ok(Printed { text, remark })
}

fn print_row(timeline: &Timeline, output: Output) -> Printed {
    let text = match output {
        Output::Table | Output::Wide => {
            render::list(std::slice::from_ref(timeline), now_ns(), output == Output::Wide)
        }
        Output::Json | Output::Yaml => structured(&timeline.to_json(), output),
    };
    Printed { text, remark: None }
}

fn print_requests(timeline: Timeline, output: Output) -> Printed {
    let remark = timeline.requests.is_empty().then(|| "no requests match".to_owned());
    let text = match output {
        Output::Table | Output::Wide => render::requests(&timeline, output == Output::Wide),
        Output::Json | Output::Yaml => {
            let only = Timeline { id: timeline.id, requests: timeline.requests, ..Timeline::default() };
            structured(&with_list(only.to_json(), "requests"), output)
        }
    };
    Printed { text, remark }
}

/// The mapping leaves empty lists out; whoever iterates over the list should not have to know.
fn with_list(mut value: serde_json::Value, name: &str) -> serde_json::Value {
    value[name] = value.get(name).cloned().unwrap_or_else(|| serde_json::json!([]));
    value
}

fn style(color: Color) -> Style {
    let fitting = Style::of(std::io::stdout().is_terminal(), |name| std::env::var_os(name));
    match color {
        Color::Auto => fitting,
        Color::Always => Style { unicode: true, color: true },
        Color::Never => Style { color: false, ..fitting },
    }
}

fn structured(value: &serde_json::Value, output: Output) -> String {
    if output == Output::Yaml {
        serde_yaml_ng::to_string(value).expect("JSON is YAML")
    } else {
        format!("{value:#}\n")
    }
}

#[expect(clippy::disallowed_methods, reason = "ages and --since count from now")]
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
