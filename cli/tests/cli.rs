//! The command as a user meets it, against a collector that answers from memory.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::{Output, Stdio};

use proto::v1::query_service_server::{QueryService, QueryServiceServer};
use proto::v1::{
    GetTimelineRequest, GetTimelineResponse, Jvm, Ledger, ListTimelinesRequest, ListTimelinesResponse,
    Milestone, MilestoneKind, RequestClass, Timeline, TimelineFilter, WatchTimelinesRequest,
    WatchTimelinesResponse,
};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// Has many timelines, gives them in pages, and remembers the filters.
struct Fake {
    timelines: usize,
    filters: mpsc::UnboundedSender<TimelineFilter>,
}

fn timeline(number: usize) -> Timeline {
    Timeline {
        id: format!("{number:016x}"),
        node: "node-a".into(),
        jvm: Some(Jvm { pid: 7, main: Some("app.jar".into()), ..Jvm::default() }),
        milestones: vec![Milestone {
            kind: MilestoneKind::Ready.into(),
            since_exec_ns: 4_618_000_000,
            ..Milestone::default()
        }],
        requests: vec![
            request(RequestClass::Probe, "/health", None),
            request(RequestClass::User, "/users/{id}", Some(1)),
        ],
        ..Timeline::default()
    }
}

fn request(class: RequestClass, route: &str, ordinal: Option<u64>) -> proto::v1::Request {
    proto::v1::Request {
        ordinal,
        route_ordinal: ordinal,
        class: class.into(),
        method: Some("GET".into()),
        route: route.into(),
        status: Some(200),
        wait_ns: 7_200_000,
        service_ns: 284_300_000,
        latency_ns: 291_500_000,
        ledger: Some(Ledger { on_cpu_ns: Some(291_500_000), ..Ledger::default() }),
        ..proto::v1::Request::default()
    }
}

#[tonic::async_trait]
impl QueryService for Fake {
    type WatchTimelinesStream =
        Pin<Box<dyn tokio_stream::Stream<Item = Result<WatchTimelinesResponse, Status>> + Send>>;

    async fn list_timelines(
        &self,
        request: Request<ListTimelinesRequest>,
    ) -> Result<Response<ListTimelinesResponse>, Status> {
        let request = request.into_inner();
        let _ = self.filters.send(request.filter.unwrap_or_default());
        let first: usize = request.page_token.parse().unwrap_or(0);
        let end = self.timelines.min(first + 40.min(request.page_size as usize));
        let next_page_token = if end < self.timelines { end.to_string() } else { String::new() };
        let timelines = (first..end).map(timeline).collect();
        Ok(Response::new(ListTimelinesResponse { timelines, next_page_token }))
    }

    async fn get_timeline(
        &self,
        request: Request<GetTimelineRequest>,
    ) -> Result<Response<GetTimelineResponse>, Status> {
        match request.into_inner().id.as_str() {
            "0" => Err(Status::invalid_argument("id \"0\" is ambiguous: 00, 01")),
            "0000000000000001" => Ok(Response::new(GetTimelineResponse { timeline: Some(timeline(1)) })),
            id => Err(Status::not_found(format!("there is no timeline {id:?}"))),
        }
    }

    async fn watch_timelines(
        &self,
        _: Request<WatchTimelinesRequest>,
    ) -> Result<Response<Self::WatchTimelinesStream>, Status> {
        Err(Status::unimplemented("not asked by the command"))
    }
}

struct Collector {
    address: SocketAddr,
    filters: mpsc::UnboundedReceiver<TimelineFilter>,
}

impl Collector {
    async fn with(timelines: usize) -> Self {
        let (sender, filters) = mpsc::unbounded_channel();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let fake = QueryServiceServer::new(Fake { timelines, filters: sender });
        let server = tonic::transport::Server::builder().add_service(fake);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { address, filters }
    }

    async fn jcold(&self, arguments: &str) -> Output {
        command(&format!("--collector http://{} {arguments}", self.address)).output().await.unwrap()
    }
}

fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jcold"));
    command.args(arguments.split_whitespace()).env_remove("JCOLD_COLLECTOR").stdin(Stdio::null());
    command
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// The one line of an error, and that nothing else was printed.
fn complaint(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let stderr = std::str::from_utf8(&output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr.trim_end()
}

#[tokio::test]
async fn help_says_all_that_there_is() {
    let mut text = String::new();
    for arguments in ["--help", "get timelines --help", "get requests --help", "describe timeline --help"] {
        let output = command(arguments).output().await.unwrap();
        let _ = writeln!(text, "$ jcold {arguments}\n{}", stdout(&output));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/help.txt");
    if std::env::var_os("GOLDEN").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap();
    assert!(text == expected, "help.txt differs; the help is now:\n{text}");
}

#[tokio::test]
async fn a_list_goes_over_pages_up_to_its_limit() {
    let collector = Collector::with(90).await;
    let all = collector.jcold("get timelines").await;
    assert_eq!(stdout(&all).lines().count(), 91, "a heading and each timeline");
    assert!(all.stderr.is_empty());
    let some = collector.jcold("get tl --limit 50").await;
    assert_eq!(stdout(&some).lines().count(), 51);
    let remark = String::from_utf8(some.stderr).unwrap();
    assert_eq!(remark, "jcold: there are more than 50: ask for them with --limit\n");
}

#[tokio::test]
async fn filters_reach_the_collector() {
    let mut collector = Collector::with(1).await;
    let output = collector.jcold("get timelines --node node-a -n shop --workload orders --since 1h").await;
    assert!(output.status.success());
    let filter = collector.filters.recv().await.unwrap();
    assert_eq!(
        (filter.node.as_str(), filter.namespace.as_str(), filter.workload.as_str()),
        ("node-a", "shop", "orders")
    );
    assert!(filter.since.is_some() && filter.until.is_none());
}

#[tokio::test]
async fn json_and_yaml_are_the_proto3_mapping() {
    let collector = Collector::with(1).await;
    let one: serde_json::Value =
        serde_json::from_slice(&collector.jcold("get tl 0000000000000001 -o json").await.stdout).unwrap();
    assert_eq!(one["milestones"][0]["sinceExecNs"], "4618000000");
    let described = collector.jcold("describe timeline 0000000000000001 -o json").await;
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&described.stdout).unwrap(), one);
    let yaml = collector.jcold("describe timeline 0000000000000001 -o yaml").await;
    assert_eq!(serde_yaml_ng::from_slice::<serde_json::Value>(&yaml.stdout).unwrap(), one);
    let list: serde_json::Value =
        serde_json::from_slice(&collector.jcold("get tl -o json").await.stdout).unwrap();
    assert_eq!(list["timelines"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn nothing_that_matches_is_said_and_is_no_error() {
    let collector = Collector::with(0).await;
    let table = collector.jcold("get timelines").await;
    assert!(table.status.success() && table.stdout.is_empty());
    assert_eq!(String::from_utf8(table.stderr).unwrap(), "jcold: no timelines match\n");
    let json = collector.jcold("get timelines -o json").await;
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&json.stdout).unwrap(),
        serde_json::json!({"timelines": []})
    );
}

#[tokio::test]
async fn a_description_begins_with_the_timeline() {
    let collector = Collector::with(1).await;
    let output = collector.jcold("describe tl 0000000000000001").await;
    assert!(stdout(&output).starts_with("Timeline:      0000000000000001\n"), "{output:?}");
    assert!(stdout(&output).contains("Ready:         4.618 s after exec"), "{output:?}");
}

#[tokio::test]
async fn requests_of_a_timeline_are_listed_by_class() {
    let collector = Collector::with(1).await;
    let table = collector.jcold("get requests 0000000000000001").await;
    assert_eq!(stdout(&table).lines().count(), 3, "a heading and each request: {table:?}");
    let users = collector.jcold("get req 0000000000000001 --class user -o json").await;
    let users: serde_json::Value = serde_json::from_slice(&users.stdout).unwrap();
    assert_eq!(users["id"], "0000000000000001");
    assert_eq!(users["requests"].as_array().unwrap().len(), 1, "{users}");
    assert_eq!(users["requests"][0]["ledger"]["onCpuNs"], "291500000");
    assert!(users.get("jvm").is_none(), "nothing but the requests: {users}");
    let none = collector.jcold("get requests 0000000000000001 --class self_warmup").await;
    assert!(none.status.success() && none.stdout.is_empty());
    assert_eq!(String::from_utf8(none.stderr).unwrap(), "jcold: no requests match\n");
    let none = collector.jcold("get requests 0000000000000001 --class self_warmup -o yaml").await;
    assert!(stdout(&none).contains("requests: []"), "{none:?}");
}

#[tokio::test]
async fn a_pipe_gets_plain_text_unless_colour_is_asked_for() {
    let collector = Collector::with(1).await;
    let plain = collector.jcold("describe timeline 0000000000000001").await;
    assert!(stdout(&plain).contains("    on_cpu        ####") && !stdout(&plain).contains('\u{1b}'));
    let never = collector.jcold("describe timeline 0000000000000001 --color never").await;
    assert_eq!(never.stdout, plain.stdout);
    let always = collector.jcold("--color always describe timeline 0000000000000001").await;
    assert!(stdout(&always).contains("    on_cpu        \u{1b}[32m████"), "{}", stdout(&always));
}

#[tokio::test]
async fn errors_are_one_line_that_says_what_to_do() {
    let collector = Collector::with(1).await;
    let url = format!("http://{}", collector.address);
    let unknown = collector.jcold("describe timeline abc").await;
    let expected = format!("jcold: timeline \"abc\" not found at {url}: list them with: jcold get timelines");
    assert_eq!(complaint(&unknown), expected);
    let ambiguous = collector.jcold("get timeline 0").await;
    assert_eq!(
        complaint(&ambiguous),
        format!("jcold: the collector at {url} says: id \"0\" is ambiguous: 00, 01")
    );
    let away = command("--collector http://127.0.0.1:1 get timelines").output().await.unwrap();
    let away = complaint(&away);
    assert!(
        away.starts_with("jcold: cannot reach the collector at http://127.0.0.1:1: Connection refused"),
        "{away}"
    );
    assert!(away.ends_with("or name another with --collector URL or JCOLD_COLLECTOR"), "{away}");
    let nonsense = command("get timelines").env("JCOLD_COLLECTOR", "https://x").output().await.unwrap();
    assert!(complaint(&nonsense).contains("write it as http://HOST:PORT"), "{nonsense:?}");
}

#[tokio::test]
async fn a_reader_that_stops_is_no_error() {
    let collector = Collector::with(90).await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let arguments = format!("--collector http://{} get timelines", collector.address);
    let output = command(&arguments)
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
