//! A load of known requests: what was sent, to be compared with what was counted.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use anyhow::{Context, Result, bail};

use crate::http::Connection;

/// One kind of request.
#[derive(Debug, Clone)]
pub struct Call {
    /// Method.
    pub method: &'static str,
    /// Path and query; `{}` in it becomes a number that differs from call to call.
    pub path: &'static str,
    /// Further header lines, each ended by CRLF.
    pub headers: &'static str,
    /// The body as it goes over the wire.
    pub body: &'static str,
    /// Status that the answer must have.
    pub status: u16,
    /// Path template that jcold should give it.
    pub route: &'static str,
    /// The kubelet sends it.
    pub probe: bool,
}

/// The requests of every server: each route that is quick, bodies both ways, no body at all, and now and then a probe.
pub const MIX: [Call; 9] = [
    call("GET", "/hello", "/hello"),
    Call { body: "12345678", headers: "Content-Length: 8\r\n", ..call("POST", "/echo", "/echo") },
    Call {
        body: "4\r\n1234\r\n3\r\n567\r\n0\r\n\r\n",
        headers: "Transfer-Encoding: chunked\r\n",
        ..call("POST", "/echo", "/echo")
    },
    call("GET", "/async", "/async"),
    Call { status: 204, ..call("GET", "/nothing", "/nothing") },
    Call { status: 304, ..call("GET", "/unchanged", "/unchanged") },
    call("HEAD", "/hello", "/hello"),
    Call { probe: true, headers: "User-Agent: kube-probe/1.34\r\n", ..call("GET", "/hello", "/hello") },
    call("GET", "/hello?number={}", "/hello"),
];

/// What needs the database on the Spring testbed, and nothing on the others.
pub const USERS: Call = call("GET", "/users/{}?verbose", "/users/{id}");

const fn call(method: &'static str, path: &'static str, route: &'static str) -> Call {
    Call { method, path, headers: "", body: "", status: 200, route, probe: false }
}

/// How many requests were sent and answered as they should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// User requests by method and route, `GET /users/{id}`.
    pub user: BTreeMap<String, u64>,
    /// Requests of probes.
    pub probe: u64,
}

impl Sent {
    /// Notes `count` user requests of a route.
    pub fn add(&mut self, method: &str, route: &str, count: u64) {
        *self.user.entry(format!("{method} {route}")).or_default() += count;
    }

    /// All user requests.
    pub fn user_total(&self) -> u64 {
        self.user.values().sum()
    }

    /// Adds what another load sent.
    pub fn merge(&mut self, other: Self) {
        for (route, count) in other.user {
            *self.user.entry(route).or_default() += count;
        }
        self.probe += other.probe;
    }
}

/// Sends `total` requests of the mix over `connections` connections at once, each of which stays open and sends one
/// after the other.
pub fn drive<S: Read + Write>(
    connect: impl Fn() -> Result<Connection<S>> + Sync,
    mix: &[Call],
    total: usize,
    connections: usize,
) -> Result<Sent> {
    let connect = &connect;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..connections)
            .map(|worker| {
                scope.spawn(move || one_connection(connect()?, mix, (worker..total).step_by(connections)))
            })
            .collect();
        let mut sent = Sent::default();
        for worker in workers {
            match worker.join() {
                Ok(theirs) => sent.merge(theirs?),
                Err(_) => bail!("a client thread panicked"),
            }
        }
        Ok(sent)
    })
}

fn one_connection<S: Read + Write>(
    mut connection: Connection<S>,
    mix: &[Call],
    numbers: impl Iterator<Item = usize>,
) -> Result<Sent> {
    let mut sent = Sent::default();
    for number in numbers {
        // The step keeps a connection from sending the same call for ever where it divides the mix's length.
        let call = &mix[(number + number / mix.len()) % mix.len()];
        let request = call.bytes(number);
        let what = || format!("request {number}, {} {}", call.method, call.path);
        connection.send(&request).with_context(what)?;
        let answer = connection.receive(call.method).with_context(what)?;
        if answer.status != call.status {
            bail!("{}: status {} instead of {}", what(), answer.status, call.status);
        }
        if call.probe {
            sent.probe += 1;
        } else {
            sent.add(call.method, call.route, 1);
        }
    }
    Ok(sent)
}

impl Call {
    /// The request as it goes over the wire.
    pub fn bytes(&self, number: usize) -> Vec<u8> {
        let Self { method, path, headers, body, .. } = self;
        let path = path.replace("{}", &number.to_string());
        format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n{body}").into_bytes()
    }
}
