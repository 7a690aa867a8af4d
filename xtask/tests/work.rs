//! What a JVM did, held against its own log of the same run: counted at its static probes, at its functions in a build
//! without them, and sampled where there is neither.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::setup::{self, Purpose};
use xtask::testbed::Turn;
use xtask::timeline::{Timeline, number};
use xtask::{jdk, repo};

/// Compiled by the launcher itself: thousands of classes, a thousand compilations, a collection.
const PROGRAM: &str = r#"
public class Busy {
    public static void main(String[] arguments) throws Exception {
        var counts = new java.util.HashMap<String, Integer>();
        for (int i = 0; i < 300_000; i++) {
            counts.merge("key" + i % 1000, 1, Integer::sum);
        }
        System.gc();
        var thread = new Thread(() -> {}, "a-thread-with-more-than-15-bytes");
        thread.start();
        thread.join();
    }
}
"#;

/// What the JVM's log says.
#[derive(Debug, PartialEq, Eq)]
struct Log {
    classes: u64,
    shared: u64,
    compilations: u64,
    pauses: u64,
    safepoints: u64,
}

impl Log {
    fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let lines: Vec<(&str, &str)> = text.lines().filter_map(tagged).collect();
        let count = |tag: &str, of: &dyn Fn(&str) -> bool| {
            lines.iter().filter(|(tags, line)| *tags == tag && of(line)).count() as u64
        };
        let class = |line: &str| line.contains(" source: ");
        Ok(Self {
            classes: count("class,load", &class),
            shared: count("class,load", &|line| class(line) && line.contains("shared objects file")),
            compilations: count("jit,compilation", &is_compilation),
            pauses: count("gc", &|line| line.contains(" Pause ")),
            safepoints: count("safepoint", &|line| line.contains("Safepoint \"")),
        })
    }
}

/// Tags of a line, which are padded, and what it says.
fn tagged(line: &str) -> Option<(&str, &str)> {
    let (tags, line) = line.strip_prefix('[')?.split_once(']')?;
    Some((tags.trim_end(), line))
}

/// A line of CompileTask::print_impl (src/hotspot/share/compiler/compileTask.cpp) is of a compilation, unless it is of a
/// native method's wrapper or says what became of older code.
fn is_compilation(task: &str) -> bool {
    let wrapper = task.split_ascii_whitespace().nth(1).is_some_and(|flags| flags.contains('n'));
    !wrapper && !task.contains(" made not ")
}

/// Sums over all phases.
fn sum(timeline: &Timeline, field: &str) -> Option<u64> {
    let phases = timeline.value["phases"].as_array()?;
    phases.iter().map(|phase| number(&phase["jvm"][field])).sum()
}

/// Of the last phase: of classes, compilations, collections and safepoints.
fn sources(timeline: &Timeline) -> Vec<&str> {
    let last = timeline.value["phases"].as_array().and_then(|phases| phases.last());
    let source = |field: &str| last.and_then(|phase| phase["jvm"][field].as_str()).unwrap_or_default();
    ["classesSource", "compilesSource", "gcSource", "safepointsSource"].map(source).to_vec()
}

struct Run {
    timeline: Timeline,
    log: Log,
}

impl Run {
    /// Runs the program on the JDK in `home`.
    fn of(home: &Path, options: &[&str]) -> Result<Self> {
        setup::check_machine(Purpose::Demo)?;
        let _turn = Turn::take()?;
        let dir = tempfile::tempdir()?;
        let (source, log) = (dir.path().join("Busy.java"), dir.path().join("jvm.log"));
        fs::write(&source, PROGRAM)?;
        let mut agent = Command::new(repo::binary("jcold-agent")?);
        agent.arg("trace").args(["-o", "json"]).args(options).arg("--").arg(home.join("bin/java"));
        let what = "class+load,jit+compilation=debug,gc,safepoint";
        agent.arg(format!("-Xlog:{what}:file={}:tags:filecount=0", log.display())).arg(&source);
        let output = agent.output().context("jcold-agent trace")?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        let value: Value = serde_json::from_slice(&output.stdout).with_context(|| words.clone())?;
        let timeline = Timeline { value };
        assert!(timeline.complete(), "{}\n{words}", timeline.summary());
        Ok(Self { timeline, log: Log::read(&log)? })
    }

    fn sources(&self) -> Vec<&str> {
        sources(&self.timeline)
    }

    /// Classes, those from an archive, collections and safepoints exactly; of the compilations that the log tells at their
    /// begin all but the few that never came to their end.
    fn agrees(&self) {
        let Self { timeline, log } = self;
        let sums = |field| sum(timeline, field);
        let summary = timeline.summary();
        assert_eq!(sums("classesLoaded"), Some(log.classes), "{summary}");
        assert_eq!(sums("classesShared"), Some(log.shared), "{summary}");
        assert_eq!(sums("gcCollections"), Some(log.pauses), "{summary}");
        assert_eq!(sums("safepoints"), Some(log.safepoints), "{summary}");
        let ended = sums("compiles").unwrap_or(0) + sums("compilesFailed").unwrap_or(0);
        assert!((ended..=ended + 4).contains(&log.compilations), "{ended} {log:?}");
    }
}

/// A JDK like that in `home`, but for its libjvm.so.
fn with_libjvm(home: &Path, change: impl Fn(&mut Vec<u8>)) -> Result<(tempfile::TempDir, PathBuf)> {
    let dir = tempfile::tempdir()?;
    let libjvm = Path::new("lib/server/libjvm.so");
    let own: [&Path; 2] = [Path::new("bin/java"), libjvm];
    for folder in ["", "bin", "lib", "lib/server"] {
        fs::create_dir_all(dir.path().join(folder))?;
        for entry in fs::read_dir(home.join(folder))? {
            let path = Path::new(folder).join(entry?.file_name());
            if !["bin", "lib", "lib/server"].contains(&path.to_str().unwrap_or_default())
                && !own.contains(&path.as_path())
            {
                symlink(home.join(&path).canonicalize()?, dir.path().join(&path))?;
            }
        }
    }
    fs::copy(home.join("bin/java"), dir.path().join("bin/java"))?;
    let mut bytes = fs::read(home.join(libjvm))?;
    change(&mut bytes);
    fs::write(dir.path().join(libjvm), bytes)?;
    let home = dir.path().to_owned();
    Ok((dir, home))
}

/// Nobody will take its notes for those of static probes.
fn without_probes(libjvm: &mut [u8]) {
    const NAME: &[u8] = b"stapsdt\0";
    for at in 0..libjvm.len() - NAME.len() {
        if libjvm[at..].starts_with(NAME) {
            libjvm[at] = b'x';
        }
    }
}

/// No section headers, so no symbols but the loader's own.
fn without_sections(libjvm: &mut [u8]) {
    // e_shoff, and e_shnum with e_shstrndx (elf(5)).
    libjvm[0x28..0x30].fill(0);
    libjvm[0x3c..0x40].fill(0);
}

#[test]
fn what_a_jvm_does_is_what_its_log_says_it_does() -> Result<()> {
    let homes = jdk::of_features(&[17, 25])?;
    assert!(!homes.is_empty());
    for jdk in homes {
        let run = Run::of(&jdk.home, &[])?;
        assert_eq!(run.sources(), ["usdt"; 4], "{}", jdk.version);
        run.agrees();
        let failed = sum(&run.timeline, "compilesFailed");
        let (c1, c2) = (sum(&run.timeline, "compilesC1"), sum(&run.timeline, "compilesC2"));
        assert!(c1 > c2 && c2 > Some(0) && failed.is_some(), "{c1:?} {c2:?} {failed:?}");
        assert!(
            sum(&run.timeline, "modulesReads") > Some(0),
            "classes of the compiler come out of lib/modules"
        );
    }
    Ok(())
}

#[test]
fn a_build_without_static_probes_is_counted_at_its_functions() -> Result<()> {
    let (_dir, home) = with_libjvm(&jdk::choose()?.home, |libjvm| without_probes(libjvm))?;
    let run = Run::of(&home, &[])?;
    let sources = run.sources();
    assert_eq!(sources[2], "hsperfdata", "no function stands for all collections: {sources:?}");
    assert!(sources.contains(&"symbol"), "{sources:?}");
    run.agrees();
    Ok(())
}

#[test]
fn a_build_with_nothing_to_probe_is_sampled_and_says_why() -> Result<()> {
    let (_dir, home) = with_libjvm(&jdk::choose()?.home, |libjvm| {
        without_probes(libjvm);
        without_sections(libjvm);
    })?;
    let run = Run::of(&home, &[])?;
    assert_eq!(run.sources(), ["hsperfdata"; 4]);
    let facts = run.timeline.value["facts"].as_array().cloned().unwrap_or_default();
    let why: Vec<&Value> = facts.iter().filter(|fact| fact["name"] == "usdt").collect();
    assert!(!why.is_empty() && why.iter().all(|fact| fact["value"] != "attached"), "{why:?}");
    // The last sample is taken before the JVM ends, so a little of its end may be missing.
    let classes = sum(&run.timeline, "classesLoaded").unwrap_or(0);
    assert!((run.log.classes * 9 / 10..=run.log.classes).contains(&classes), "{classes} {:?}", run.log);
    Ok(())
}

/// As a container runtime does it: an overlay as the root, PID and mount namespaces of its own. The mounts go with it.
const IN_A_CONTAINER: &str = r#"
set -e
dir=$1; source=$2; java=$3
mount -t tmpfs tmpfs "$dir"
mkdir "$dir/upper" "$dir/work" "$dir/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
mkdir -p "$dir/root/tmp" "$dir/root/program" "$dir/root/program/old"
cp "$source" "$dir/root/program/Busy.java"
cd "$dir/root"
mount -t proc proc proc
pivot_root . program/old
umount -l /program/old
exec "$java" /program/Busy.java
"#;

#[test]
fn a_jvm_in_a_container_is_probed_through_its_root() -> Result<()> {
    setup::check_machine(Purpose::Demo)?;
    let java = jdk::choose()?.java();
    let _turn = Turn::take()?;
    let dir = tempfile::tempdir()?;
    let (source, mount) = (dir.path().join("Busy.java"), dir.path().join("mount"));
    fs::write(&source, PROGRAM)?;
    fs::create_dir(&mount)?;
    let mut agent = Command::new(repo::binary("jcold-agent")?);
    agent.args(["trace", "-o", "json", "--", "unshare", "--mount", "--pid", "--fork", "bash", "-c"]);
    let output = agent.args([IN_A_CONTAINER, "bash"]).args([&mount, &source, &java]).output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let value: Value = serde_json::from_slice(&output.stdout).with_context(|| words.clone())?;
    let timeline = Timeline { value };
    assert_eq!(number(&timeline.value["jvm"]["containerPid"]), Some(1), "{}", timeline.value["jvm"]);
    assert_eq!(sources(&timeline), ["usdt"; 4], "{}", timeline.value["facts"]);
    assert!(sum(&timeline, "classesLoaded") > Some(1_000), "{}", timeline.value["phases"]);
    Ok(())
}

#[test]
fn probes_in_the_jvm_can_be_switched_off() -> Result<()> {
    let run = Run::of(&jdk::choose()?.home, &["--no-usdt"])?;
    assert_eq!(run.sources(), ["hsperfdata"; 4]);
    Ok(())
}
