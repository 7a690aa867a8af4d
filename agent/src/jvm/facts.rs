//! What a JVM is and how it was set up, each with where it was read. The names are [`timeline::FACTS`].

use timeline::Fact;

use super::{
    archives,
    args::{Args, bytes_of, told_name},
    cgroup::Cgroup,
    hsperfdata::{Entry, Value},
    kind::kind,
    maps::Maps,
    perf::Unavailable,
};
use crate::identity::{Proc, main_of};

/// Longest text that is kept of what the JVM says.
const LONGEST: usize = 256;

/// What the counters' file says in words and constants.
pub(super) struct Told<'a>(pub Vec<Entry<'a>>);

impl Told<'_> {
    fn value(&self, name: &str) -> Option<Value<'_>> {
        self.0.iter().find(|entry| entry.name == name).map(|entry| entry.value)
    }

    fn text(&self, name: &str) -> Option<(String, bool)> {
        match self.value(name)? {
            Value::Text { bytes, cut } if !bytes.is_empty() => {
                Some((String::from_utf8_lossy(bytes).into_owned(), cut))
            }
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::Long(value) => u64::try_from(value).ok().filter(|value| *value > 0),
            _ => None,
        }
    }
}

/// Arguments, and where they were read.
struct Given {
    args: Args,
    source: &'static str,
}

/// All facts that can be told now; none of a process that has gone.
pub(super) fn facts(proc: &Proc, pid: u32, told: &Result<Told, Unavailable>) -> Vec<Fact> {
    let maps = match Maps::read(proc, pid) {
        Ok(maps) => Some(maps),
        Err(Unavailable::Gone) => return Vec::new(),
        Err(_) => None,
    };
    let mut facts = vec![kind(proc, pid, maps.as_ref())];
    facts.push(match told {
        Ok(_) => Fact::new("hsperfdata", "read", "maps"),
        Err(error) => Fact::new("hsperfdata", error.to_string(), "maps, status, /etc/passwd, /tmp"),
    });
    if let Err(Unavailable::NativeImage) = told {
        // It was compiled ahead of time: nothing of what a virtual machine is told applies.
        limits(proc, pid, &mut facts);
        return facts;
    }
    let told = told.as_ref().ok();
    let command = proc.command(pid).unwrap_or_default();
    let vm_args = told.and_then(|told| told.text("java.rt.vmArgs"));
    let given = match vm_args {
        Some((text, cut)) => Given { args: Args::of_text(&text, cut), source: "hsperfdata java.rt.vmArgs" },
        // An empty text is one too; without the file, options of the environment and argument files stay unknown.
        None if told.is_some() => Given { args: Args::default(), source: "hsperfdata java.rt.vmArgs" },
        None => Given { args: Args::of_command(&command), source: "cmdline" },
    };
    if let Some(told) = told {
        identity(told, &command, &mut facts);
        collectors(told, &mut facts);
    } else if let Some(main) = main_of(&command) {
        facts.push(Fact::new("java_main", main, "cmdline"));
    }
    let threads: Vec<String> = proc.tasks(pid).into_iter().map(|task| task.name).collect();
    setup(told, &given, &threads, &mut facts);
    if let Some(maps) = &maps {
        facts.extend(archives::facts(proc, pid, maps, &given.args, given.source));
    }
    agents(&given, maps.as_ref(), &threads, &mut facts);
    limits(proc, pid, &mut facts);
    facts
}

fn identity(told: &Told, command: &[String], facts: &mut Vec<Fact>) {
    for (name, counter) in [
        ("jvm_version", "java.property.java.vm.version"),
        ("jvm_name", "java.property.java.vm.name"),
        ("jvm_vendor", "java.property.java.vm.vendor"),
        ("java_version", "java.property.java.version"),
        ("jvm_mode", "java.property.java.vm.info"),
    ] {
        if let Some((text, _)) = told.text(counter) {
            facts.push(Fact::new(name, bounded(&text), format!("hsperfdata {counter}")));
        }
    }
    if let Some((said, _)) = told.text("sun.rt.javaCommand") {
        // Main and its arguments are joined with blanks; a path with blanks is told from them by the command line.
        let main = main_of(command).filter(|main| said.starts_with(main.as_str()));
        let main = main.or_else(|| said.split_ascii_whitespace().next().map(str::to_owned));
        facts
            .extend(main.map(|main| Fact::new("java_main", bounded(&main), "hsperfdata sun.rt.javaCommand")));
    }
    let time = |name| told.number(name);
    if let (Some(begin), Some(end)) = (time("sun.rt.createVmBeginTime"), time("sun.rt.createVmEndTime"))
        && let Some(took_ms) = end.checked_sub(begin)
    {
        let source = "hsperfdata sun.rt.createVmBeginTime, createVmEndTime";
        facts.push(Fact::new("create_vm_ms", took_ms.to_string(), source));
    }
}

fn collectors(told: &Told, facts: &mut Vec<Fact>) {
    for index in 0..timeline::COLLECTORS {
        let counter = format!("sun.gc.collector.{index}.name");
        if let Some((name, _)) = told.text(&counter) {
            let source = format!("hsperfdata {counter}");
            facts.push(Fact::new(&format!("gc_collector_{index}"), bounded(&name), source));
        }
    }
}

/// Collectors' names begin with these: of JDK 8, and since.
const GC_BY_NAME: [(&str, &str); 12] = [
    ("G1", "g1"),
    ("Serial", "serial"),
    ("Copy", "serial"),
    ("MSC", "serial"),
    ("Parallel", "parallel"),
    ("PSScavenge", "parallel"),
    ("PSParallelCompact", "parallel"),
    ("Z ", "z"),
    ("ZGC", "z"),
    ("Shenandoah", "shenandoah"),
    ("ParNew", "cms"),
    ("CMS", "cms"),
];

const GC_BY_FLAG: [(&str, &str); 7] = [
    ("UseG1GC", "g1"),
    ("UseSerialGC", "serial"),
    ("UseParallelGC", "parallel"),
    ("UseZGC", "z"),
    ("UseShenandoahGC", "shenandoah"),
    ("UseEpsilonGC", "epsilon"),
    ("UseConcMarkSweepGC", "cms"),
];

/// Threads that only one collector has, by their name in the kernel.
const GC_BY_THREAD: [(&str, &str); 3] =
    [("G1 Main Marker", "g1"), ("ZDirector", "z"), ("Shenandoah Cont", "shenandoah")];

fn gc(told: Option<&Told>, given: &Given, threads: &[String]) -> Option<(&'static str, String)> {
    let by_name = told.and_then(|told| {
        (0..timeline::COLLECTORS).find_map(|index| {
            let counter = format!("sun.gc.collector.{index}.name");
            let (name, _) = told.text(&counter)?;
            let (_, gc) = GC_BY_NAME.iter().find(|(start, _)| name.starts_with(start))?;
            Some((*gc, format!("hsperfdata {counter}")))
        })
    });
    let by_flag = || {
        let (flag, gc) = GC_BY_FLAG.iter().find(|(flag, _)| given.args.switch(flag) == Some(true))?;
        Some((*gc, format!("{}: -XX:+{flag}", given.source)))
    };
    let by_thread = || {
        let (thread, gc) =
            GC_BY_THREAD.iter().find(|(thread, _)| threads.iter().any(|name| name == thread))?;
        Some((*gc, format!("thread {thread}")))
    };
    by_name.or_else(by_flag).or_else(by_thread)
}

/// The heap's limit as its generations have it. Each pads its capacity by some words to stand out among equal ones
/// (G1MonitoringSupport::pad_capacity), so it is cut to pages.
fn heap_max(told: &Told, gc: &str) -> Option<u64> {
    const PAGE: u64 = 4096;
    let of = |generation: u32| told.number(&format!("sun.gc.generation.{generation}.maxCapacity"));
    let bytes = match gc {
        "serial" | "parallel" | "cms" => of(0)?.checked_add(of(1)?)?,
        // Their generations share the heap, and each may have all of it.
        "g1" | "z" | "shenandoah" => of(1)?,
        _ => return None,
    };
    Some(bytes / PAGE * PAGE)
}

fn setup(told: Option<&Told>, given: &Given, threads: &[String], facts: &mut Vec<Fact>) {
    let Given { args, source } = given;
    let kept = args.kept();
    if !kept.args.is_empty() {
        facts.push(Fact::new("vm_args", kept.args.join(" "), *source));
    }
    if kept.withheld > 0 {
        facts.push(Fact::new("vm_args_withheld", kept.withheld.to_string(), *source));
    }
    let gc = gc(told, given, threads);
    let size = |prefixes: [&'static str; 2]| {
        prefixes
            .into_iter()
            .find_map(|prefix| Some((bytes_of(args.value(prefix)?)?, format!("{source}: {prefix}"))))
    };
    let max = told.zip(gc.as_ref()).and_then(|(told, (gc, _))| {
        Some((heap_max(told, gc)?, "hsperfdata sun.gc.generation.*.maxCapacity".to_owned()))
    });
    if let Some((bytes, source)) = max.or_else(|| size(["-Xmx", "-XX:MaxHeapSize="])) {
        facts.push(Fact::new("heap_max_bytes", bytes.to_string(), source));
    }
    if let Some((bytes, source)) = size(["-Xms", "-XX:InitialHeapSize="]) {
        facts.push(Fact::new("heap_initial_bytes", bytes.to_string(), source));
    }
    facts.extend(gc.map(|(gc, source)| Fact::new("gc", gc, source)));
    facts.push(tiering(told, given));
    if let Some(threads) = told.and_then(|told| told.number("sun.ci.threads")) {
        facts.push(Fact::new("compiler_threads", threads.to_string(), "hsperfdata sun.ci.threads"));
    }
    if let Some(count) = args.value("-XX:ActiveProcessorCount=").and_then(|count| count.parse::<u32>().ok()) {
        facts.push(Fact::new(
            "active_processors",
            count.to_string(),
            format!("{source}: -XX:ActiveProcessorCount"),
        ));
    }
}

fn tiering(told: Option<&Told>, given: &Given) -> Fact {
    let Given { args, source } = given;
    let mode = told.and_then(|told| told.text("java.property.java.vm.info")).map(|(mode, _)| mode);
    let says = |words: &str| mode.as_ref().is_some_and(|mode| mode.contains(words));
    let fact = |value: &str, evidence: &str| Fact::new("tiering", value, format!("{source}: {evidence}"));
    let of_mode = |value: &str| Fact::new("tiering", value, "hsperfdata java.property.java.vm.info");
    if says("interpreted mode") {
        return of_mode("interpreted");
    }
    if args.has("-Xint") {
        return fact("interpreted", "-Xint");
    }
    if args.switch("TieredCompilation") == Some(false) {
        return fact("c2_only", "-XX:-TieredCompilation");
    }
    let stop = args.value("-XX:TieredStopAtLevel=").and_then(|level| level.parse::<u8>().ok());
    if let Some(level) = stop.filter(|level| *level < 4) {
        let value = if level == 0 { "interpreted".to_owned() } else { format!("stop_at_{level}") };
        return fact(&value, "-XX:TieredStopAtLevel");
    }
    match args.value("-XX:CompilationMode=") {
        Some("quick-only") => return fact("stop_at_1", "-XX:CompilationMode"),
        Some("high-only") => return fact("c2_only", "-XX:CompilationMode"),
        _ => {}
    }
    match () {
        // What HotSpot calls itself when only C1 is left, by whatever decision (CompilerConfig::is_c1_simple_only).
        () if says("emulated-client") => of_mode("stop_at_1"),
        () if says("compiled mode") => of_mode("compiled_first"),
        () if args.has("-Xcomp") => fact("compiled_first", "-Xcomp"),
        () => fact("tiered", "nothing against the default"),
    }
}

fn agents(given: &Given, maps: Option<&Maps>, threads: &[String], facts: &mut Vec<Fact>) {
    let Given { args, source } = given;
    for (fact, prefix) in
        [("javaagent", "-javaagent:"), ("native_agent", "-agentpath:"), ("native_agent", "-agentlib:")]
    {
        facts.extend(
            args.values(prefix).map(|value| Fact::new(fact, told_name(value), format!("{source}: {prefix}"))),
        );
    }
    // One that was attached, or whose option is not seen.
    let instrumented = maps.and_then(|maps| maps.named(|name| name == "libinstrument.so")).is_some();
    if instrumented && args.values("-javaagent:").next().is_none() {
        facts.push(Fact::new("javaagent", "(name not known)", "maps: libinstrument.so"));
    }
    let thread = |wanted: &str| threads.iter().any(|name| name == wanted);
    let asked = args.values("-XX:StartFlightRecording").next().is_some();
    if thread("JFR Recorder Th") {
        facts.push(Fact::new("jfr", "running", "thread JFR Recorder Thread"));
    } else if asked {
        facts.push(Fact::new("jfr", "requested", format!("{source}: -XX:StartFlightRecording")));
    }
    if thread("Attach Listener") {
        facts.push(Fact::new("attach_listener", "started", "thread Attach Listener"));
    }
}

fn limits(proc: &Proc, pid: u32, facts: &mut Vec<Fact>) {
    let memory = Cgroup::find(proc, pid, "memory").and_then(|group| group.memory_limit_bytes());
    let cpu = Cgroup::find(proc, pid, "cpu").and_then(|group| group.cpu_limit_millicores());
    for (name, limit) in [("container_memory_limit_bytes", memory), ("container_cpu_limit_millicores", cpu)] {
        facts.extend(limit.map(|(limit, source)| Fact::new(name, limit.to_string(), source)));
    }
}

fn bounded(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::jvm::hsperfdata::{
        self, Prologue,
        tests::{Made, file},
    };

    fn check(counters: &[(&str, Made)], threads: &[&str], expect: &[(&str, &str)]) {
        let dir = tempfile::tempdir().unwrap();
        let of = dir.path().join("8");
        fs::create_dir_all(&of).unwrap();
        fs::write(of.join("maps"), "1-2 r-xp 00000000 08:01 9 /jdk/lib/server/libjvm.so\n").unwrap();
        for (at, thread) in threads.iter().enumerate() {
            fs::create_dir_all(of.join(format!("task/{at}"))).unwrap();
            fs::write(of.join(format!("task/{at}/comm")), format!("{thread}\n")).unwrap();
        }
        let bytes = file(counters);
        let prologue = Prologue::parse(&bytes).unwrap();
        let told = hsperfdata::entries(&bytes, &prologue).collect::<Result<Vec<_>, _>>().unwrap();
        let facts = facts(&Proc::new(dir.path()), 8, &Ok(Told(told)));
        for fact in &facts {
            assert!(
                timeline::FACTS.iter().any(|(name, _)| *name == fact.name),
                "{} is in no table",
                fact.name
            );
        }
        for (name, value) in expect {
            let found: Vec<&str> =
                facts.iter().filter(|f| f.name == *name).map(|f| f.value.as_str()).collect();
            assert_eq!(found.join(" | "), *value, "{name}");
        }
    }

    fn text(text: &str) -> Made {
        Made::Text(text.to_owned())
    }

    #[test]
    fn what_a_jvm_says() {
        let args =
            "-Dpassword=hunter2 -Xms8m -javaagent:/opt/a.jar=key -agentlib:jdwp=x -XX:ActiveProcessorCount=2";
        check(
            &[
                ("java.property.java.vm.version", text("17.0.15+6")),
                ("java.rt.vmArgs", text(args)),
                ("sun.rt.javaCommand", text("com.acme.Main --password=hunter2")),
                ("sun.gc.collector.0.name", text("G1 young collection pauses")),
                ("sun.gc.generation.0.maxCapacity", Made::Long((256 << 20) + 24)),
                ("sun.gc.generation.1.maxCapacity", Made::Long((256 << 20) + 8)),
                ("sun.ci.threads", Made::Long(3)),
                ("sun.rt.createVmBeginTime", Made::Long(1000)),
                ("sun.rt.createVmEndTime", Made::Long(1034)),
            ],
            &["java", "JFR Recorder Th", "Attach Listener"],
            &[
                ("jvm_version", "17.0.15+6"),
                ("java_main", "com.acme.Main"),
                ("vm_args", "-Xms8m -javaagent:a.jar -agentlib:jdwp -XX:ActiveProcessorCount=2"),
                ("vm_args_withheld", "1"),
                ("gc", "g1"),
                ("gc_collector_0", "G1 young collection pauses"),
                ("heap_max_bytes", "268435456"),
                ("heap_initial_bytes", "8388608"),
                ("tiering", "tiered"),
                ("compiler_threads", "3"),
                ("active_processors", "2"),
                ("create_vm_ms", "34"),
                ("javaagent", "a.jar"),
                ("native_agent", "jdwp"),
                ("jfr", "running"),
                ("attach_listener", "started"),
            ],
        );
    }

    #[test]
    fn how_it_compiles() {
        for (args, mode, expect) in [
            ("", "mixed mode, sharing", "tiered"),
            ("-Xint", "interpreted mode", "interpreted"),
            ("-XX:TieredStopAtLevel=1", "mixed mode, emulated-client", "stop_at_1"),
            ("-XX:TieredStopAtLevel=3", "mixed mode", "stop_at_3"),
            ("-XX:TieredStopAtLevel=4", "mixed mode", "tiered"),
            ("-XX:-TieredCompilation", "mixed mode", "c2_only"),
            ("-XX:CompilationMode=high-only", "mixed mode", "c2_only"),
            ("", "mixed mode, emulated-client", "stop_at_1"),
            ("-Xcomp", "compiled mode", "compiled_first"),
        ] {
            let counters = [("java.rt.vmArgs", text(args)), ("java.property.java.vm.info", text(mode))];
            check(&counters, &[], &[("tiering", expect)]);
        }
    }

    #[test]
    fn which_collector() {
        for (counter, value, thread, expect) in [
            ("sun.gc.collector.0.name", "PSScavenge", "", "parallel"),
            ("sun.gc.collector.1.name", "MSC", "", "serial"),
            ("sun.gc.collector.2.name", "ZGC major collection pauses", "", "z"),
            ("java.rt.vmArgs", "-XX:+UseEpsilonGC", "", "epsilon"),
            ("x", "y", "Shenandoah Cont", "shenandoah"),
            ("x", "y", "main", ""),
        ] {
            check(&[(counter, text(value))], &[thread], &[("gc", expect)]);
        }
    }
}
