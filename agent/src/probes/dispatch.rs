//! Which syscalls the hot probes look at, by the running architecture's numbers.

use agent_ebpf::{Op, SYSCALLS};

/// Syscalls that exist on every architecture.
const COMMON: &[(libc::c_long, Op)] = &[
    (libc::SYS_accept, Op::Accept),
    (libc::SYS_accept4, Op::Accept),
    (libc::SYS_read, Op::Read),
    (libc::SYS_recvfrom, Op::Read),
    (libc::SYS_readv, Op::ReadVec),
    (libc::SYS_recvmsg, Op::ReadMsg),
    (libc::SYS_write, Op::Write),
    (libc::SYS_sendto, Op::Write),
    (libc::SYS_writev, Op::WriteVec),
    (libc::SYS_sendmsg, Op::WriteMsg),
    (libc::SYS_connect, Op::Connect),
    (libc::SYS_ppoll, Op::Poll),
    (libc::SYS_epoll_pwait, Op::EpollWait),
    (libc::SYS_epoll_pwait2, Op::EpollWait),
    (libc::SYS_dup3, Op::Dup),
    (libc::SYS_close, Op::Close),
    (libc::SYS_futex, Op::Lock),
    (libc::SYS_nanosleep, Op::Lock),
    (libc::SYS_clock_nanosleep, Op::Lock),
    (libc::SYS_mmap, Op::Lock),
    (libc::SYS_munmap, Op::Lock),
    (libc::SYS_mprotect, Op::Lock),
    (libc::SYS_madvise, Op::Lock),
    (libc::SYS_brk, Op::Lock),
    (libc::SYS_sendfile, Op::SendFile),
    (libc::SYS_io_uring_setup, Op::IoUring),
    (libc::SYS_openat, Op::Open),
    (libc::SYS_openat2, Op::Open),
    (libc::SYS_pread64, Op::ReadAt),
    (libc::SYS_preadv, Op::ReadAt),
];

/// Syscalls that arm64 never had.
#[cfg(target_arch = "x86_64")]
const LEGACY: &[(libc::c_long, Op)] = &[
    (libc::SYS_poll, Op::Poll),
    (libc::SYS_epoll_wait, Op::EpollWait),
    (libc::SYS_dup2, Op::Dup),
    (libc::SYS_open, Op::Open),
];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY: &[(libc::c_long, Op)] = &[];

/// The dispatch table, by syscall number.
pub fn table() -> [u8; SYSCALLS] {
    let mut table = [Op::None as u8; SYSCALLS];
    for &(number, op) in COMMON.iter().chain(LEGACY) {
        table[usize::try_from(number).expect("syscall numbers are small")] = op as u8;
    }
    table
}
