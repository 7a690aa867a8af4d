//! The HTTP service that the testbed's `/external` calls: a constant answer, on connections that stay open.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::{Context, Result};

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n{\"message\":\"from the stub\"}";
const MAX_HEAD: usize = 8192;

/// Starts the stub; it answers until this process ends. Its port on loopback.
pub fn start() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("bind the stub")?;
    let port = listener.local_addr().context("bind the stub")?.port();
    std::thread::Builder::new()
        .name("stub".into())
        .spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || serve(stream));
            }
        })
        .context("start the stub")?;
    Ok(port)
}

/// Answers each request head on one connection, until the peer closes it or sends something else.
fn serve(mut stream: TcpStream) {
    let mut received = Vec::new();
    let mut chunk = [0; 1024];
    while let Ok(length) = stream.read(&mut chunk) {
        if length == 0 || received.len() + length > MAX_HEAD {
            return;
        }
        received.extend_from_slice(&chunk[..length]);
        while let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            received.drain(..end + 4);
            if stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::http::Connection;

    #[test]
    fn one_connection_gets_one_answer_for_each_request() {
        let mut connection = Connection::open(super::start().unwrap()).unwrap();
        for _ in 0..3 {
            let response = connection.get("/greeting", "").unwrap();
            assert_eq!(
                (response.status, response.body.as_slice()),
                (200, &b"{\"message\":\"from the stub\"}"[..])
            );
        }
    }
}
