//! HotSpot's own log of what it does, instants included.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use super::truth::{Class, Compiler, Event, Truth, What};
use crate::clock::Anchor;

/// The JVM's option that writes the log. `timenanos` is javaTimeNanos, which is `CLOCK_MONOTONIC`.
///
/// `jit+compilation` tells when a compilation begins, `nmethod+install` when its code is there (ciEnv::register_method); what
/// begins and is not followed by code on its thread has failed.
pub fn option(file: &Path) -> String {
    let tags = "class+load,jit+compilation=debug,nmethod+install=debug,gc,safepoint";
    format!("-Xlog:{tags}:file={}:timenanos,tags,tid:filecount=0", file.display())
}

/// Reads the log.
pub fn read(file: &Path) -> Result<Truth> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    parse(&text, Anchor::monotonic()?).with_context(|| file.display().to_string())
}

fn parse(text: &str, monotonic: Anchor) -> Result<Truth> {
    let mut truth = Truth::default();
    let mut compiling = BTreeSet::new();
    for line in text.lines() {
        let Some(line) = Line::split(line) else { continue };
        let at_ns = monotonic.boot_ns(line.at_ns).context("an instant before boot")?;
        let mut add =
            |what, length_ns| truth.events.push(Event { at_ns, thread: line.thread, what, length_ns });
        match line.tags {
            "class,load" => {
                if let Some(class) = class(line.text) {
                    add(What::Class(class), 0);
                }
            }
            "jit,compilation" if begins(line.text) && !compiling.insert(line.thread) => {
                add(What::CompileFailed, 0);
            }
            "nmethod,install" => {
                compiling.remove(&line.thread);
                if let Some(compiler) = level(line.text).and_then(Compiler::of_level) {
                    add(What::Compile(compiler), 0);
                }
            }
            "gc" => {
                if let Some(length_ns) = pause_ns(line.text) {
                    add(What::Pause, length_ns);
                }
            }
            "safepoint" => {
                if let Some(length_ns) = between(line.text, "Total: ", " ns").and_then(|ns| ns.parse().ok()) {
                    add(What::Safepoint, length_ns);
                }
            }
            _ => {}
        }
    }
    // A thread's line may come before one with an earlier instant.
    truth.events.sort_by_key(|event| event.at_ns);
    // It is there from the first class to the last thread.
    truth.to_ns = u64::MAX;
    Ok(truth)
}

/// `[22707476534389ns][12593][class,load     ] java.lang.Object source: shared objects file`
struct Line<'a> {
    at_ns: u64,
    thread: u32,
    tags: &'a str,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn split(line: &'a str) -> Option<Self> {
        let (at, rest) = line.strip_prefix('[')?.split_once("ns][")?;
        let (thread, rest) = rest.split_once("][")?;
        let (tags, text) = rest.split_once(']')?;
        Some(Self {
            at_ns: at.parse().ok()?,
            thread: thread.trim_end().parse().ok()?,
            tags: tags.trim_end(),
            text: text.trim(),
        })
    }
}

/// InstanceKlass::print_class_load_logging, oops/instanceKlass.cpp. The source of a class that was made at run time is what
/// made it.
fn class(text: &str) -> Option<Class> {
    let (name, source) = text.split_once(" source: ")?;
    let shared = source.starts_with("shared objects file");
    let from_file = shared || ["jrt:", "jar:", "file:"].iter().any(|scheme| source.starts_with(scheme));
    Some(Class { name: name.to_owned(), shared, generated: !from_file || name.contains("$$Lambda") })
}

/// Whether a compilation begins. The same method's later fates end with words (`made not entrant`, JDK 17 also
/// `made zombie`), and wrappers of native methods are made by no compiler.
fn begins(text: &str) -> bool {
    text.ends_with(" bytes)")
}

/// `Installing method (4) java.lang.String.hashCode()I`, `Installing osr method (3) …`
fn level(text: &str) -> Option<u32> {
    between(text, "method (", ")")?.parse().ok()
}

/// `GC(0) Pause Young (Normal) (G1 Evacuation Pause) 17M->2M(384M) 9.855ms`
fn pause_ns(text: &str) -> Option<u64> {
    if !text.split_once(") ")?.1.starts_with("Pause ") {
        return None;
    }
    let (whole, thousandths) = text.rsplit(' ').next()?.strip_suffix("ms")?.split_once('.')?;
    Some((whole.parse::<u64>().ok()? * 1000 + thousandths.parse::<u64>().ok()?) * 1000)
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(begin)?;
    rest.split_once(end).map(|(found, _)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of JDK 17.0.15.
    const OF_17: &str = r#"
[22728452569377ns][12742][gc] Using G1
[22728492228405ns][12742][class,load] java.lang.invoke.LambdaForm source: shared objects file
[22728520569377ns][12755][jit,compilation]    1       3       java.lang.Object::<init> (1 bytes)
[22728520669377ns][12755][nmethod,install] Installing method (3) java.lang.Object.<init>()V 
[22728531632348ns][12742][jit,compilation]    2     n 0       jdk.internal.misc.Unsafe::getReferenceVolatile (native)   
[22728541787968ns][12754][jit,compilation]    3       3       java.util.zip.ZipUtils::SH (21 bytes)   made not entrant
[22728541797968ns][12754][jit,compilation]    3       3       java.util.zip.ZipUtils::SH (21 bytes)   made zombie
[22728553135251ns][12742][class,load     ] java.lang.invoke.LambdaForm$DMH/0x00007eff68002000 source: __JVM_LookupDefineClass__
[22728553235251ns][12754][jit,compilation]  450  s! %   4       java.lang.StringLatin1::hashCode @ 13 (42 bytes)
[22728553245251ns][12754][nmethod,install] Installing osr method (4) java.lang.StringLatin1.hashCode([B)I @ 13
[22728553255251ns][12754][jit,compilation] 1457   !   4       jdk.internal.loader.URLClassPath$Loader::getResource (92 bytes)
[22728553355251ns][12754][jit,compilation] 1458       4       java.lang.String::charAt (25 bytes)
[22729037631571ns][12751][gc             ] GC(2) Pause Young (Concurrent Start) (Metadata GC Threshold) 63M->10M(384M) 18.174ms
[22729037681571ns][12751][safepoint      ] Safepoint "G1CollectForAllocation", Time since last: 464349956 ns, Reaching safepoint: 5992 ns, Cleanup: 2100 ns, At safepoint: 9999686 ns, Total: 10007778 ns
[22729037691571ns][12751][gc             ] GC(3) Concurrent Mark Cycle 21.494ms
"#;
    /// Lines of JDK 25.0.3.
    const OF_25: &str = r#"
[22735789064603ns][12834][class,load     ] java.util.zip.ZipFile$$Lambda/0x80000004a source: shared objects file
[22735789464603ns][12834][class,load     ] ch.qos.logback.classic.pattern.ThrowableProxyConverter source: jar:nested:/app/testbed.jar/!BOOT-INF/lib/logback-classic-1.5.38.jar!/
[22735790464603ns][12834][class,load     ] org.example.Customizer$$Lambda/0x0000000028041800 source: org.example.Customizer
[22735772224649ns][12848][jit,compilation]    2       3       java.lang.Byte::toUnsignedInt (6 bytes)   made not entrant: not used
[22735772324649ns][12834][jit,compilation]    4     n 0       jdk.internal.vm.Continuation::enterSpecial (native)   (static)
[22735981544995ns][12601][gc             ] GC(3) Pause Cleanup 12M->12M(56M) 0.017ms
[22735981557379ns][12601][safepoint      ] Safepoint "G1PauseCleanup", Time since last: 4034402 ns, Reaching safepoint: 126021 ns, At safepoint: 33619 ns, Leaving safepoint: 1893 ns, Total: 161533 ns, Threads: 1 runnable, 11 total
"#;

    fn told(text: &str) -> Vec<(What, u32, u64)> {
        let events = parse(text, Anchor::monotonic().unwrap()).unwrap().events;
        events.into_iter().map(|event| (event.what, event.thread, event.length_ns)).collect()
    }

    fn class(name: &str, shared: bool, generated: bool) -> What {
        What::Class(Class { name: name.into(), shared, generated })
    }

    #[test]
    fn lines_of_17() {
        let expect = [
            (class("java.lang.invoke.LambdaForm", true, false), 12742, 0),
            (What::Compile(Compiler::C1), 12755, 0),
            (class("java.lang.invoke.LambdaForm$DMH/0x00007eff68002000", false, true), 12742, 0),
            (What::Compile(Compiler::C2), 12754, 0),
            // No code came of the one before; the last one is still under way.
            (What::CompileFailed, 12754, 0),
            (What::Pause, 12751, 18_174_000),
            (What::Safepoint, 12751, 10_007_778),
        ];
        assert_eq!(told(OF_17), expect);
    }

    #[test]
    fn lines_of_25_are_put_in_order() {
        let expect = [
            (class("java.util.zip.ZipFile$$Lambda/0x80000004a", true, true), 12834, 0),
            (class("ch.qos.logback.classic.pattern.ThrowableProxyConverter", false, false), 12834, 0),
            (class("org.example.Customizer$$Lambda/0x0000000028041800", false, true), 12834, 0),
            (What::Pause, 12601, 17_000),
            (What::Safepoint, 12601, 161_533),
        ];
        assert_eq!(told(OF_25), expect);
    }

    #[test]
    fn what_is_no_line_of_the_log_is_left_out() {
        assert_eq!(told("[12ns][3]\nOpenJDK 64-Bit Server VM warning: …\n[x][1][gc] Pause\n"), []);
    }
}
