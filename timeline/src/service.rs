//! The protocol of an outbound connection, from the first bytes that either end sends.

use crate::event::Service;

/// By what this process sent first.
pub fn of_sent(opening: &[u8]) -> Option<Service> {
    match opening {
        // SSLRequest, GSSENCRequest and StartupMessage (PostgreSQL, protocol 3.0, message formats).
        [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f | 0x30, ..] | [0, 0, _, _, 0, 3, 0, _, ..] => {
            Some(Service::Postgresql)
        }
        [0x16, 0x03, ..] => Some(Service::Tls),
        [b'*', b'1'..=b'9', ..] => Some(Service::Redis),
        // ApiVersions, request version 0 to 4, the first request of every client since 0.10: length, key 18, version
        // (Kafka, protocol guide).
        [0, 0, _, _, 0, 18, 0, 0..=4, ..] => Some(Service::Kafka),
        _ if HTTP.iter().any(|method| opening.starts_with(method)) => Some(Service::Http),
        _ => None,
    }
}

/// Whether what this process sent belongs to the protocol's own handshake, before the first command.
pub fn is_setup(service: Service, opening: &[u8]) -> bool {
    match (service, opening) {
        // StartupMessage, SSLRequest and GSSENCRequest have no type byte; `p` is every answer to an authentication
        // request (PostgreSQL, message formats). Inside TLS nothing more is told apart.
        (Service::Postgresql, [0 | b'p', ..]) | (Service::Postgresql | Service::Tls, [0x14 | 0x16, ..]) => {
            true
        }
        // A command begins a new sequence (MySQL, packet header).
        (Service::Mysql, [_, _, _, sequence, ..]) => *sequence != 0,
        _ => false,
    }
}

/// By what the peer sent first, when it speaks first.
pub fn of_received(opening: &[u8]) -> Option<Service> {
    // A handshake packet: 3 bytes length, sequence 0, protocol version 10 (MySQL, connection phase packets).
    matches!(opening, [_, _, 0, 0, 10, ..]).then_some(Service::Mysql)
}

const HTTP: &[&[u8]] =
    &[b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"PATCH ", b"OPTIONS ", b"CONNECT ", b"PRI * "];

/// By the port, when the bytes say nothing.
pub fn of_port(port: u16) -> Service {
    match port {
        5432 => Service::Postgresql,
        3306 => Service::Mysql,
        6379 => Service::Redis,
        80 | 8080 => Service::Http,
        443 | 8443 => Service::Tls,
        53 => Service::Dns,
        9092 => Service::Kafka,
        _ => Service::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes() {
        for (bytes, expect) in [
            (&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f][..], Some(Service::Postgresql)),
            (&[0, 0, 0, 0x55, 0, 3, 0, 0, b'u'], Some(Service::Postgresql)),
            (b"*1\r\n$4\r\nPING\r\n", Some(Service::Redis)),
            (b"GET /stub HTTP/1.1\r\n", Some(Service::Http)),
            (&[0x16, 3, 1, 0, 5], Some(Service::Tls)),
            (&[0, 0, 0, 0x34, 0, 18, 0, 3, 0, 0, 0, 0], Some(Service::Kafka)),
            (&[1, 2, 3], None),
            (b"", None),
        ] {
            assert_eq!(of_sent(bytes), expect, "{bytes:?}");
        }
        assert_eq!(of_received(&[0x4a, 0, 0, 0, 10, b'8', b'.']), Some(Service::Mysql));
        assert_eq!(of_received(b"HTTP/1.1 200"), None);
    }
}
