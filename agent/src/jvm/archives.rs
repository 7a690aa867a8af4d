//! What a JVM shares classes from: CDS archives and AOT caches, in use or not, and runs that make them.
//!
//! A file that is mapped is in use, wherever its name came from. What was asked for and is not mapped is missing, or was
//! refused; the JVM says neither. Whether the application's own classes were taken from a mapped archive is not
//! visible here: with another class path JDK 25 maps the cache and uses the JDK's part of it (`classes_shared` tells).

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use nix::errno::Errno;
use timeline::Fact;

use super::{
    args::{Args, told_name},
    kind::is_beside_libjvm,
    maps::Maps,
    root::{NotOpened, Root},
};
use crate::identity::Proc;

/// First bytes of a dynamic archive (`CDS_DYNAMIC_ARCHIVE_MAGIC` in share/include/cds.h).
const DYNAMIC: [u8; 4] = [0xa8, 0xab, 0x0b, 0xf0];
const ARCHIVE_BYTES: u64 = 16 << 30;

/// Facts of a process with `args`, which were read from `source`.
pub fn facts(proc: &Proc, pid: u32, maps: &Maps, args: &Args, source: &str) -> Vec<Fact> {
    let root = Root::open(proc, pid).ok();
    let cwd = fs::read_link(proc.root().join(pid.to_string()).join("cwd")).unwrap_or_default();
    let asked: Vec<PathBuf> = asked_for(args).iter().map(|path| cwd.join(path)).collect();
    let mut facts = Vec::new();
    let mut kinds = Vec::new();
    let is_archive = |path: &str| {
        let by_name = Path::new(path).extension().is_some_and(|end| end == "jsa" || end == "aot");
        by_name || asked.iter().any(|asked| asked == Path::new(path))
    };
    let mut mapped: Vec<&str> = maps.paths().filter(|path| is_archive(path)).collect();
    mapped.sort_unstable();
    mapped.dedup();
    for path in &mapped {
        let kind = match () {
            () if is_beside_libjvm(path, maps) => "default",
            () if is_cache(path, args, &cwd) => "aot_cache",
            () if root.as_ref().is_some_and(|root| is_dynamic(root, path)) => "app_dynamic",
            () => "app_static",
        };
        kinds.push(kind);
        let name = told_name(path);
        facts.push(Fact::new("class_archive", format!("{name} ({kind})"), "maps"));
    }
    // The most specific one stands for all: a dynamic archive comes with the one below it.
    let order = ["aot_cache", "app_dynamic", "app_static", "default"];
    let cds = order.into_iter().find(|kind| kinds.contains(kind)).unwrap_or("none");
    facts.insert(0, Fact::new("cds", cds, if cds == "none" { "maps: no archive" } else { "maps" }));
    for path in asked.iter().filter(|path| !mapped.iter().any(|mapped| Path::new(mapped) == path.as_path())) {
        let why = match root.as_ref().map(|root| root.file(path, ARCHIVE_BYTES)) {
            _ if args.has("-Xshare:off") => "switched off by -Xshare:off",
            Some(Err(NotOpened::Refused(Errno::ENOENT | Errno::ENOTDIR))) => "missing",
            Some(Ok(_)) => "refused: it is there and not mapped",
            _ => "not mapped",
        };
        let name = told_name(path.to_str().unwrap_or_default());
        facts.push(Fact::new("archive_unused", format!("{why}: {name}"), format!("{source}, maps")));
    }
    facts.extend(
        training(args).map(|(value, flag)| Fact::new("aot_training", value, format!("{source}: {flag}"))),
    );
    facts
}

/// Archives that arguments ask to use.
fn asked_for(args: &Args) -> Vec<&str> {
    let made = matches!(args.value("-XX:AOTMode="), Some("record" | "create" | "off"));
    let cache = args.value("-XX:AOTCache=").filter(|_| !made);
    let dumps = args.has("-Xshare:dump");
    // Two archives may be given, the static one first.
    let shared = args.value("-XX:SharedArchiveFile=").filter(|_| !dumps);
    cache.into_iter().chain(shared.into_iter().flat_map(|paths| paths.split(':'))).collect()
}

fn is_cache(path: &str, args: &Args, cwd: &Path) -> bool {
    let path = Path::new(path);
    let asked = args.value("-XX:AOTCache=").map(|asked| cwd.join(asked));
    asked.map_or_else(|| path.extension().is_some_and(|end| end == "aot"), |asked| asked == path)
}

fn is_dynamic(root: &Root, path: &str) -> bool {
    let mut magic = [0; 4];
    let file = root.file(Path::new(path), ARCHIVE_BYTES);
    file.is_ok_and(|file| file.read_exact_at(&mut magic, 0).is_ok()) && magic == DYNAMIC
}

/// What a run makes for later ones, and the argument that says so.
fn training(args: &Args) -> Option<(&'static str, &'static str)> {
    match args.value("-XX:AOTMode=") {
        Some("create") => return Some(("assembling", "-XX:AOTMode=create")),
        Some("record") => return Some(("recording", "-XX:AOTMode=record")),
        _ => {}
    }
    if args.value("-XX:AOTCacheOutput=").is_some() {
        return Some(("recording, and assembling at the exit", "-XX:AOTCacheOutput"));
    }
    if args.has("-Xshare:dump") {
        return Some(("assembling", "-Xshare:dump"));
    }
    if args.value("-XX:ArchiveClassesAtExit=").is_some() {
        return Some(("recording, and assembling at the exit", "-XX:ArchiveClassesAtExit"));
    }
    let lists = args.value("-XX:DumpLoadedClassList=").map(|_| ("recording", "-XX:DumpLoadedClassList"));
    let auto = || args.switch("AutoCreateSharedArchive") == Some(true);
    lists.or_else(|| {
        auto().then_some((
            "assembling at the exit, if the archive does not fit",
            "-XX:+AutoCreateSharedArchive",
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn check(args: &str, mapped: &[&str], expect: &[(&str, &str)]) {
        let dir = tempfile::tempdir().unwrap();
        let of = dir.path().join("8");
        fs::create_dir_all(of.join("root/app")).unwrap();
        fs::write(of.join("root/app/top.jsa"), DYNAMIC).unwrap();
        fs::write(of.join("root/app/base.jsa"), [0xa2, 0xab, 0x0b, 0xf0]).unwrap();
        symlink("/app", of.join("cwd")).unwrap();
        let maps: Vec<String> =
            mapped.iter().map(|path| format!("1-2 rw-p 00000000 08:01 9 {path}\n")).collect();
        fs::write(of.join("maps"), "1-2 r-xp 00000000 08:01 9 /jdk/libjvm.so\n".to_owned() + &maps.concat())
            .unwrap();
        let proc = Proc::new(dir.path());
        let maps = Maps::read(&proc, 8).unwrap();
        let facts = facts(&proc, 8, &maps, &Args::of_text(args, false), "test");
        let found: Vec<(&str, &str)> =
            facts.iter().map(|fact| (fact.name.as_str(), fact.value.as_str())).collect();
        assert_eq!(found, expect, "{args}");
    }

    #[test]
    fn archives_in_use() {
        let default = "/jdk/classes.jsa";
        check("", &[default, default], &[("cds", "default"), ("class_archive", "classes.jsa (default)")]);
        check("", &[], &[("cds", "none")]);
        check(
            "-XX:AOTCache=any.name",
            &["/app/any.name"],
            &[("cds", "aot_cache"), ("class_archive", "any.name (aot_cache)")],
        );
        check(
            "-XX:SharedArchiveFile=/app/base.jsa:/app/top.jsa",
            &["/app/base.jsa", "/app/top.jsa"],
            &[
                ("cds", "app_dynamic"),
                ("class_archive", "base.jsa (app_static)"),
                ("class_archive", "top.jsa (app_dynamic)"),
            ],
        );
    }

    #[test]
    fn archives_that_are_not_in_use() {
        check("-XX:AOTCache=none.aot", &[], &[("cds", "none"), ("archive_unused", "missing: none.aot")]);
        check(
            "-XX:SharedArchiveFile=top.jsa",
            &[],
            &[("cds", "none"), ("archive_unused", "refused: it is there and not mapped: top.jsa")],
        );
        check(
            "-XX:SharedArchiveFile=top.jsa -Xshare:off",
            &[],
            &[("cds", "none"), ("archive_unused", "switched off by -Xshare:off: top.jsa")],
        );
        check(
            "-XX:AOTCache=/x/secret.aot",
            &[],
            &[("cds", "none"), ("archive_unused", "missing: (name withheld)")],
        );
    }

    #[test]
    fn runs_that_make_archives() {
        for (args, expect) in [
            ("-XX:AOTMode=record -XX:AOTConfiguration=a", "recording"),
            ("-XX:AOTMode=create -XX:AOTCache=a", "assembling"),
            ("-XX:AOTCacheOutput=a", "recording, and assembling at the exit"),
            ("-XX:ArchiveClassesAtExit=a", "recording, and assembling at the exit"),
            ("-Xshare:dump -XX:SharedArchiveFile=a", "assembling"),
            ("-XX:+AutoCreateSharedArchive", "assembling at the exit, if the archive does not fit"),
        ] {
            check(args, &[], &[("cds", "none"), ("aot_training", expect)]);
        }
    }
}
