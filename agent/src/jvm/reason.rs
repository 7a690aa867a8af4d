//! Why a JVM has mapped no hsperfdata file.
//!
//! HotSpot keeps its counters in private memory when it is told to, when it finds no name for its user, or when it
//! cannot make `/tmp/hsperfdata_<user>` (`mmap_create_shared` in hotspot/os/posix/perfMemory_posix.cpp); it does not
//! tell which it was.

use std::{fs, path::Path};

use super::{
    args::Args,
    perf::{Unavailable, not_allowed},
    root::Root,
};
use crate::identity::Proc;

/// A passwd file has a line of some 50 bytes for each user.
const PASSWD_BYTES: u64 = 1 << 20;

/// Variables whose options the launcher or the virtual machine adds to those of the command line.
const OPTIONS: [&str; 4] = ["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JDK_AOT_VM_OPTIONS"];

/// The first reason that holds.
pub fn of_no_file(proc: &Proc, pid: u32) -> Unavailable {
    let command = proc.command(pid).unwrap_or_default();
    if let Some(flag) = switched_off(&Args::of_command(&command)).or_else(|| by_environment(proc, pid)) {
        return Unavailable::SwitchedOff(flag);
    }
    let root = match Root::open(proc, pid) {
        Ok(root) => root,
        Err(errno) => return not_allowed(proc, pid, "root", errno),
    };
    let Some(uid) = uid(proc, pid) else { return Unavailable::NotMapped };
    if let Some(why) = root.unwritable(Path::new("/tmp"), uid.outside) {
        return Unavailable::NoTmp(why);
    }
    match root.text(Path::new("/etc/passwd"), PASSWD_BYTES) {
        Ok(passwd) if !has_user(&passwd, uid.inside) => Unavailable::NoPasswd { uid: uid.inside },
        // Other sources of users may know it, so an absent file proves nothing by itself; but a JVM's would be mapped.
        Err(super::root::NotOpened::Refused(nix::errno::Errno::ENOENT)) => {
            Unavailable::NoPasswd { uid: uid.inside }
        }
        _ => Unavailable::NotMapped,
    }
}

fn switched_off(args: &Args) -> Option<&'static str> {
    if args.switch("UsePerfData") == Some(false) {
        return Some("-XX:-UsePerfData");
    }
    (args.switch("PerfDisableSharedMem") == Some(true)).then_some("-XX:+PerfDisableSharedMem")
}

/// Looks for these two flags and keeps nothing else of what it read.
fn by_environment(proc: &Proc, pid: u32) -> Option<&'static str> {
    let environment = fs::read(proc.root().join(pid.to_string()).join("environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|variable| {
        let (name, value) = std::str::from_utf8(variable).ok()?.split_once('=')?;
        if !OPTIONS.contains(&name) {
            return None;
        }
        switched_off(&Args::of_text(value, false))
    })
}

struct Uid {
    /// On the node.
    outside: u32,
    /// In the process's user namespace.
    inside: u32,
}

/// The effective user, by which HotSpot looks up the name.
fn uid(proc: &Proc, pid: u32) -> Option<Uid> {
    let of = proc.root().join(pid.to_string());
    let status = fs::read_to_string(of.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let outside = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let map = fs::read_to_string(of.join("uid_map")).unwrap_or_default();
    Some(Uid { outside, inside: mapped(&map, outside).unwrap_or(outside) })
}

/// A node's uid inside a user namespace (user_namespaces(7): inside, outside, length).
fn mapped(map: &str, outside: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<u32>().ok());
        let (inside, first, length) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let offset = outside.checked_sub(first).filter(|offset| *offset < length)?;
        inside.checked_add(offset)
    })
}

fn has_user(passwd: &str, uid: u32) -> bool {
    passwd.lines().any(|line| line.split(':').nth(2).is_some_and(|field| field.parse() == Ok(uid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_inside_and_outside_of_a_namespace() {
        let map = "         0     100000      65536\n     70000          5          1\n";
        assert_eq!(mapped(map, 101_000), Some(1000));
        assert_eq!(mapped(map, 5), Some(70000));
        assert_eq!(mapped(map, 165_536), None);
        assert_eq!(mapped("garbage\n", 1), None);
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\napp:x:1000:1000::/:\n";
        assert!(has_user(passwd, 1000) && !has_user(passwd, 1));
    }

    #[test]
    fn reasons_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let proc = Proc::new(dir.path());
        let of = dir.path().join("9");
        let write = |file: &str, text: &str| fs::write(of.join(file), text).unwrap();
        assert_eq!(of_no_file(&proc, 9), Unavailable::Gone);
        fs::create_dir_all(of.join("root/etc")).unwrap();
        assert_eq!(of_no_file(&proc, 9), Unavailable::NotMapped);
        write("status", "Name:\tjava\nUid:\t0\t4711\t0\t0\n");
        assert_eq!(of_no_file(&proc, 9), Unavailable::NoTmp("missing"));
        fs::create_dir(of.join("root/tmp")).unwrap();
        fs::set_permissions(of.join("root/tmp"), std::os::unix::fs::PermissionsExt::from_mode(0o1777))
            .unwrap();
        assert_eq!(of_no_file(&proc, 9), Unavailable::NoPasswd { uid: 4711 });
        write("root/etc/passwd", "app:x:4711:0::/:\n");
        assert_eq!(of_no_file(&proc, 9), Unavailable::NotMapped);
        write("environ", "A=-XX:-UsePerfData\0JAVA_TOOL_OPTIONS=-Da=b -XX:+PerfDisableSharedMem\0");
        assert_eq!(of_no_file(&proc, 9), Unavailable::SwitchedOff("-XX:+PerfDisableSharedMem"));
        write("cmdline", "java\0-XX:-UsePerfData\0Main\0");
        assert_eq!(of_no_file(&proc, 9), Unavailable::SwitchedOff("-XX:-UsePerfData"));
    }
}
