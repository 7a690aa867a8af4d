//! Files that classes are loaded from: jars, and the JDK's own `lib/modules`.

use agent_ebpf::{Counter, Process, Socket, SocketKey, Work, role};
use aya_ebpf::helpers::bpf_probe_read_kernel;

use super::sockets::file_of;
use crate::{
    emit::{add, current, followed, refused, set},
    maps::{JVMS, SOCKETS, offset},
};

/// A file was opened.
#[inline(always)]
pub fn opened(ret: i64) {
    let (tgid, _) = current();
    if ret < 0 {
        return;
    }
    let Some(process) = followed(tgid) else { return };
    let fd = ret as i32;
    let role = role_of(file_of(fd));
    if role == 0 {
        return;
    }
    let file = Socket { role, ..Socket::default() };
    if SOCKETS.insert(SocketKey { tgid, fd }, file, 0).is_err() {
        refused(process, Counter::SocketsFull);
    }
}

/// What a file is, by its name (include/linux/dcache.h); 0 when it is of no interest.
#[inline(always)]
fn role_of(file: u64) -> u32 {
    let kernel = |address: u64| {
        // SAFETY: the helper checks the address.
        unsafe { bpf_probe_read_kernel(address as *const u64) }.unwrap_or(0)
    };
    let dentry = kernel(file + offset!(file_dentry) as u64);
    let name = kernel(dentry + offset!(dentry_name) as u64);
    let len = kernel(dentry + offset!(dentry_name_len) as u64) as u32;
    if !(5..=255).contains(&len) {
        return 0;
    }
    let last = kernel(name + u64::from(len) - 4) as u32;
    if last == u32::from_ne_bytes(*b".jar") {
        return role::JAR;
    }
    if len == 7 && kernel(name) << 8 == u64::from_ne_bytes(*b"modules\0") << 8 {
        return role::MODULES;
    }
    0
}

/// Bytes of a file were read.
#[inline(always)]
pub fn read(process: &Process, tgid: u32, role: u32, ret: i64) {
    let Some(jvm) = JVMS.get_ptr_mut(tgid) else { return };
    // SAFETY: the entry stays valid until the program ends; its sums are only touched atomically.
    let work: &Work = unsafe { &(*jvm).work };
    let (reads, bytes) = if role == role::JAR {
        (&work.jar_reads, &work.jar_bytes)
    } else {
        (&work.modules_reads, &work.modules_bytes)
    };
    add(reads, 1);
    add(bytes, ret as u64);
    set(&process.untold, 1);
}

/// Bytes were read at a place of a file, which no socket has.
#[inline(always)]
pub fn read_at(fd: i32, ret: i64) {
    let (tgid, _) = current();
    if ret <= 0 {
        return;
    }
    // SAFETY: only read.
    let Some(file) = (unsafe { SOCKETS.get(SocketKey { tgid, fd }) }) else { return };
    let role = file.role;
    if role != role::JAR && role != role::MODULES {
        return;
    }
    if let Some(process) = followed(tgid) {
        read(process, tgid, role, ret);
    }
}
