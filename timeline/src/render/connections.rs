//! Whom the process called, and what its callers speak.

use proto::headline::milestone_ns;
use proto::v1::{Connection, MilestoneKind, Timeline};

use super::WIDTH;
use super::format::{count, cut, duration};
use super::sections::{INDENT, ROWS, more, section};
use super::table::{Column, Columns, Table};

/// Columns of the terminal for a peer's address.
const PEER_WIDTH: usize = 28;

/// Connections of pools first: those are what a first request waits for.
pub(super) fn outbound(timeline: &Timeline) -> String {
    let mut table = Columns::new([
        Column::fixed("PEER"),
        Column::fixed("SERVICE"),
        Column::fixed("POOL"),
        Column::fixed("THREAD"),
        Column::spare("CLASS", 3),
        Column::fixed(">AT"),
        Column::fixed(">CONNECT"),
        Column::filled(">TRY", "1"),
        Column::filled(">ANSWER", "-"),
        Column::filled(">HANDSHAKE", "-"),
        Column::spare("VS READY", 2),
        Column::filled_always("IN REQUEST", "no"),
    ]);
    let ready_ns = milestone_ns(timeline, MilestoneKind::Ready);
    let mut connections: Vec<&Connection> = timeline.connections.iter().collect();
    connections.sort_by_key(|connection| (connection.pool != Some(true), connection.ordinal));
    for connection in connections.iter().take(ROWS) {
        let vs_ready =
            ready_ns.map(|ready_ns| if connection.since_exec_ns < ready_ns { "before" } else { "after" });
        table.row([
            Some(cut(&connection.peer, PEER_WIDTH)),
            Some(service(connection)).filter(|service| !service.is_empty()),
            connection.pool.map(|pool| if pool { "yes" } else { "no" }.to_owned()),
            Some(cut(&connection.thread, 20)),
            Some(cut(&connection.thread_class, 12)),
            Some(duration(connection.since_exec_ns)),
            Some(connect(connection)),
            Some(connection.attempt).filter(|attempt| *attempt > 1).map(|attempt| count(attempt.into())),
            connection.first_answer_ns.map(duration),
            connection.handshake_ns.map(duration),
            vs_ready.map(str::to_owned),
            in_request(connection),
        ]);
    }
    let (table, left_out) = table.fitted(INDENT, WIDTH);
    let title = if left_out.is_empty() {
        "Outbound connections".to_owned()
    } else {
        format!("Outbound connections; no room for {}", left_out.join(", "))
    };
    section(&title, &table, more(connections.len(), "connection"))
}

/// `postgresql+tls`: in one column, because a line has room for few.
fn service(connection: &Connection) -> String {
    match connection.service.as_str() {
        "" | "tls" if connection.tls => "tls".to_owned(),
        service if connection.tls => format!("{}+tls", cut(service, 12)),
        service => cut(service, 16),
    }
}

fn connect(connection: &Connection) -> String {
    match (connection.failure.as_str(), connection.connect_ns) {
        ("", Some(ns)) => duration(ns),
        ("", None) => "failed".to_owned(),
        (failure, _) => cut(failure, 20),
    }
}

fn in_request(connection: &Connection) -> Option<String> {
    let made = connection.for_request.map(|ordinal| format!("yes, #{ordinal}"));
    let waited = connection.waited_by_request.map(|ordinal| format!("waited, #{ordinal}"));
    let words: Vec<_> = made.into_iter().chain(waited).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Nothing when all speak plain HTTP/1.1 and are followed, as the routes then say it all.
pub(super) fn inbound(timeline: &Timeline) -> String {
    let plain = timeline
        .inbound
        .iter()
        .all(|inbound| inbound.protocol == "http/1.1" && inbound.not_followed.is_empty());
    let mut table = Columns::new([
        Column::fixed("PROTOCOL"),
        Column::fixed(">CONNECTIONS"),
        Column::fixed(">REQUESTS"),
        Column::filled("NOT FOLLOWED", "-"),
    ]);
    if !plain {
        for inbound in &timeline.inbound {
            table.row([
                Some(cut(&inbound.protocol, 20)),
                Some(count(inbound.connections)),
                Some(count(inbound.requests)),
                Some(cut(&inbound.not_followed, 60)).filter(|reason| !reason.is_empty()),
            ]);
        }
    }
    let (table, _): (Table, _) = table.fitted(INDENT, WIDTH);
    section("Inbound connections", &table, None)
}
