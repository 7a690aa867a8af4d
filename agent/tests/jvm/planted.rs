//! Files that stand where a JVM's would, in trees that look like /proc.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
};

use agent::{
    identity::Proc,
    jvm::{Jvm, Unavailable},
};
use nix::{sys::stat::Mode, unistd::mkfifo};

const PATH: &str = "/tmp/hsperfdata_me/1";

fn check(plant: impl FnOnce(&Path), expect: &str) {
    let dir = tempfile::tempdir().unwrap();
    let of = dir.path().join("77");
    let planted = of.join("root").join(&PATH[1..]);
    fs::create_dir_all(planted.parent().unwrap()).unwrap();
    fs::write(of.join("status"), "Name:\tjava\nNSpid:\t77\t1\n").unwrap();
    fs::write(of.join("maps"), format!("1-2 rw-s 00000000 08:01 9 {PATH}\n")).unwrap();
    plant(&planted);
    let said = Jvm::open(&Proc::new(dir.path()), 77).sample().map_err(|error| error.to_string());
    assert_eq!(said, Err(format!("{PATH} {expect}")));
}

#[test]
fn none_is_followed_waited_for_or_believed() {
    check(|_| {}, "was not opened: ENOENT: No such file or directory");
    check(
        |path| symlink("/etc/shadow", path).unwrap(),
        "was not opened: it is a symbolic link, not a regular file",
    );
    check(
        |path| {
            let dir = path.parent().unwrap();
            fs::remove_dir(dir).unwrap();
            symlink("/tmp", dir).unwrap();
        },
        "was not opened: it is a symbolic link, not a regular file",
    );
    check(|path| mkfifo(path, Mode::S_IRWXU).unwrap(), "was not opened: it is a FIFO, not a regular file");
    check(
        |path| File::create(path).unwrap().set_len(4 << 30).unwrap(),
        "was not opened: it has 4294967296 bytes, more than the 1048576 that are read",
    );
    check(
        |path| fs::write(path, "garbage ".repeat(99)).unwrap(),
        "is not hsperfdata: does not begin with the magic number of hsperfdata",
    );
    check(|path| fs::write(path, "").unwrap(), "is not hsperfdata: ends at byte 0, where more was expected");
    check(
        |path| {
            let mut bytes = b"\xca\xfe\xc0\xc0\x01\x02\x00\x01".to_vec();
            bytes.extend([0xff; 24]);
            fs::write(path, bytes).unwrap();
        },
        "is not hsperfdata: used at byte 8 is -1, which is outside",
    );
}

#[test]
fn a_file_of_another_process_is_not_this_ones() {
    let dir = tempfile::tempdir().unwrap();
    let of = dir.path().join("78");
    fs::create_dir_all(&of).unwrap();
    fs::write(of.join("status"), "NSpid:\t78\t2\n").unwrap();
    fs::write(of.join("maps"), format!("1-2 rw-s 00000000 08:01 9 {PATH}\n")).unwrap();
    let expect = Unavailable::Foreign { path: PATH.into(), pid: 2 };
    assert_eq!(Jvm::open(&Proc::new(dir.path()), 78).sample(), Err(expect));
}

#[test]
fn a_jvm_that_had_no_file_yet_is_looked_at_again() {
    let dir = tempfile::tempdir().unwrap();
    let of = dir.path().join("79");
    let file = of.join("root/tmp/hsperfdata_me/79");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let libjvm = "1-2 r-xp 00000000 08:01 9 /jdk/lib/server/libjvm.so\n";
    fs::write(of.join("maps"), libjvm).unwrap();
    let mut jvm = Jvm::open(&Proc::new(dir.path()), 79);
    assert_eq!(jvm.sample(), Err(Unavailable::NotMapped));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(b"\xca\xfe\xc0\xc0\x01\x02\x00\x00");
    (bytes[8], bytes[24]) = (32, 32);
    fs::write(&file, bytes).unwrap();
    fs::write(of.join("maps"), format!("{libjvm}2-3 rw-s 00000000 08:01 9 /tmp/hsperfdata_me/79\n")).unwrap();
    assert_eq!(jvm.sample(), Ok(timeline::Sample::default()));
}
