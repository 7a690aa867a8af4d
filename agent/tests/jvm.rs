//! What real JVMs tell about themselves, beside what the JDK's own tools and the kernel say. It needs root and a JDK.
//!
//! Every JDK of the machine is asked. The numbers move while they are compared, so each is taken between two samples.

#[path = "jvm/java.rs"]
mod java;

#[path = "jvm/limited.rs"]
mod limited;

#[path = "jvm/planted.rs"]
mod planted;

use std::{collections::HashMap, fs, path::Path};

use agent::{
    identity::Proc,
    jvm::{Jvm, Unavailable, hsperfdata, memory},
};
use java::{Java, Jdk, jdks};
use timeline::{Fact, Sample};

fn proc() -> Proc {
    Proc::new("/proc")
}

fn fact<'a>(facts: &'a [Fact], name: &str) -> Option<&'a str> {
    facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str())
}

/// What `jcmd PID PerfCounter.print` says.
fn counters(jdk: &Jdk, pid: u32) -> HashMap<String, String> {
    let text = jdk.tool("jcmd", &[&pid.to_string(), "PerfCounter.print"]);
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned())).collect()
}

#[test]
fn samples_agree_with_jcmd_and_jstat() {
    type Read = fn(&Sample) -> Option<u64>;
    const SAME: [(&[&str], Read); 17] = [
        (&["java.cls.loadedClasses", "java.cls.sharedLoadedClasses"], |s| s.classes_loaded),
        (&["java.cls.sharedLoadedClasses"], |s| s.classes_shared),
        (&["sun.cls.time"], |s| s.class_load_ns),
        (&["sun.cls.classLinkedTime"], |s| s.class_link_ns),
        (&["sun.cls.classInitTime"], |s| s.class_init_ns),
        (&["sun.ci.totalCompiles"], |s| s.compiles),
        (&["java.ci.totalTime"], |s| s.compile_ns),
        (&["sun.ci.standardCompiles"], |s| s.standard_compiles),
        (&["sun.ci.osrCompiles"], |s| s.osr_compiles),
        (&["sun.ci.osrTime"], |s| s.osr_compile_ns),
        (&["sun.rt.safepoints"], |s| s.safepoints),
        (&["sun.rt.safepointTime"], |s| s.safepoint_ns),
        (&["sun.rt.safepointSyncTime"], |s| s.safepoint_sync_ns),
        (&["java.threads.started"], |s| s.threads_started),
        (&["sun.gc.collector.1.invocations"], |s| s.collectors[1].map(|c| c.collections)),
        (&["sun.gc.collector.1.time"], |s| s.collectors[1].map(|c| c.pause_ns)),
        (&["sun.gc.metaspace.used"], |s| s.metaspace_used_bytes),
    ];
    for jdk in jdks() {
        let mut java = Java::start(&jdk, &["-Xmx128m", "-XX:+UseG1GC", "-Xbatch"]);
        java.ask("work");
        let mut jvm = Jvm::open(&proc(), java.pid);
        let before = jvm.sample().unwrap();
        let counted = counters(&jdk, java.pid);
        let after = jvm.sample().unwrap();
        for (names, read) in SAME {
            let truth: u64 = names.iter().map(|name| counted[*name].parse::<u64>().unwrap()).sum();
            let (low, high) = (read(&before).unwrap(), read(&after).unwrap());
            assert!(low <= truth && truth <= high, "{names:?}: {low} <= {truth} <= {high} of {}", jdk.name());
        }
        assert!(
            before.osr_compiles > Some(0)
                && before.gc_collections > Some(0)
                && before.heap_used_bytes.is_some()
        );

        let before = jvm.sample().unwrap().classes_loaded.unwrap();
        let jstat = jdk.tool("jstat", &["-class", &java.pid.to_string()]);
        let loaded: u64 = jstat.lines().nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
        let after = jvm.sample().unwrap().classes_loaded.unwrap();
        assert!(before <= loaded && loaded <= after, "jstat: {before} <= {loaded} <= {after}");

        assert_eq!(fact(&jvm.facts(), "attach_listener"), None, "they read the same file");
        let flags = jdk.tool("jcmd", &[&java.pid.to_string(), "VM.flags", "-all"]);
        let facts = jvm.facts();
        assert_eq!(fact(&facts, "attach_listener"), Some("started"), "that takes an attach");
        assert_eq!(fact(&facts, "jvm_version"), Some(counted["java.property.java.vm.version"].as_str()));
        let flag = |name: &str| {
            let line = flags.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).unwrap();
            line.split_whitespace().nth(3).unwrap().to_owned()
        };
        assert_eq!(fact(&facts, "heap_max_bytes"), Some(flag("MaxHeapSize").as_str()));
        assert_eq!(fact(&facts, "compiler_threads"), Some(flag("CICompilerCount").as_str()));

        let rss = memory(&proc(), java.pid).rss_bytes.unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", java.pid)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let told = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
        assert!(rss.abs_diff(told) < told / 20, "{rss} beside {told} of an idle process");
    }
}

#[test]
fn the_last_sample_of_a_jvm_that_ended_agrees_with_its_log() {
    for jdk in jdks() {
        let log = java::scratch(&format!("{}-all.log", jdk.name()));
        let topics = "class+load,gc,safepoint,jit+compilation=debug";
        let option = format!("-Xlog:{topics}:file={}:tags:filecount=0", log.display());
        let mut java = Java::start(&jdk, &["-XX:+UseG1GC", "-Xmx64m", &option]);
        java.ask("work");
        let mut jvm = Jvm::open(&proc(), java.pid);
        let compilers: u64 = fact(&jvm.facts(), "compiler_threads").unwrap().parse().unwrap();
        java.end();
        let last = jvm.sample().unwrap();
        let text = fs::read_to_string(&log).unwrap();
        let logged = |topic: &str, is: &dyn Fn(&str) -> bool| {
            let lines = text.lines().filter(|line| line[1..].split(']').next().unwrap().trim_end() == topic);
            lines.filter(|line| is(line)).count() as u64
        };
        let name = jdk.name();
        assert_eq!(
            last.classes_loaded,
            Some(logged("class,load", &|line| line.contains(" source: "))),
            "{name}"
        );
        assert_eq!(last.gc_collections, Some(logged("gc", &|line| line.contains(") Pause "))), "{name}");
        // The one it ends in is not logged.
        assert_eq!(
            last.safepoints,
            Some(logged("safepoint", &|line| line.contains("Total: ")) + 1),
            "{name}"
        );
        let begun =
            logged("jit,compilation", &|line| !line.contains("   made ") && !line.contains("(native)"));
        let done = last.compiles.unwrap();
        assert!(
            done <= begun && begun <= done + compilers,
            "{name}: {done} of {begun}; each compiler may be at one"
        );
        assert_eq!(
            last.compiles,
            last.standard_compiles.zip(last.osr_compiles).map(|(a, b)| a + b),
            "{name}"
        );
        assert_eq!(Jvm::open(&proc(), java.pid).sample(), Err(Unavailable::Gone));
    }
}

#[test]
fn every_collector_is_named_and_counted() {
    for jdk in jdks() {
        for (flag, name) in [
            ("-XX:+UseSerialGC", "serial"),
            ("-XX:+UseParallelGC", "parallel"),
            ("-XX:+UseG1GC", "g1"),
            ("-XX:+UseZGC", "z"),
            ("-XX:+UseShenandoahGC", "shenandoah"),
        ] {
            let mut java = Java::start(&jdk, &["-Xmx64m", flag]);
            let mut jvm = Jvm::open(&proc(), java.pid);
            let before = jvm.sample().unwrap().gc_collections.unwrap();
            java.ask("gc");
            let after = jvm.sample().unwrap();
            assert!(after.gc_collections.unwrap() > before, "{flag} of {}", jdk.name());
            assert!(after.heap_used_bytes.is_some(), "{flag} of {}", jdk.name());
            let facts = jvm.facts();
            assert_eq!(fact(&facts, "gc"), Some(name), "of {}", jdk.name());
            assert_eq!(fact(&facts, "heap_max_bytes"), Some("67108864"), "{flag} of {}", jdk.name());
            let collector = |i: usize| fact(&facts, &format!("gc_collector_{i}")).is_some();
            let named: Vec<bool> = (0..timeline::COLLECTORS).map(collector).collect();
            let counted: Vec<bool> = after.collectors.iter().map(Option::is_some).collect();
            assert_eq!(named, counted, "{flag} of {}", jdk.name());
        }
    }
}

#[test]
fn arguments_are_told_and_secrets_are_not() {
    for jdk in jdks() {
        let java = Java::with(&jdk, &[], &["-Xmx64m", "-Xint", "-Dapi.key=hunter2"], |command| {
            command.env("JAVA_TOOL_OPTIONS", "-Dspring.password=\"hunter2 -Xhunter2\" -XX:OnError=hunter2");
        });
        let facts = Jvm::open(&proc(), java.pid).facts();
        assert!(facts.iter().all(|fact| !format!("{fact:?}").contains("hunter2")), "{facts:?}");
        assert_eq!(fact(&facts, "vm_args"), Some("-XX:OnError=… -Xmx64m -Xint"));
        assert_eq!(fact(&facts, "vm_args_withheld"), Some("3"));
        assert_eq!(fact(&facts, "java_main"), Some("Told"));
        assert_eq!(fact(&facts, "tiering"), Some("interpreted"));
        assert_eq!(fact(&facts, "jvm_kind"), Some("hotspot"));
        assert_eq!(fact(&facts, "hsperfdata"), Some("read"));
    }
}

#[test]
fn a_jvm_without_a_compiler_has_no_compilations_rather_than_zero() {
    for jdk in jdks() {
        let java = Java::start(&jdk, &["-Xint"]);
        let sample = Jvm::open(&proc(), java.pid).sample().unwrap();
        assert_eq!((sample.compiles, sample.osr_compiles), (None, None));
        assert!(sample.classes_loaded > Some(100));
    }
}

#[test]
fn archives_agents_and_recordings() {
    for jdk in jdks() {
        let facts_of = |options: &[&str]| {
            let java = Java::start(&jdk, options);
            Jvm::open(&proc(), java.pid).facts()
        };
        let has = |facts: &[Fact], name: &str, value: &str| {
            assert!(facts.iter().any(|f| f.name == name && f.value == value), "{name} = {value}: {facts:?}");
        };
        let archive = java::scratch(&format!("{}-top.jsa", jdk.name()));
        let make = format!("-XX:ArchiveClassesAtExit={}", archive.display());
        let mut training = Java::start(&jdk, &[&make]);
        has(
            &Jvm::open(&proc(), training.pid).facts(),
            "aot_training",
            "recording, and assembling at the exit",
        );
        training.end();
        let used = facts_of(&[&format!("-XX:SharedArchiveFile={}", archive.display())]);
        has(&used, "cds", "app_dynamic");
        let name = archive.file_name().unwrap().to_str().unwrap();
        has(&used, "class_archive", &format!("{name} (app_dynamic)"));
        has(&used, "class_archive", "classes.jsa (default)");
        has(&facts_of(&["-XX:SharedArchiveFile=none.jsa"]), "archive_unused", "missing: none.jsa");
        fs::write(&archive, "garbage").unwrap();
        let refused = facts_of(&[&format!("-XX:SharedArchiveFile={}", archive.display())]);
        has(&refused, "archive_unused", &format!("refused: it is there and not mapped: {name}"));
        has(&facts_of(&["-Xshare:off"]), "cds", "none");
        has(&facts_of(&[]), "cds", "default");
        if jdk.feature() >= 25 {
            let cache = java::scratch("app.cache");
            Java::start(&jdk, &[&format!("-XX:AOTCacheOutput={}", cache.display())]).end();
            let facts = facts_of(&[&format!("-XX:AOTCache={}", cache.display())]);
            has(&facts, "cds", "aot_cache");
            has(&facts, "class_archive", "app.cache (aot_cache)");
        }
        let agent = java::scratch("agent.jar");
        let facts =
            facts_of(&[&format!("-javaagent:{}=hunter2", agent.display()), "-XX:StartFlightRecording"]);
        has(&facts, "javaagent", "agent.jar");
        has(&facts, "jfr", "running");
    }
}

#[test]
fn a_jvm_in_its_own_namespaces() {
    for jdk in jdks() {
        let own = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"];
        let java = Java::with(&jdk, &own, &[], |_| {});
        assert_eq!(proc().container_pid(java.pid), Some(1));
        let mut jvm = Jvm::open(&proc(), java.pid);
        assert!(jvm.sample().unwrap().classes_loaded > Some(100), "{:?}", jvm.facts());
    }
}

#[test]
fn jvms_that_keep_no_file_say_why() {
    let check = |jdk: &Jdk, wrap: &[&str], options: &[&str], env: &str, expect: &str| {
        let mut java = Java::with(jdk, wrap, options, |command| {
            command.env("JAVA_TOOL_OPTIONS", env);
        });
        java.ask("gc");
        let mut jvm = Jvm::open(&proc(), java.pid);
        // It says the same however often it is asked.
        for _ in 0..20 {
            assert_eq!(jvm.sample().unwrap_err().to_string(), expect, "{wrap:?} {options:?} {env}");
        }
        let facts = jvm.facts();
        assert_eq!(fact(&facts, "hsperfdata"), Some(expect));
        assert_eq!(fact(&facts, "jvm_kind"), Some("hotspot"));
        assert!(memory(&proc(), java.pid).rss_bytes > Some(1 << 20));
        let given = options.first().copied();
        assert_eq!(fact(&facts, "vm_args"), given, "told by the command line");
    };
    let off = "the JVM runs with -XX:-UsePerfData";
    let private = "the JVM runs with -XX:+PerfDisableSharedMem";
    let no_user = "uid 47111 has no entry in /etc/passwd, without which a JVM makes no hsperfdata file";
    let user = ["setpriv", "--reuid=47111", "--regid=47111", "--clear-groups"];
    for jdk in jdks() {
        check(&jdk, &[], &["-XX:-UsePerfData"], "", off);
        check(&jdk, &[], &[], "-XX:-UsePerfData", off);
        check(&jdk, &[], &["-XX:+PerfDisableSharedMem"], "", private);
        check(&jdk, &user, &["-Xmx64m"], "", no_user);
        for (tmp, why) in [("none", "missing"), ("ro", "read-only")] {
            let expect = format!("/tmp is {why}, so the JVM could make no hsperfdata file");
            let root = java::root_with_tmp(&jdk, tmp);
            let root: Vec<&str> = root.iter().map(String::as_str).collect();
            check(&jdk, &root, &["-Xmx64m"], "", &expect);
        }
    }
}

#[test]
fn a_file_that_was_deleted() {
    for jdk in jdks() {
        let java = Java::start(&jdk, &[]);
        let mut early = Jvm::open(&proc(), java.pid);
        early.sample().unwrap();
        let path = format!("/tmp/hsperfdata_root/{}", java.pid);
        fs::remove_file(&path).unwrap();
        assert_eq!(Jvm::open(&proc(), java.pid).sample(), Err(Unavailable::Deleted { path }));
        early.sample().expect("what is open stays readable");
    }
}

#[test]
fn changed_bytes_of_real_files_give_entries_or_an_error() {
    for jdk in jdks() {
        let java = Java::start(&jdk, &[]);
        let whole = fs::read(Path::new("/tmp/hsperfdata_root").join(java.pid.to_string())).unwrap();
        let prologue = hsperfdata::Prologue::parse(&whole).unwrap();
        let all = hsperfdata::entries(&whole, &prologue).flatten().count();
        assert_eq!(all, prologue.entries, "{}", jdk.name());
        let used = prologue.used_bytes;
        // Entries are multiples of 8 bytes long, so every place in one gets its turn.
        for at in (0..used).step_by(7) {
            for byte in [0, 0x80, whole[at].wrapping_add(1)] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                // Debug builds panic where a calculation overflows.
                if let Ok(prologue) = hsperfdata::Prologue::parse(&bytes) {
                    let read = hsperfdata::entries(&bytes, &prologue).count();
                    assert!(read <= bytes.len() / 20 + 1);
                }
            }
        }
    }
}
