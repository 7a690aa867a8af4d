//! What no client should do, and what happens to file descriptors beside requests: nothing of it is a request, and it
//! spoils no count of those that are.

use std::net::{Ipv4Addr, TcpStream};

use anyhow::{Context, Result, ensure};
use xtask::http::Connection;
use xtask::load::Sent;
use xtask::server::Server;
use xtask::traced::Traced;

use crate::counts::{assert_counts, assert_requests};

fn resident_bytes(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

#[test]
fn ten_thousand_connections_without_a_byte_are_no_request_and_stay_in_no_memory() -> Result<()> {
    const GROWTH: u64 = 8 << 20;
    let mut traced = Traced::serve(Server::Jetty)?;
    let mut sent = Sent::default();
    let mut wave = |count: usize| {
        for number in 1..=count {
            TcpStream::connect((Ipv4Addr::LOCALHOST, traced.port())).context("connect")?;
            // The answer shows that all before it were accepted: a full queue would cost the next a second.
            if number % 1_000 == 0 {
                let status = Connection::open(traced.port())?.get("/hello", "")?.status;
                ensure!(status == 200);
                sent.add("GET", "/hello", 1);
            }
        }
        resident_bytes(traced.agent_pid())
    };
    let after_some = wave(2_000)?;
    let after_all = wave(8_000)?;
    assert!(after_all < after_some + GROWTH, "{after_some} bytes, then {after_all}");
    // A poller that returns more of them at once than a record holds is a loss, which the timeline may note.
    assert_requests(&traced.finish()?, &sent);
    Ok(())
}

/// A closed connection's descriptor is the next one's, often before the close has returned.
#[test]
fn a_descriptor_that_is_used_again_at_once_is_another_connection() -> Result<()> {
    const EACH: u64 = 250;
    for server in [Server::Jdk, Server::Netty] {
        let mut traced = Traced::serve(server)?;
        let port = traced.port();
        std::thread::scope(|scope| {
            let clients: Vec<_> = ["/hello", "/users/1", "/async"]
                .into_iter()
                .map(|path| {
                    scope.spawn(move || {
                        for number in 0..EACH {
                            // Some go without a word, so that a number comes back with no request on it.
                            if number % 5 == 0 {
                                drop(Connection::open(port)?);
                            }
                            let answer = Connection::open(port)?.get(path, "Connection: close\r\n")?;
                            ensure!(answer.status == 200, "{path}: {}", answer.status);
                        }
                        Ok(())
                    })
                })
                .collect();
            clients.into_iter().try_for_each(|client| client.join().expect("no client panics"))
        })?;
        let mut sent = Sent::default();
        for route in ["/hello", "/users/{id}", "/async"] {
            sent.add("GET", route, EACH);
        }
        // So many connects and closes, of whatever process, now and then interrupt one another within the same probe,
        // which the kernel then skips and counts: not every such run is complete.
        assert_requests(&traced.finish()?, &sent);
    }
    Ok(())
}

/// A child has the parent's sockets until it executes another program, and closes what it has.
#[test]
fn a_fork_in_the_jvm_is_not_the_jvm() -> Result<()> {
    for mechanism in ["POSIX_SPAWN", "VFORK", "FORK"] {
        let option = format!("-Djdk.lang.Process.launchMechanism={mechanism}");
        let mut traced = Traced::serve_with(Server::Jdk, &[&option])?;
        let mut connections = [Connection::open(traced.port())?, Connection::open(traced.port())?];
        let mut sent = Sent::default();
        for _ in 0..10 {
            for connection in &mut connections {
                for path in ["/hello", "/fork", "/hello"] {
                    ensure!(connection.get(path, "")?.status == 200, "{path}");
                    sent.add("GET", path, 1);
                }
            }
        }
        assert_counts(&traced.finish()?, &sent);
    }
    Ok(())
}
