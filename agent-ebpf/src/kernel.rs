//! What the agent tells the probes of the running kernel before it loads them.

/// Syscall numbers that the dispatch table covers; both x86-64 and arm64 stay below.
pub const SYSCALLS: usize = 512;

/// What a syscall is to the probes: the values of the dispatch table `SYSCALL_OPS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Not looked at.
    None = 0,
    /// accept, accept4.
    Accept = 1,
    /// read, recvfrom: the second argument is the buffer.
    Read = 2,
    /// readv: the second argument is an iovec.
    ReadVec = 3,
    /// recvmsg: the second argument is a msghdr.
    ReadMsg = 4,
    /// write, sendto.
    Write = 5,
    /// writev.
    WriteVec = 6,
    /// sendmsg.
    WriteMsg = 7,
    /// connect.
    Connect = 8,
    /// poll, ppoll.
    Poll = 9,
    /// `epoll_wait`, `epoll_pwait`, `epoll_pwait2`.
    EpollWait = 10,
    /// dup2, dup3: the JDK's pre-close puts a marker on the connection's fd.
    Dup = 11,
    /// close, at its entry: after it another thread may have the fd.
    Close = 12,
    /// futex and sleeps, and what takes the lock of the memory map: only as a place to wait in.
    Lock = 13,
    /// sendfile: the first argument is the socket.
    SendFile = 14,
    /// io_uring_setup.
    IoUring = 15,
    /// open, openat, openat2.
    Open = 16,
    /// pread64, preadv: reads of files, never of sockets.
    ReadAt = 17,
}

/// Byte offsets in the running kernel's structures, from its BTF; the global `OFFSETS`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Offsets {
    /// `task_struct.pid`.
    pub task_pid: u32,
    /// `task_struct.tgid`.
    pub task_tgid: u32,
    /// `task_struct.se.sum_exec_runtime`.
    pub task_cpu: u32,
    /// `task_struct.sched_info.run_delay`; 0 when the kernel does not account it.
    pub task_run_delay: u32,
    /// `task_struct.__state`, `state` before Linux 5.14.
    pub task_state: u32,
    /// The byte of `task_struct.in_iowait`.
    pub task_iowait: u32,
    /// Its bit there.
    pub task_iowait_mask: u32,
    /// `task_struct.sched_task_group`; 0 when the kernel does not limit CPU bandwidth.
    pub task_group: u32,
    /// `task_group.parent`.
    pub group_parent: u32,
    /// `task_group.cfs_bandwidth.throttled_time`.
    pub group_throttled: u32,
    /// 1 when the kernel has the helper `bpf_task_pt_regs` (Linux 5.15).
    pub has_task_regs: u32,
    /// `task_struct.files`.
    pub task_files: u32,
    /// `files_struct.fdt`.
    pub files_fdt: u32,
    /// `fdtable.fd`.
    pub fdt_fd: u32,
    /// `file.private_data`: of a socket's file its `struct socket`.
    pub file_private: u32,
    /// `file.f_path.dentry`.
    pub file_dentry: u32,
    /// `dentry.d_name.name`.
    pub dentry_name: u32,
    /// `dentry.d_name.len`.
    pub dentry_name_len: u32,
    /// `socket.sk`.
    pub socket_sk: u32,
    /// `task_struct.exit_code`.
    pub task_exit_code: u32,
    /// `task_struct.signal`.
    pub task_signal: u32,
    /// `signal_struct.live`.
    pub signal_live: u32,
    /// `sock.__sk_common.skc_family`.
    pub sock_family: u32,
    /// `sock.__sk_common.skc_net.net`.
    pub sock_net: u32,
    /// `sock.__sk_common.skc_num`, the local port.
    pub sock_local_port: u32,
    /// `sock.__sk_common.skc_dport`.
    pub sock_peer_port: u32,
    /// `sock.__sk_common.skc_rcv_saddr`.
    pub sock_local_v4: u32,
    /// `sock.__sk_common.skc_daddr`.
    pub sock_peer_v4: u32,
    /// `sock.__sk_common.skc_v6_rcv_saddr`.
    pub sock_local_v6: u32,
    /// `sock.__sk_common.skc_v6_daddr`.
    pub sock_peer_v6: u32,
    /// `sock.sk_protocol`.
    pub sock_protocol: u32,
    /// `sock.sk_err`.
    pub sock_error: u32,
    /// `pt_regs`: the syscall's number.
    pub regs_nr: u32,
    /// `pt_regs`: the syscall's first three arguments, still there at its exit.
    pub regs_arg: [u32; 3],
    /// Bytes of `struct epoll_event`: packed on x86-64 only.
    pub epoll_event_size: u32,
    /// Offset of `data` in `struct epoll_event`.
    pub epoll_event_data: u32,
}

const _: () = assert!(size_of::<Offsets>() == 152);
