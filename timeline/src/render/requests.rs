//! The requests that are kept one by one, one a line.

use proto::v1::{Request, Timeline};

use super::format::{ABSENT, class_word, count, cut, duration, route_name};
use super::ledger::longest;
use super::table::Table;

/// Columns of the terminal for a route's name in the narrow form.
const ROUTE_WIDTH: usize = 24;

/// One column: its heading, whether only the wide form has it, and its cell.
type Column = (&'static str, bool, fn(&Request, bool) -> String);

const COLUMNS: [Column; 13] = [
    (">#", false, |request, _| maybe_count(request.ordinal)),
    (">OF ROUTE", true, |request, _| maybe_count(request.route_ordinal)),
    ("CLASS", false, |request, _| class_word(request.class())),
    ("ROUTE", false, |request, wide| {
        let name = route_name(request.method.as_deref(), &request.route);
        if wide { name } else { cut(&name, ROUTE_WIDTH) }
    }),
    ("STATUS", false, |request, _| request.status.map_or_else(absent, |status| status.to_string())),
    (">AT", false, |request, _| duration(request.since_exec_ns)),
    (">WAIT", false, |request, _| duration(request.wait_ns)),
    (">SERVICE", true, |request, _| duration(request.service_ns)),
    (">LATENCY", false, |request, _| duration(request.latency_ns)),
    ("SPENT ON", false, |request, _| spent_on(request)),
    ("THREAD", true, |request, _| or_absent(&request.thread)),
    ("PROTOCOL", true, |request, _| or_absent(&request.protocol)),
    (">CONNECTION", true, |request, _| count(request.connection_ordinal)),
];

/// A table of a timeline's requests in the order in which they came. Empty without requests.
pub fn requests(timeline: &Timeline, wide: bool) -> String {
    let mut requests: Vec<&Request> = timeline.requests.iter().collect();
    if requests.is_empty() {
        return String::new();
    }
    requests.sort_by_key(|request| request.since_exec_ns);
    let columns: Vec<_> = COLUMNS.iter().filter(|(_, only_wide, _)| wide || !only_wide).collect();
    let mut table = Table::new("", columns.iter().map(|(heading, ..)| *heading));
    for request in requests {
        table.row(columns.iter().map(|(.., cell)| cell(request, wide)));
    }
    table.text()
}

/// The two causes that took the most.
fn spent_on(request: &Request) -> String {
    let Some(ledger) = &request.ledger else { return absent() };
    let named: Vec<_> = longest(ledger)
        .into_iter()
        .take(2)
        .map(|share| format!("{} {} %", share.cause, (share.tenths + 5) / 10))
        .collect();
    or_absent(&named.join(", "))
}

fn maybe_count(number: Option<u64>) -> String {
    number.map_or_else(absent, count)
}

fn or_absent(text: &str) -> String {
    if text.is_empty() { absent() } else { text.to_owned() }
}

fn absent() -> String {
    ABSENT.to_owned()
}
