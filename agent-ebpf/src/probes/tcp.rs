//! Sentinel: state changes of TCP sockets of followed processes.

use agent_ebpf::{Connect, Counter, Head, Kind, ListenerKey, TcpState};
use aya_ebpf::{
    cty::c_void, helpers::bpf_probe_read_kernel, macros::btf_tracepoint, programs::BtfTracePointContext,
};

use super::{field, work};
use crate::{
    emit::{Wake, count, current, emit, followed, now_ns, refused},
    maps::{ARRIVALS, CONNECTS, LISTENERS, offset},
};

// include/net/tcp_states.h
const TCP_ESTABLISHED: i32 = 1;
const TCP_SYN_SENT: i32 = 2;
const TCP_SYN_RECV: i32 = 3;
const TCP_CLOSE: i32 = 7;
const TCP_LISTEN: i32 = 10;

const AF_INET6: u16 = 10;
const IPPROTO_TCP: u16 = 6;

/// `trace_inet_sock_set_state(const struct sock *sk, const int oldstate, const int newstate)`, net/ipv4/af_inet.c:
/// LISTEN and SYN_SENT are set by the thread that asked for them, the others wherever the packet arrives.
#[btf_tracepoint(function = "inet_sock_set_state")]
pub fn inet_sock_set_state(ctx: BtfTracePointContext) -> i32 {
    let sock: *const c_void = ctx.arg(0);
    let (old, new): (i32, i32) = (ctx.arg(1), ctx.arg(2));
    let key = sock as u64;
    if new == TCP_CLOSE && ARRIVALS.get_ptr(key).is_some() {
        let _ = ARRIVALS.remove(key);
    }
    let owner = match new {
        TCP_LISTEN | TCP_SYN_SENT => Some(current()),
        // SAFETY: a sock; only read.
        TCP_ESTABLISHED if old == TCP_SYN_RECV => {
            unsafe { LISTENERS.get(listener(sock)) }.map(|tgid| (*tgid, 0))
        }
        TCP_CLOSE if old == TCP_LISTEN => {
            // SAFETY: a sock.
            let _ = LISTENERS.remove(unsafe { listener(sock) });
            None
        }
        // SAFETY: only read.
        TCP_ESTABLISHED | TCP_CLOSE => unsafe { CONNECTS.get(key) }.map(|owner| (owner.tgid, owner.tid)),
        _ => None,
    };
    let Some((tgid, tid)) = owner else { return 0 };
    if new == TCP_CLOSE {
        let _ = CONNECTS.remove(key);
    }
    let Some(process) = followed(tgid) else { return 0 };
    // SAFETY: a sock and its offsets.
    if unsafe { field::<u16>(sock, offset!(sock_protocol)) } != IPPROTO_TCP {
        return 0;
    }
    let kind = match new {
        TCP_LISTEN => {
            // SAFETY: a sock.
            if LISTENERS.insert(unsafe { listener(sock) }, tgid, 0).is_err() {
                refused(process, Counter::ListenersFull);
            }
            Kind::Listening
        }
        TCP_SYN_SENT => {
            if CONNECTS.insert(key, Connect { tgid, tid }, 0).is_err() {
                refused(process, Counter::ConnectsFull);
            }
            Kind::Connecting
        }
        TCP_ESTABLISHED if old == TCP_SYN_RECV => {
            if ARRIVALS.insert(key, 0, 0).is_err() {
                count(Counter::ArrivalsFull);
            }
            Kind::Handshake
        }
        TCP_ESTABLISHED => Kind::Established,
        _ => Kind::Disconnected,
    };
    if kind as u32 == Kind::Listening as u32 {
        work::before_record(process);
    }
    let head = Head { kind: kind as u32, tgid, tid, fd: -1, at_ns: now_ns() };
    emit::<TcpState>(process, head, Wake::Later, |record| {
        // SAFETY: a sock and its offsets; the addresses are copied by a helper that checks them.
        unsafe {
            let family = field::<u16>(sock, offset!(sock_family));
            let (local, peer) = if family == AF_INET6 {
                (
                    bpf_probe_read_kernel(sock.byte_add(offset!(sock_local_v6)).cast()),
                    bpf_probe_read_kernel(sock.byte_add(offset!(sock_peer_v6)).cast()),
                )
            } else {
                (v4(sock, offset!(sock_local_v4)), v4(sock, offset!(sock_peer_v4)))
            };
            record.write(TcpState {
                head,
                socket: key,
                family,
                local_port: field(sock, offset!(sock_local_port)),
                peer_port: u16::from_be(field(sock, offset!(sock_peer_port))),
                error: field::<u32>(sock, offset!(sock_error)) as u16,
                local_addr: local.unwrap_or_default(),
                peer_addr: peer.unwrap_or_default(),
            });
        }
    });
    0
}

/// Hot, where the kernel has it (6.3): `trace_sk_data_ready(const struct sock *sk)`, net/core/sock.c, whenever data is put
/// into a socket's queue.
#[btf_tracepoint(function = "sk_data_ready")]
pub fn sk_data_ready(ctx: BtfTracePointContext) -> i32 {
    let sock: *const c_void = ctx.arg(0);
    if let Some(arrived) = ARRIVALS.get_ptr_mut(sock as u64) {
        // SAFETY: the entry stays valid until the program ends. Who reads resets it; at worst the data of a second
        // arrival is told as of the first.
        unsafe {
            if *arrived == 0 {
                *arrived = now_ns();
            }
        }
    }
    0
}

/// # Safety
/// As [`field`].
#[inline(always)]
unsafe fn v4(sock: *const c_void, offset: usize) -> Result<[u8; 16], i32> {
    let mut addr = [0u8; 16];
    // SAFETY: the caller's promise.
    let [a, b, c, d] = unsafe { field::<u32>(sock, offset) }.to_ne_bytes();
    (addr[0], addr[1], addr[2], addr[3]) = (a, b, c, d);
    Ok(addr)
}

/// Where a socket listens, or the one that it was accepted by.
///
/// # Safety
/// As [`field`].
#[inline(always)]
unsafe fn listener(sock: *const c_void) -> ListenerKey {
    // SAFETY: the caller's promise.
    let (net, port) =
        unsafe { (field::<u64>(sock, offset!(sock_net)), field::<u16>(sock, offset!(sock_local_port))) };
    ListenerKey { net, port: port.into(), pad: 0 }
}
