//! Hot: entry and exit of syscalls, dispatched on their number.
//!
//! The exit has all that a read or a write needs: pt_regs still holds the number and the first arguments. Only close
//! is looked at on entry.

use agent_ebpf::Op;
use aya_ebpf::{cty::c_void, macros::btf_tracepoint, programs::BtfTracePointContext};

use super::{field, files, sockets};
use crate::maps::{offset, op};

const ACCEPT: u8 = Op::Accept as u8;
const READ: u8 = Op::Read as u8;
const READ_VEC: u8 = Op::ReadVec as u8;
const READ_MSG: u8 = Op::ReadMsg as u8;
const WRITE: u8 = Op::Write as u8;
const WRITE_VEC: u8 = Op::WriteVec as u8;
const WRITE_MSG: u8 = Op::WriteMsg as u8;
const CONNECT: u8 = Op::Connect as u8;
const POLL: u8 = Op::Poll as u8;
const EPOLL_WAIT: u8 = Op::EpollWait as u8;
const DUP: u8 = Op::Dup as u8;
const CLOSE: u8 = Op::Close as u8;
const LOCK: u8 = Op::Lock as u8;
const SEND_FILE: u8 = Op::SendFile as u8;
const IO_URING: u8 = Op::IoUring as u8;
const OPEN: u8 = Op::Open as u8;
const READ_AT: u8 = Op::ReadAt as u8;

/// `trace_sys_enter(struct pt_regs *regs, long id)`, kernel/entry/common.c
#[btf_tracepoint(function = "sys_enter")]
pub fn sys_enter(ctx: BtfTracePointContext) -> i32 {
    let nr: i64 = ctx.arg(1);
    if op(nr) == CLOSE {
        let regs: *const c_void = ctx.arg(0);
        // SAFETY: pt_regs and its offset.
        let fd = unsafe { field::<u64>(regs, offset!(regs_arg[0])) };
        sockets::closed(fd as i32);
    }
    0
}

/// `trace_sys_exit(struct pt_regs *regs, long ret)`, kernel/entry/common.c
#[btf_tracepoint(function = "sys_exit")]
pub fn sys_exit(ctx: BtfTracePointContext) -> i32 {
    let regs: *const c_void = ctx.arg(0);
    let ret: i64 = ctx.arg(1);
    // SAFETY: pt_regs and its offset.
    let op = op(unsafe { field::<i32>(regs, offset!(regs_nr)) }.into());
    if op == Op::None as u8 || op == LOCK || op == CLOSE {
        return 0;
    }
    // SAFETY: pt_regs and its offsets.
    let (first, second, third) = unsafe {
        (
            field::<u64>(regs, offset!(regs_arg[0])),
            field::<u64>(regs, offset!(regs_arg[1])),
            field::<u64>(regs, offset!(regs_arg[2])),
        )
    };
    let fd = first as i32;
    match op {
        READ => sockets::received(fd, ret, sockets::Buffer::Plain(second)),
        READ_VEC => sockets::received(fd, ret, sockets::Buffer::Vector(second, third)),
        READ_MSG => sockets::received(fd, ret, sockets::Buffer::Message(second)),
        WRITE => sockets::sent(fd, ret, sockets::Buffer::Plain(second)),
        WRITE_VEC => sockets::sent(fd, ret, sockets::Buffer::Vector(second, third)),
        WRITE_MSG => sockets::sent(fd, ret, sockets::Buffer::Message(second)),
        EPOLL_WAIT => sockets::epoll_ready(ret, second),
        POLL => sockets::poll_ready(ret, first, second),
        ACCEPT => sockets::accepted(fd, ret, second),
        CONNECT => sockets::connected(fd, ret, second),
        DUP if ret >= 0 => sockets::closed(second as i32),
        SEND_FILE => sockets::sent(fd, ret, sockets::Buffer::Nothing),
        OPEN => files::opened(ret),
        READ_AT => files::read_at(fd, ret),
        IO_URING if ret >= 0 => sockets::io_uring(),
        _ => {}
    }
    0
}
