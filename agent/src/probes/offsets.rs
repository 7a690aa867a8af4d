//! Where the running kernel keeps what the probes read, from its BTF.

use std::{fs, io};

use agent_ebpf::Offsets;

use super::btf::Btf;

/// The kernel's description of its own types.
pub const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// A kernel whose structures are not as the probes need them.
#[derive(Debug, thiserror::Error)]
pub enum OffsetError {
    /// The description cannot be read.
    #[error("{BTF_PATH}: {0}")]
    Unreadable(io::Error),
    /// The description is none.
    #[error("{BTF_PATH} is no BTF file")]
    Foreign,
    /// A structure or member is missing.
    #[error("this kernel's BTF has no {structure}.{path}")]
    Missing {
        /// The structure.
        structure: &'static str,
        /// Its member, with dots.
        path: &'static str,
    },
}

/// What the running kernel's BTF tells.
pub struct Resolved {
    /// Offsets in its structures.
    pub offsets: Offsets,
    /// It tells when data comes (`sk_data_ready`, Linux 6.3).
    pub data_ready: bool,
}

/// Resolves all offsets.
///
/// # Errors
/// When the BTF cannot be read, or lacks a member that the probes cannot do without. `sched_info.run_delay` and those of
/// bandwidth limits are none of those: their offsets are then 0.
pub fn resolve() -> Result<Resolved, OffsetError> {
    let data = fs::read(BTF_PATH).map_err(OffsetError::Unreadable)?;
    let btf = Btf::parse(&data).ok_or(OffsetError::Foreign)?;
    let task = |path| offset(&btf, "task_struct", path);
    let sock = |path| offset(&btf, "sock", path);
    let regs = |path| offset(&btf, "pt_regs", path);
    #[cfg(target_arch = "x86_64")]
    let (regs_nr, regs_arg) = (regs("orig_ax")?, [regs("di")?, regs("si")?, regs("dx")?]);
    #[cfg(target_arch = "aarch64")]
    let (regs_nr, regs_arg) = {
        // x0 holds the result at a syscall's exit; its first argument is kept in orig_x0 (arch/arm64/include/asm/ptrace.h).
        let x0 = regs("user_regs.regs")?;
        (regs("syscallno")?, [regs("orig_x0")?, x0 + 8, x0 + 16])
    };
    let (task_iowait, task_iowait_mask) = btf
        .bit("task_struct", "in_iowait")
        .ok_or(OffsetError::Missing { structure: "task_struct", path: "in_iowait" })?;
    let group = |path| btf.offset("task_group", path);
    let bandwidth = group("cfs_bandwidth.throttled_time").zip(group("parent"));
    let (group_throttled, group_parent) = bandwidth.unwrap_or((0, 0));
    let data_ready = btf.names("btf_trace_sk_data_ready");
    let offsets = Offsets {
        task_pid: task("pid")?,
        task_tgid: task("tgid")?,
        task_cpu: task("se.sum_exec_runtime")?,
        task_run_delay: task("sched_info.run_delay").unwrap_or(0),
        task_state: task("__state").or_else(|_| task("state"))?,
        task_iowait,
        task_iowait_mask,
        task_group: bandwidth.and_then(|_| task("sched_task_group").ok()).unwrap_or(0),
        group_parent,
        group_throttled,
        has_task_regs: u32::from(btf.names("BPF_FUNC_task_pt_regs")),
        task_files: task("files")?,
        files_fdt: offset(&btf, "files_struct", "fdt")?,
        fdt_fd: offset(&btf, "fdtable", "fd")?,
        file_private: offset(&btf, "file", "private_data")?,
        file_dentry: offset(&btf, "file", "f_path.dentry")?,
        dentry_name: offset(&btf, "dentry", "d_name.name")?,
        dentry_name_len: offset(&btf, "dentry", "d_name.len")?,
        socket_sk: offset(&btf, "socket", "sk")?,
        task_exit_code: task("exit_code")?,
        task_signal: task("signal")?,
        signal_live: offset(&btf, "signal_struct", "live")?,
        sock_net: sock("__sk_common.skc_net.net")?,
        sock_family: sock("__sk_common.skc_family")?,
        sock_local_port: sock("__sk_common.skc_num")?,
        sock_peer_port: sock("__sk_common.skc_dport")?,
        sock_local_v4: sock("__sk_common.skc_rcv_saddr")?,
        sock_peer_v4: sock("__sk_common.skc_daddr")?,
        sock_local_v6: sock("__sk_common.skc_v6_rcv_saddr")?,
        sock_peer_v6: sock("__sk_common.skc_v6_daddr")?,
        sock_protocol: sock("sk_protocol")?,
        sock_error: sock("sk_err")?,
        regs_nr,
        regs_arg,
        epoll_event_size: size_u32::<libc::epoll_event>(),
        epoll_event_data: offset_u32(std::mem::offset_of!(libc::epoll_event, u64)),
    };
    Ok(Resolved { offsets, data_ready })
}

fn offset(btf: &Btf<'_>, structure: &'static str, path: &'static str) -> Result<u32, OffsetError> {
    btf.offset(structure, path).ok_or(OffsetError::Missing { structure, path })
}

fn size_u32<T>() -> u32 {
    offset_u32(size_of::<T>())
}

fn offset_u32(value: usize) -> u32 {
    u32::try_from(value).expect("a few bytes")
}
