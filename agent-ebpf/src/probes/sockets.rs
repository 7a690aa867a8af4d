//! What a syscall on a socket means. `SOCKETS` says which fds are connections of followed processes; everything else
//! is left after one look-up.

use agent_ebpf::{
    Accepted, Connected, Counter, FEW_PARTS, Head, Kind, PART_CAPTURES, PARTS, PARTS_CAPTURE, Process,
    READY_CAPTURE, READY_LONG_CAPTURE, REQUEST_CAPTURE, ReadyLong, ReadyMany, Received, ReceivedLong,
    SHORT_CAPTURE, Sent, SentHead, SentParts, SockAddr, Socket, SocketKey, part_capture, role, speech,
};
use aya_ebpf::{
    cty::c_void,
    helpers::{bpf_get_current_task_btf, bpf_probe_read_kernel},
};

use super::{account, field, files, user, work};
use crate::{
    emit::{Wake, current, emit, followed, head, refused},
    maps::{ARRIVALS, SOCKETS, offset},
};

const EINPROGRESS: i64 = -115;
const AF_UNSPEC: u16 = 0;
const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// EPOLLIN and POLLIN.
const IN: u32 = 1;

/// Where a syscall's data is, in user memory.
#[derive(Clone, Copy)]
pub enum Buffer {
    /// Nowhere: it comes from a file.
    Nothing,
    /// Address of the bytes.
    Plain(u64),
    /// Address of an array of `struct iovec`, and how many there are.
    Vector(u64, u64),
    /// Address of a `struct msghdr`.
    Message(u64),
}

impl Buffer {
    /// Address and number of the `struct iovec`s.
    #[inline(always)]
    fn parts(self) -> (u64, u64) {
        match self {
            Buffer::Nothing | Buffer::Plain(_) => (0, 0),
            Buffer::Vector(vector, count) => (vector, count),
            // msg_iov and msg_iovlen stand behind msg_name and msg_namelen (include/linux/socket.h).
            Buffer::Message(message) => {
                (user::read::<u64>(message + 16).unwrap_or(0), user::read::<u64>(message + 24).unwrap_or(0))
            }
        }
    }

    /// Address of the first bytes.
    #[inline(always)]
    fn address(self) -> u64 {
        match self {
            Buffer::Nothing => 0,
            Buffer::Plain(address) => address,
            Buffer::Vector(..) | Buffer::Message(_) => user::read::<u64>(self.parts().0).unwrap_or(0),
        }
    }
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
    let peer = user::read::<SockAddr>(address).unwrap_or_default();
    if !matches!(family(&peer), AF_INET | AF_INET6 | AF_UNIX | AF_UNSPEC) {
        return;
    }
    let fd = ret as i32;
    let socket = Socket { role: role::ACCEPTED, sock: sock_of(fd), ..Socket::default() };
    if family(&peer) != AF_UNIX && SOCKETS.insert(SocketKey { tgid, fd }, socket, 0).is_err() {
        refused(process, Counter::SocketsFull);
        return;
    }
    work::allow_names(tgid);
    let head = head(Kind::Accepted, fd);
    emit::<Accepted>(process, head, Wake::Later, |record| {
        record.write(Accepted { head, listen_fd, peer });
    });
}

/// Address of the `struct file` behind an fd of the current process; 0 when it cannot be found.
#[inline(always)]
pub fn file_of(fd: i32) -> u64 {
    // SAFETY: a helper without arguments gives the current task; what is behind it is followed by offsets of the
    // running kernel, and read by a helper that checks the addresses.
    unsafe {
        let task: *const c_void = bpf_get_current_task_btf().cast();
        let files = field::<*const c_void>(task, offset!(task_files));
        let table = field::<*const c_void>(files, offset!(files_fdt));
        let file = field::<u64>(table, offset!(fdt_fd)) + fd as u64 * 8;
        bpf_probe_read_kernel(file as *const u64).unwrap_or(0)
    }
}

/// Address of the `struct sock` behind an fd of the current process; 0 when it cannot be found.
#[inline(always)]
fn sock_of(fd: i32) -> u64 {
    // SAFETY: the helper checks the address.
    let follow = |address: u64| unsafe { bpf_probe_read_kernel(address as *const u64) }.unwrap_or(0);
    let socket = follow(file_of(fd) + offset!(file_private) as u64);
    follow(socket + offset!(socket_sk) as u64)
}

/// When the data came that was read now.
#[inline(always)]
fn arrival(socket: &Socket) -> u64 {
    let Some(arrived) = ARRIVALS.get_ptr_mut(socket.sock) else { return 0 };
    // SAFETY: as in `sk_data_ready`.
    unsafe { core::mem::replace(&mut *arrived, 0) }
}

pub fn connected(fd: i32, ret: i64, address: u64) {
    let (tgid, _) = current();
    let Some(process) = followed(tgid) else { return };
    let peer = user::read::<SockAddr>(address).unwrap_or_default();
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
    // SAFETY: only read.
    let Some(socket) = (unsafe { SOCKETS.get(key) }) else { return };
    let is_socket = socket.role == role::ACCEPTED || socket.role == role::OUTBOUND;
    if SOCKETS.remove(key).is_err() || !is_socket {
        return;
    }
    if let Some(process) = followed(tgid) {
        emit::<Head>(process, head(Kind::Closed, fd), Wake::Later, |_| {});
    }
}

/// Makes a record with the first bytes of what a syscall moved, and the thread's account.
macro_rules! payload {
    ($process:expr, $record:ident, $kind:expr, $fd:expr, $ret:expr, $captured:expr, $buffer:expr $(, $field:ident)?) => {
        let head = head($kind, $fd);
        emit::<$record>($process, head, Wake::Later, |record| {
            let record = record.as_mut_ptr();
            // SAFETY: memory of the record.
            unsafe {
                (*record).bytes = $ret as u32;
                $((*record).$field = $field;)?
                (*record).account = account::current(head.tid);
                (*record).captured = user::copy(&raw mut (*record).data, $captured as u32, $buffer.address());
            }
        });
    };
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
    if socket.role == role::JAR || socket.role == role::MODULES {
        if ret > 0 {
            files::read(process, tgid, socket.role, ret);
        }
        return;
    }
    work::before_record(process);
    if socket.role == role::OUTBOUND {
        // A peer may speak first.
        if ret > 0 && (socket.written != 0 || socket.captured == 0) {
            (socket.written, socket.captured) = (0, 1);
            opening(process, Kind::Answered, fd, ret, buffer);
        }
        return;
    }
    let arrived_ns = arrival(socket);
    let first = socket.speech == speech::NONE && ret > 0;
    if first {
        socket.speech = speech_of(buffer.address());
    }
    if first || socket.written != 0 {
        work::allow_names(tgid);
    }
    if socket.written != 0 {
        (socket.written, socket.captured) = (0, 0);
    }
    let room = match socket.speech {
        // The client's hello says what may be spoken inside.
        speech::RECORDS if !first => SHORT_CAPTURE as u32,
        speech::RECORDS | speech::FRAMES => REQUEST_CAPTURE as u32,
        _ => (REQUEST_CAPTURE as u32).saturating_sub(socket.captured),
    };
    let captured = (ret as u32).min(room);
    socket.captured = socket.captured.saturating_add(captured);
    if captured > SHORT_CAPTURE as u32 {
        payload!(process, ReceivedLong, Kind::ReceivedLong, fd, ret, captured, buffer, arrived_ns);
    } else {
        payload!(process, Received, Kind::Received, fd, ret, captured, buffer, arrived_ns);
    }
}

/// What a client speaks, by its first bytes: a TLS handshake's record header (RFC 8446, section 5.1), or the preface
/// of HTTP/2 (RFC 9113, section 3.4).
#[inline(always)]
fn speech_of(address: u64) -> u32 {
    match user::read::<[u8; 4]>(address) {
        Some([0x16, 3, ..]) => speech::RECORDS,
        Some([b'P', b'R', b'I', b' ']) => speech::FRAMES,
        _ => speech::PLAIN,
    }
}

/// The first bytes of a turn of an outbound conversation, or of a write that opens no answer.
#[inline(always)]
fn opening(process: &Process, kind: Kind, fd: i32, ret: i64, buffer: Buffer) {
    payload!(process, Sent, kind, fd, ret, ret, buffer);
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
    if socket.role != role::ACCEPTED && (socket.role != role::OUTBOUND || !first) {
        return;
    }
    let Some(process) = followed(tgid) else { return };
    work::before_record(process);
    socket.written = 1;
    if socket.role == role::OUTBOUND {
        opening(process, Kind::Asked, fd, ret, buffer);
        return;
    }
    match socket.speech {
        speech::RECORDS => opening(process, Kind::Sent, fd, ret, buffer),
        speech::FRAMES => sent_parts(process, fd, ret, buffer),
        _ => {
            // "HTTP/1.1 101": what follows may be anything.
            let begin = user::read::<[u8; 12]>(buffer.address()).unwrap_or_default();
            if ret < 12 || begin[..7] != *b"HTTP/1." {
                opening(process, Kind::Sent, fd, ret, buffer);
                return;
            }
            if begin[9..] == *b"101" {
                socket.speech = speech::FRAMES;
            }
            payload!(process, SentHead, Kind::SentHead, fd, ret, ret, buffer);
        }
    }
}

/// A write of HTTP/2 frames, which servers like to gather from several buffers. One buffer may fill all the places.
#[inline(always)]
fn sent_parts(process: &Process, fd: i32, ret: i64, buffer: Buffer) {
    let head = head(Kind::SentParts, fd);
    emit::<SentParts>(process, head, Wake::Later, |record| {
        let record = record.as_mut_ptr();
        // SAFETY: memory of the record.
        unsafe {
            (*record).bytes = ret as u32;
            (*record).account = account::current(head.tid);
            let (vector, count) = buffer.parts();
            (*record).parts = count.max(1) as u32;
            (*record).copied = 0;
            if count <= 1 {
                user::copy(&raw mut (*record).data, ret as u32, buffer.address());
            } else if part_capture(PARTS, ret as usize) == PART_CAPTURES[0] {
                copy_parts::<{ PART_CAPTURES[0] }>(record, vector, count);
            } else if count <= FEW_PARTS as u64 {
                copy_parts::<{ PART_CAPTURES[1] }>(record, vector, count);
            } else {
                copy_parts::<{ PART_CAPTURES[2] }>(record, vector, count);
            }
        }
    });
}

/// Copies at most N first bytes of each part, one after the other, and the parts' lengths.
///
/// # Safety
/// `record` is memory of a record.
#[inline(always)]
unsafe fn copy_parts<const N: usize>(record: *mut SentParts, vector: u64, count: u64) {
    for index in 0..PARTS {
        if index as u64 >= count {
            break;
        }
        let [address, length] = user::read::<[u64; 2]>(vector + index as u64 * 16).unwrap_or_default();
        // SAFETY: the caller's promise; at most N bytes go to a place with room for N. The place is kept in the record:
        // of what comes from there the verifier remembers nothing, so the loop's turns look alike to it.
        unsafe {
            (*record).lengths[index] = length as u32;
            let at = (&raw const (*record).copied).read_volatile() as usize;
            if at <= PARTS_CAPTURE - N {
                let to = (&raw mut (*record).data).cast::<u8>().add(at).cast::<[u8; N]>();
                user::copy(to, length as u32, address);
                (&raw mut (*record).copied).write_volatile((at + (length as usize).min(N)) as u32);
            }
        }
    }
}

/// The process set up an io_uring.
pub fn io_uring() {
    let (tgid, _) = current();
    if let Some(process) = followed(tgid) {
        emit::<Head>(process, head(Kind::IoUring, -1), Wake::Later, |_| {});
    }
}

/// `struct epoll_event` array of `ret` entries: servers keep the fd in `data` (sun.nio.ch.EPoll, Netty's native epoll).
pub fn epoll_ready(ret: i64, events: u64) {
    let (tgid, _) = current();
    if ret <= 0 {
        return;
    }
    let Some(process) = followed(tgid) else { return };
    if ret == 1 {
        if user::read::<u32>(events).unwrap_or(0) & IN != 0
            && let Some(fd) = user::read::<i32>(events + offset!(epoll_event_data) as u64)
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
        if let Some(entry) = user::read::<u64>(fds)
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
    if kind == Kind::EpollReady && bytes > READY_CAPTURE as u64 {
        if bytes > READY_LONG_CAPTURE as u64 {
            refused(process, Counter::ReadyCut);
        }
        let head = head(Kind::EpollReadyLong, -1);
        emit::<ReadyLong>(process, head, Wake::Later, |record| {
            let record = record.as_mut_ptr();
            // SAFETY: memory of the record.
            unsafe {
                (*record).entries = entries;
                (*record).captured = user::copy(&raw mut (*record).data, bytes as u32, array);
            }
        });
        return;
    }
    if bytes > READY_CAPTURE as u64 {
        refused(process, Counter::ReadyCut);
    }
    let head = head(kind, -1);
    emit::<ReadyMany>(process, head, Wake::Later, |record| {
        let record = record.as_mut_ptr();
        // SAFETY: memory of the record.
        unsafe {
            (*record).entries = entries;
            (*record).captured = user::copy(&raw mut (*record).data, bytes as u32, array);
        }
    });
}
