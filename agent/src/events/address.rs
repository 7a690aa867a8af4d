//! Socket addresses as the kernel and the process wrote them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use agent_ebpf::{SockAddr, TcpState};

/// This end of a socket.
pub fn local(state: &TcpState) -> SocketAddr {
    SocketAddr::new(ip(state.family, state.local_addr), state.local_port)
}

/// The other end of a socket.
pub fn peer(state: &TcpState) -> SocketAddr {
    SocketAddr::new(ip(state.family, state.peer_addr), state.peer_port)
}

fn ip(family: u16, bytes: [u8; 16]) -> IpAddr {
    if i32::from(family) == libc::AF_INET6 {
        return Ipv6Addr::from(bytes).to_canonical();
    }
    let [a, b, c, d, ..] = bytes;
    Ipv4Addr::new(a, b, c, d).into()
}

/// `struct sockaddr_in` or `sockaddr_in6`: family, port, then the address (for IPv6 behind the flow label).
pub fn of(bytes: &SockAddr) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let ip: IpAddr = match family {
        libc::AF_INET => Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]).into(),
        libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[8..24]).ok()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_a_process_passes_them() {
        let mut v4 = [0u8; 28];
        v4[..8].copy_from_slice(&[2, 0, 0x1f, 0x90, 127, 0, 0, 1]);
        assert_eq!(of(&v4), Some("127.0.0.1:8080".parse().unwrap()));
        let mut mapped = [0u8; 28];
        mapped[..4].copy_from_slice(&[10, 0, 0x15, 0x38]);
        mapped[18..24].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 7]);
        assert_eq!(of(&mapped), Some("10.0.0.7:5432".parse().unwrap()));
        assert_eq!(of(&[0; 28]), None);
    }
}
