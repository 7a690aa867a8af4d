//! What a syscall on a socket means. `SOCKETS` says which fds are connections of followed processes; everything else
//! is left after one look-up.

use agent_ebpf::{
    Accepted, Connected, Counter, Head, Kind, OPENING_CAPTURE, Process, READY_CAPTURE, REQUEST_CAPTURE,
    ReadyMany, Received, Sent, SockAddr, Socket, SocketKey, role,
};
use aya_ebpf::helpers::{bpf_probe_read_user, generated::bpf_probe_read_user as read_user_raw};

use crate::{
    emit::{Wake, current, emit, followed, head, refused},
    maps::{SOCKETS, offset},
};

const EINPROGRESS: i64 = -115;
const AF_UNSPEC: u16 = 0;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// EPOLLIN and POLLIN.
const IN: u32 = 1;

/// Where a syscall's data is, in user memory.
pub enum Buffer {
    /// Address of the bytes.
    Plain(u64),
    /// Address of an array of `struct iovec`, the first of which is looked at.
    Vector(u64),
    /// Address of a `struct msghdr`.
    Message(u64),
}

impl Buffer {
    /// Address of the first bytes.
    #[inline(always)]
    fn address(self) -> u64 {
        let vector = match self {
            Buffer::Plain(address) => return address,
            Buffer::Vector(vector) => vector,
            // msg_iov stands behind msg_name and msg_namelen (include/linux/socket.h).
            Buffer::Message(message) => user::<u64>(message + 16).unwrap_or(0),
        };
        user::<u64>(vector).unwrap_or(0)
    }
}

#[inline(always)]
fn user<T>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_user(address as *const T) }.ok()
}

#[inline(always)]
fn family(address: &SockAddr) -> u16 {
    u16::from_ne_bytes([address[0], address[1]])
}

pub fn accepted(listen_fd: i32, ret: i64, address: u64) {
    let (tgid, _) = current();
    if ret < 0 {
        return;
    }
    let Some(process) = followed(tgid) else { return };
    let peer = user::<SockAddr>(address).unwrap_or_default();
    if !matches!(family(&peer), AF_INET | AF_INET6 | AF_UNSPEC) {
        return;
    }
    let fd = ret as i32;
    let socket = Socket { role: role::ACCEPTED, ..Socket::default() };
    if SOCKETS.insert(SocketKey { tgid, fd }, socket, 0).is_err() {
        refused(process, Counter::SocketsFull);
        return;
    }
    let head = head(Kind::Accepted, fd);
    emit::<Accepted>(process, head, Wake::Later, |record| {
        record.write(Accepted { head, listen_fd, peer });
    });
}

pub fn connected(fd: i32, ret: i64, address: u64) {
    let (tgid, _) = current();
    let Some(process) = followed(tgid) else { return };
    let peer = user::<SockAddr>(address).unwrap_or_default();
    if !matches!(family(&peer), AF_INET | AF_INET6) {
        return;
    }
    if ret == 0 || ret == EINPROGRESS {
        let socket = Socket { role: role::OUTBOUND, ..Socket::default() };
        if SOCKETS.insert(SocketKey { tgid, fd }, socket, 0).is_err() {
            refused(process, Counter::SocketsFull);
        }
    }
    let head = head(Kind::Connected, fd);
    emit::<Connected>(process, head, Wake::Later, |record| {
        record.write(Connected { head, result: ret as i32, peer });
    });
}

pub fn closed(fd: i32) {
    let (tgid, _) = current();
    let key = SocketKey { tgid, fd };
    // Everybody's close comes here; a look-up that finds nothing is cheaper than a removal that does.
    if SOCKETS.get_ptr(key).is_none() || SOCKETS.remove(key).is_err() {
        return;
    }
    if let Some(process) = followed(tgid) {
        emit::<Head>(process, head(Kind::Closed, fd), Wake::Later, |_| {});
    }
}

pub fn received(fd: i32, ret: i64, buffer: Buffer) {
    let (tgid, _) = current();
    let Some(socket) = SOCKETS.get_ptr_mut(SocketKey { tgid, fd }) else { return };
    // SAFETY: the entry stays valid until the program ends; threads that read one socket at once are the process's
    // own race, and the worst of it here is a head captured twice.
    let socket = unsafe { &mut *socket };
    if ret < 0 {
        return;
    }
    let Some(process) = followed(tgid) else { return };
    if socket.role == role::OUTBOUND {
        // The first answer is all that is wanted of an outbound connection.
        if socket.captured != 0 {
            return;
        }
    } else if socket.written != 0 {
        socket.written = 0;
        socket.captured = 0;
    }
    let room = (REQUEST_CAPTURE as u32).saturating_sub(socket.captured);
    let wanted = if socket.role == role::OUTBOUND { OPENING_CAPTURE as u32 } else { room };
    let captured = (ret as u32).min(wanted);
    socket.captured += captured;
    let head = head(Kind::Received, fd);
    emit::<Received>(process, head, Wake::Later, |record| {
        let record = record.as_mut_ptr();
        // SAFETY: memory of the record.
        unsafe {
            (*record).bytes = ret as u32;
            (*record).captured = copy(&raw mut (*record).data, captured, buffer);
        }
    });
}

pub fn sent(fd: i32, ret: i64, buffer: Buffer) {
    let (tgid, _) = current();
    let Some(socket) = SOCKETS.get_ptr_mut(SocketKey { tgid, fd }) else { return };
    // SAFETY: as in `received`.
    let socket = unsafe { &mut *socket };
    if ret <= 0 {
        return;
    }
    let first = socket.written == 0;
    if socket.role == role::OUTBOUND && !first {
        return;
    }
    let Some(process) = followed(tgid) else { return };
    socket.written = 1;
    let captured = if first { (ret as u32).min(OPENING_CAPTURE as u32) } else { 0 };
    let head = head(Kind::Sent, fd);
    emit::<Sent>(process, head, Wake::Later, |record| {
        let record = record.as_mut_ptr();
        // SAFETY: memory of the record.
        unsafe {
            (*record).bytes = ret as u32;
            (*record).captured = copy(&raw mut (*record).data, captured, buffer);
        }
    });
}

/// Copies the first `len` bytes of a syscall's data; returns how many it could.
#[inline(always)]
fn copy<const N: usize>(to: *mut [u8; N], len: u32, from: Buffer) -> u32 {
    let mut len = u64::from(len);
    // SAFETY: plain arithmetic. The compiler would compare one register and pass another; the verifier wants the
    // bound on the one that it sees passed.
    unsafe { core::arch::asm!("if {0} <= {1} goto +1", "{0} = {1}", inout(reg) len, in(reg) N as u64) };
    let address = from.address() as *const _;
    // SAFETY: `to` has N bytes, and `len` is at most N.
    if unsafe { read_user_raw(to.cast(), len as u32, address) } == 0 { len as u32 } else { 0 }
}

/// `struct epoll_event` array of `ret` entries: servers keep the fd in `data` (sun.nio.ch.EPoll, Netty's native epoll).
pub fn epoll_ready(ret: i64, events: u64) {
    let (tgid, _) = current();
    if ret <= 0 {
        return;
    }
    let Some(process) = followed(tgid) else { return };
    if ret == 1 {
        if user::<u32>(events).unwrap_or(0) & IN != 0
            && let Some(fd) = user::<i32>(events + offset!(epoll_event_data) as u64)
        {
            ready(process, tgid, fd);
        }
        return;
    }
    let bytes = ret as u64 * offset!(epoll_event_size) as u64;
    ready_many(process, Kind::EpollReady, ret as u32, bytes, events);
}

/// `struct pollfd` array (fd, events, revents) of `len` entries, `ret` of them ready.
pub fn poll_ready(ret: i64, fds: u64, len: u64) {
    let (tgid, _) = current();
    if ret <= 0 {
        return;
    }
    let Some(process) = followed(tgid) else { return };
    if len == 1 {
        if let Some(entry) = user::<u64>(fds)
            && (entry >> 48) as u32 & IN != 0
        {
            ready(process, tgid, entry as u32 as i32);
        }
        return;
    }
    ready_many(process, Kind::PollReady, len as u32, len * 8, fds);
}

#[inline(always)]
fn ready(process: &Process, tgid: u32, fd: i32) {
    // SAFETY: only read.
    if let Some(socket) = unsafe { SOCKETS.get(SocketKey { tgid, fd }) }
        && socket.role == role::ACCEPTED
    {
        emit::<Head>(process, head(Kind::Ready, fd), Wake::Later, |_| {});
    }
}

/// The agent sorts out which of the fds are connections: a loop over them here, each with its look-up, is more than
/// older verifiers accept.
#[inline(always)]
fn ready_many(process: &Process, kind: Kind, entries: u32, bytes: u64, array: u64) {
    if bytes > READY_CAPTURE as u64 {
        refused(process, Counter::ReadyCut);
    }
    let head = head(kind, -1);
    emit::<ReadyMany>(process, head, Wake::Later, |record| {
        let record = record.as_mut_ptr();
        // SAFETY: memory of the record.
        unsafe {
            (*record).entries = entries;
            (*record).captured = copy(&raw mut (*record).data, bytes as u32, Buffer::Plain(array));
        }
    });
}
