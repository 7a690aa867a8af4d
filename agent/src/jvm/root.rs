//! Files of a process's own mount namespace, opened so that it cannot lead the agent elsewhere or make it wait.
//!
//! Everything below `/proc/PID/root` belongs to the followed process. A symbolic link there would be resolved against
//! the agent's root, a FIFO would wait for a writer, a device would act, and a FUSE or network file system answers when
//! it likes. So paths are resolved inside the root without following any link, only regular files of a bounded size
//! are read, and nothing of those file systems is touched.

use std::{
    fs::File,
    io::{self, Read as _},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::{FileTypeExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    sys::{
        stat::Mode,
        statvfs::{FsFlags, fstatvfs},
    },
};

use crate::identity::Proc;

/// Why a file was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    /// The kernel refused.
    #[error("{0}")]
    Refused(Errno),
    /// It is no regular file.
    #[error("it is a {0}, not a regular file")]
    NotRegular(&'static str),
    /// It is larger than any honest one.
    #[error("it has {bytes} bytes, more than the {most} that are read")]
    TooLarge {
        /// As found.
        bytes: u64,
        /// The bound.
        most: u64,
    },
    /// It is on a file system that may answer late or never.
    #[error("it is on a file system ({0}) that can make a reader wait")]
    MayWait(String),
}

/// A mount of the process's namespace, from `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The directory of the file system that is mounted.
    pub root: String,
    /// Where.
    pub at: PathBuf,
    /// Type of the file system.
    pub kind: String,
    /// Options of the file system; of a v1 cgroup its controllers.
    pub options: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (mount, fs) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3).map(unescape);
        let mut fs = fs.split(' ');
        Some(Self {
            root: mount.next()?,
            at: PathBuf::from(mount.next()?),
            kind: fs.next()?.to_owned(),
            options: fs.nth(1).unwrap_or_default().to_owned(),
        })
    }

    /// A file system whose server can leave a reader waiting.
    fn may_wait(&self) -> bool {
        const SERVED: [&str; 8] = ["nfs", "cifs", "smb", "9p", "ceph", "afs", "gfs", "autofs"];
        self.kind.starts_with("fuse") || SERVED.iter().any(|served| self.kind.starts_with(served))
    }
}

/// The root directory of a process.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    /// Where the kernel says that it is: of a process that was only chroot'ed, paths in its maps begin with this.
    at: PathBuf,
    mounts: Vec<Mount>,
}

impl Root {
    /// The root of `pid`.
    ///
    /// # Errors
    /// The kernel's, when the process has gone or the agent may not look at it.
    pub fn open(proc: &Proc, pid: u32) -> Result<Self, Errno> {
        let of = proc.root().join(pid.to_string());
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = nix::fcntl::open(&of.join("root"), flags, Mode::empty())?;
        let mounts = std::fs::read_to_string(of.join("mountinfo")).unwrap_or_default();
        let at = std::fs::read_link(of.join("root")).unwrap_or_default();
        Ok(Self { dir, at, mounts: mounts.lines().filter_map(Mount::parse).collect() })
    }

    /// Its mounts.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// Opens the regular file `path` of at most `most` bytes for reading.
    ///
    /// # Errors
    /// [`NotOpened`] says why.
    pub fn file(&self, path: &Path, most: u64) -> Result<File, NotOpened> {
        let file = File::from(self.handle(path, OFlag::O_NOFOLLOW)?);
        let metadata = file.metadata().map_err(|error| NotOpened::Refused(errno(&error)))?;
        let kind = metadata.file_type();
        if !kind.is_file() {
            return Err(NotOpened::NotRegular(match () {
                () if kind.is_symlink() => "symbolic link",
                () if kind.is_fifo() => "FIFO",
                () if kind.is_dir() => "directory",
                () if kind.is_socket() => "socket",
                () => "device",
            }));
        }
        if metadata.len() > most {
            return Err(NotOpened::TooLarge { bytes: metadata.len(), most });
        }
        // The handle names this very file, whatever has taken its place since.
        let handle = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let opened = nix::fcntl::open(handle.as_str(), flags, Mode::empty());
        opened.map(File::from).map_err(NotOpened::Refused)
    }

    /// Text of the regular file `path`, of its first `most` bytes; files of the kernel have no size to go by.
    ///
    /// # Errors
    /// [`NotOpened`] says why.
    pub fn text(&self, path: &Path, most: u64) -> Result<String, NotOpened> {
        let mut bytes = Vec::new();
        let read = self.file(path, most)?.take(most).read_to_end(&mut bytes);
        read.map_err(|error| NotOpened::Refused(errno(&error)))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Why `uid` cannot make files in the directory `path`, if that can be seen.
    pub fn unwritable(&self, path: &Path, uid: u32) -> Option<&'static str> {
        let dir = match self.handle(path, OFlag::O_DIRECTORY) {
            Ok(dir) => File::from(dir),
            Err(NotOpened::Refused(Errno::ENOENT | Errno::ENOTDIR)) => return Some("missing"),
            Err(_) => return None,
        };
        if fstatvfs(&dir).is_ok_and(|fs| fs.flags().contains(FsFlags::ST_RDONLY)) {
            return Some("read-only");
        }
        let metadata = dir.metadata().ok()?;
        // Its group could let it in, which is not looked up.
        let closed = metadata.mode() & 0o022 == 0 && metadata.uid() != uid && uid != 0;
        closed.then_some("not writable for it")
    }

    fn handle(&self, path: &Path, extra: OFlag) -> Result<OwnedFd, NotOpened> {
        let path = &match path.strip_prefix(&self.at) {
            Ok(inside) if self.at.parent().is_some() => Path::new("/").join(inside),
            _ => path.to_owned(),
        };
        let mount = self.mounts.iter().rev().filter(|mount| path.starts_with(&mount.at));
        // Of several at one place the last is on top.
        let mount = mount.max_by_key(|mount| mount.at.as_os_str().len());
        if let Some(mount) = mount.filter(|mount| mount.may_wait()) {
            return Err(NotOpened::MayWait(mount.kind.clone()));
        }
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC | extra)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS);
        match openat2(&self.dir, path, how) {
            // O_PATH with O_NOFOLLOW opens a link at the end itself, unless all links are forbidden.
            Err(Errno::ELOOP) => Err(NotOpened::NotRegular("symbolic link")),
            opened => opened.map_err(NotOpened::Refused),
        }
    }
}

/// Undoes the octal escapes of blanks and backslashes in mountinfo (mangle in fs/proc_namespace.c).
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| after.get(..3)).flatten();
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(escaped) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(escaped);
            rest = &after[3..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The kernel's number of an error.
pub fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn tree(mountinfo: &str) -> (tempfile::TempDir, PathBuf, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("7/root");
        fs::create_dir_all(root.join("tmp")).unwrap();
        fs::write(dir.path().join("7/mountinfo"), mountinfo).unwrap();
        let opened = Root::open(&Proc::new(dir.path()), 7).unwrap();
        (dir, root, opened)
    }

    #[test]
    fn only_regular_files_inside_of_a_bounded_size() {
        let (_dir, root, opened) = tree("");
        fs::write(root.join("tmp/good"), "12345678").unwrap();
        symlink("good", root.join("tmp/link")).unwrap();
        symlink("/etc", root.join("etc")).unwrap();
        nix::unistd::mkfifo(&root.join("tmp/fifo"), Mode::S_IRWXU).unwrap();
        File::create(root.join("tmp/sparse")).unwrap().set_len(4 << 30).unwrap();
        let check = |path: &str, expect: Result<&str, NotOpened>| {
            assert_eq!(opened.text(Path::new(path), 8), expect.map(str::to_owned), "{path}");
        };
        check("/tmp/good", Ok("12345678"));
        check("/../../tmp/good", Ok("12345678"));
        check("/tmp/link", Err(NotOpened::NotRegular("symbolic link")));
        check("/etc/passwd", Err(NotOpened::NotRegular("symbolic link")));
        check("/tmp/fifo", Err(NotOpened::NotRegular("FIFO")));
        check("/tmp", Err(NotOpened::NotRegular("directory")));
        check("/tmp/sparse", Err(NotOpened::TooLarge { bytes: 4 << 30, most: 8 }));
        check("/tmp/none", Err(NotOpened::Refused(Errno::ENOENT)));
        assert_eq!(Root::open(&Proc::new(root), 8).unwrap_err(), Errno::ENOENT);
    }

    #[test]
    fn paths_of_a_process_that_was_only_chrooted_begin_with_its_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("image");
        fs::create_dir_all(root.join("tmp")).unwrap();
        fs::create_dir(dir.path().join("7")).unwrap();
        symlink(&root, dir.path().join("7/root")).unwrap();
        fs::write(root.join("tmp/good"), "12345678").unwrap();
        let opened = Root::open(&Proc::new(dir.path()), 7).unwrap();
        for path in [root.join("tmp/good"), PathBuf::from("/tmp/good")] {
            assert_eq!(opened.text(&path, 8).as_deref(), Ok("12345678"), "{}", path.display());
        }
    }

    #[test]
    fn file_systems_that_may_wait_are_left_alone() {
        let (_dir, root, opened) = tree(
            "1 0 8:1 / / rw - ext4 /dev/sda rw\n\
             2 1 0:5 / /tmp rw - fuse.sshfs x rw\n\
             3 2 0:6 / /tmp/own\\040one rw shared:1 - tmpfs x rw,size=1\n",
        );
        fs::create_dir(root.join("tmp/own one")).unwrap();
        for file in ["tmp/x", "tmp/own one/x"] {
            fs::write(root.join(file), "x").unwrap();
        }
        let waits = NotOpened::MayWait("fuse.sshfs".into());
        assert_eq!(opened.text(Path::new("/tmp/x"), 8), Err(waits));
        assert_eq!(opened.text(Path::new("/tmp/own one/x"), 8).as_deref(), Ok("x"));
        assert_eq!(opened.mounts()[2].options, "rw,size=1");
    }

    #[test]
    fn a_directory_that_takes_no_files() {
        let (_dir, root, opened) = tree("");
        fs::set_permissions(root.join("tmp"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(opened.unwritable(Path::new("/none"), 1), Some("missing"));
        assert_eq!(opened.unwritable(Path::new("/tmp"), 4711), Some("not writable for it"));
        assert_eq!(opened.unwritable(Path::new("/tmp"), nix::unistd::getuid().as_raw()), None);
    }

    #[test]
    fn escapes() {
        for (text, expect) in
            [("/a\\040b", "/a b"), ("\\134", "\\"), ("\\9x", "\\9x"), ("\\04", "\\04"), ("\\777", "\\777")]
        {
            assert_eq!(unescape(text), expect);
        }
    }
}
