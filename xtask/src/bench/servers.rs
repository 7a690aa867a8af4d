//! The servers of the testbed at the highest rate that they and the client reach together: whether every request is
//! counted, and what that costs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::table::{Column, Row, Table};
use crate::http::{self, Connection};
use crate::load::{self, MIX};
use crate::process::Process;
use crate::repo;
use crate::server::Server;
use crate::step::say;
use crate::testbed::Turn;
use crate::timeline::number;
use crate::traced::Traced;

/// What the table's reader must know.
pub const NOTES: &str = "\
Each server is loaded twice from its start, without and with the agent; client, server and agent share this machine.
BPF: run_time_ns of the agent's programs while the load ran, over all processes, by request sent (the clock that counts
it makes itself felt: some 20 ns a run). Agent: CPU of its threads in the same time. TLS, HTTP/2 and gRPC are counted in
xtask/tests/servers.";

/// The servers that speak HTTP/1.1 in the clear.
const SERVERS: [Server; 7] = [
    Server::Jdk,
    Server::Jetty,
    Server::Undertow,
    Server::Netty,
    Server::NettyEpoll,
    Server::Tomcat,
    Server::TomcatVirtual,
];
const COLUMNS: &[Column] = &[
    Column { key: "sent", heading: "sent" },
    Column { key: "counted", heading: "counted" },
    Column { key: "events", heading: "events" },
    Column { key: "events_dropped", heading: "dropped" },
    Column { key: "rate_alone", heading: "alone/s" },
    Column { key: "rate_traced", heading: "traced/s" },
    Column { key: "bpf_each_ns", heading: "BPF each" },
    Column { key: "agent_each_ns", heading: "agent each" },
];
const CONNECTIONS: usize = 8;
const START_BOUND: Duration = Duration::from_mins(1);
const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Loads each server with `requests` requests.
pub fn run(requests: usize) -> Result<Table> {
    let mut rows = Vec::new();
    for server in SERVERS {
        say("load", &format!("{server:?}, {requests} requests over {CONNECTIONS} connections, twice"));
        let alone = alone(server, requests).with_context(|| format!("{server:?} alone"))?;
        let mut cells = traced(server, requests).with_context(|| format!("{server:?} traced"))?;
        cells.insert(4, Some(alone));
        rows.push(Row { measured_by: name(server), cells });
    }
    Ok(Table { key: "servers", title: "GET /hello".into(), columns: COLUMNS, rows })
}

fn name(server: Server) -> &'static str {
    match server {
        Server::Jdk => "jdk",
        Server::Jetty => "jetty",
        Server::Undertow => "undertow",
        Server::Netty => "netty",
        Server::NettyEpoll => "netty-epoll",
        Server::Tomcat => "tomcat",
        Server::TomcatVirtual => "tomcat-virtual",
        Server::TomcatTls => "tomcat-tls",
        Server::NettyTls => "netty-tls",
        Server::Grpc => "grpc",
    }
}

/// Requests per second without any agent.
fn alone(server: Server, requests: usize) -> Result<u64> {
    let _turn = Turn::take()?;
    let dir = repo::target().join("bench");
    fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let port = http::free_port()?;
    let words = server.command(port, &dir)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let mut process = Process::start("server", &mut command, &dir.join("server.log"), server.ready_line())?;
    process.await_ready(START_BOUND)?;
    let rate = load(port, requests)?;
    process.stop()?;
    Ok(rate)
}

/// The cells of the load under the agent, without the rate that the server reaches alone.
fn traced(server: Server, requests: usize) -> Result<Vec<Option<u64>>> {
    let _stats = Stats::enable()?;
    let mut traced = Traced::serve(server)?;
    let (bpf_before, cpu_before) = (bpf_ns(traced.agent_pid())?, cpu_ns(traced.agent_pid())?);
    let rate = load(traced.port(), requests)?;
    let (bpf_after, cpu_after) = (bpf_ns(traced.agent_pid())?, cpu_ns(traced.agent_pid())?);
    let timeline = traced.finish()?;
    let each = |before: u64, after: u64| (after - before) / requests as u64;
    let counts = &timeline.value["requestCounts"];
    let completeness = |key: &str| number(&timeline.value["completeness"][key]);
    Ok(vec![
        Some(requests as u64),
        number(&counts["user"]),
        completeness("eventsProduced"),
        completeness("eventsDropped"),
        Some(rate),
        Some(each(bpf_before, bpf_after)),
        Some(each(cpu_before, cpu_after)),
    ])
}

/// Sends the requests; how many a second were answered.
fn load(port: u16, requests: usize) -> Result<u64> {
    let started = Instant::now();
    load::drive(|| Connection::open(port), &MIX[..1], requests, CONNECTIONS)?;
    let millis = started.elapsed().as_millis().max(1);
    Ok(u64::try_from(requests as u128 * 1000 / millis)?)
}

/// Time in the BPF programs that process `pid` holds, nanoseconds: bpf_prog_show_fdinfo, kernel/bpf/syscall.c.
fn bpf_ns(pid: u32) -> Result<u64> {
    let descriptors = format!("/proc/{pid}/fdinfo");
    let mut programs = BTreeMap::new();
    for descriptor in fs::read_dir(&descriptors).with_context(|| descriptors.clone())? {
        // One that is closed meanwhile is none of a program.
        let info = fs::read_to_string(descriptor?.path()).unwrap_or_default();
        let value =
            |key: &str| info.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        if let (Some(id), Some(run_time_ns)) = (value("prog_id:"), value("run_time_ns:")) {
            programs.insert(id, run_time_ns);
        }
    }
    Ok(programs.values().sum())
}

/// CPU of a process's threads, nanoseconds.
fn cpu_ns(pid: u32) -> Result<u64> {
    let tasks = format!("/proc/{pid}/task");
    let mut total = 0;
    for task in fs::read_dir(&tasks).with_context(|| tasks.clone())? {
        let schedstat = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        total += schedstat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(total)
}

/// The kernel counts what BPF programs take. Dropping it sets that back to what it was.
#[derive(Debug)]
struct Stats {
    before: String,
}

impl Stats {
    fn enable() -> Result<Self> {
        let before = fs::read_to_string(Path::new(STATS)).context(STATS)?;
        fs::write(STATS, "1").context(STATS)?;
        Ok(Self { before })
    }
}

impl Drop for Stats {
    fn drop(&mut self) {
        if let Err(error) = fs::write(STATS, self.before.trim()) {
            eprintln!("could not set {STATS} back to {}: {error}", self.before.trim());
        }
    }
}
