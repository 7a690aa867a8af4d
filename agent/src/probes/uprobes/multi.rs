//! One link for all sites of a file (`BPF_TRACE_UPROBE_MULTI`, Linux 6.6): it takes no more than the capabilities that
//! load the program, and one grace period to detach. The loader that the other probes use does not know it.

use std::{
    collections::HashSet,
    ffi::CString,
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
};

use aya::Ebpf;
use aya_obj::{
    Object,
    generated::{bpf_attach_type::BPF_TRACE_UPROBE_MULTI, bpf_attr, bpf_cmd, bpf_prog_type},
};

use crate::probes::maps::map_data;

/// Why the program cannot be loaded for many sites.
#[derive(Debug, thiserror::Error)]
pub enum MultiError {
    /// The object is not what the loader expects.
    #[error("the object of the probes: {0}")]
    Object(String),
    /// The kernel refused.
    #[error("uprobe_multi (Linux 6.6): {0}")]
    Refused(#[from] io::Error),
}

/// Loads programs of the object against the maps that are loaded already.
pub fn load(object: &[u8], names: &[&str], ebpf: &Ebpf) -> Result<Vec<OwnedFd>, MultiError> {
    let wrong = |error: &dyn std::fmt::Display| MultiError::Object(error.to_string());
    let mut object = Object::parse(object).map_err(|error| wrong(&error))?;
    let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let known = std::mem::take(&mut object.maps);
    let mut maps = Vec::with_capacity(known.len());
    for (name, map) in &known {
        let loaded = ebpf.map(name).ok_or_else(|| wrong(&format!("map {name} is not loaded")))?;
        let data = map_data(loaded).ok_or_else(|| wrong(&format!("map {name} is of an unknown type")))?;
        maps.push((name.as_str(), data.fd().as_fd().as_raw_fd(), map));
    }
    object.relocate_maps(maps.into_iter(), &text).map_err(|error| wrong(&error))?;
    object.relocate_calls(&text).map_err(|error| wrong(&error))?;
    let program = |name: &&str| {
        let program = object.programs.get(*name).ok_or_else(|| wrong(&format!("no program {name}")))?;
        let function = object.functions.get(&program.function_key());
        let function = function.ok_or_else(|| wrong(&format!("program {name} has no code")))?;
        let mut attr = zeroed();
        attr.__bindgen_anon_3.prog_type = bpf_prog_type::BPF_PROG_TYPE_KPROBE as u32;
        attr.__bindgen_anon_3.expected_attach_type = BPF_TRACE_UPROBE_MULTI as u32;
        attr.__bindgen_anon_3.insns = function.instructions.as_ptr() as u64;
        attr.__bindgen_anon_3.insn_cnt = u32::try_from(function.instructions.len()).unwrap_or(u32::MAX);
        attr.__bindgen_anon_3.license = program.license.as_ptr() as u64;
        // For people who look with bpftool; the last byte stays zero.
        for (to, from) in attr_name(&mut attr).iter_mut().zip(name.bytes()) {
            *to = from.cast_signed();
        }
        Ok(bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr)?)
    };
    names.iter().map(program).collect()
}

/// Attaches the program at offsets of a file, each with its cookie. Who drops the link waits until no thread is in the
/// program any more.
pub fn attach(
    program: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offsets: &[u64],
    cookies: &[u64],
) -> io::Result<OwnedFd> {
    let path = CString::new(super::path(file)).expect("digits and slashes");
    let mut attr = zeroed();
    attr.link_create.__bindgen_anon_1.prog_fd = program.as_raw_fd().cast_unsigned();
    attr.link_create.attach_type = BPF_TRACE_UPROBE_MULTI as u32;
    attr.link_create.__bindgen_anon_3.uprobe_multi.path = path.as_ptr() as u64;
    attr.link_create.__bindgen_anon_3.uprobe_multi.offsets = offsets.as_ptr() as u64;
    attr.link_create.__bindgen_anon_3.uprobe_multi.cookies = cookies.as_ptr() as u64;
    attr.link_create.__bindgen_anon_3.uprobe_multi.cnt =
        u32::try_from(offsets.len().min(cookies.len())).unwrap_or(u32::MAX);
    bpf(bpf_cmd::BPF_LINK_CREATE, &mut attr)
}

/// The place of a program's name, without its last byte.
fn attr_name(attr: &mut bpf_attr) -> &mut [libc::c_char] {
    // SAFETY: integers, which all are there in a zeroed attribute.
    let name = unsafe { &mut attr.__bindgen_anon_3.prog_name };
    let last = name.len() - 1;
    &mut name[..last]
}

fn zeroed() -> bpf_attr {
    // SAFETY: a union of structs of integers.
    unsafe { std::mem::zeroed() }
}

fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<OwnedFd> {
    // SAFETY: bpf(2) with an attribute of its own type; what it points to outlives the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_bpf, command as libc::c_long, std::ptr::from_mut(attr), size_of::<bpf_attr>())
    };
    let fd = i32::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it to this process; it has close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
