//! What a JVM and its kernel tell of themselves at an instant, and once.
//!
//! What was not measured is absent, never zero.

use serde::{Deserialize, Serialize};

macro_rules! measured {
    ($(#[$outer:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<u64>,)*
            /// By index of the collector in hsperfdata; the fact `gc_collector_N` names it.
            #[serde(skip_serializing_if = "none")]
            pub collectors: [Option<Collector>; COLLECTORS],
        }
    };
}

/// Collectors that a JVM has at most: of the young generation, of the whole heap, and concurrent.
pub const COLLECTORS: usize = 3;

measured! {
    /// Counters of a JVM at an instant, since its start.
    pub struct Sample {
        /// Classes loaded, from anywhere.
        pub classes_loaded,
        /// Those of them that came out of a CDS archive or an AOT cache.
        pub classes_shared,
        /// Classes unloaded, from anywhere.
        pub classes_unloaded,
        /// Time to load classes, of all threads: it may pass by several times at once.
        pub class_load_ns,
        /// Time to link classes, which contains `class_verify_ns`.
        pub class_link_ns,
        /// Time to verify classes.
        pub class_verify_ns,
        /// Time in the static initialisers of classes.
        pub class_init_ns,
        /// Compilations, of both compilers.
        pub compiles,
        /// Time to compile, of all compiler threads.
        pub compile_ns,
        /// Compilations of whole methods.
        pub standard_compiles,
        /// Time for them.
        pub standard_compile_ns,
        /// Compilations of a loop that was running (on-stack replacement).
        pub osr_compiles,
        /// Time for them.
        pub osr_compile_ns,
        /// Compilations that a compiler gave up.
        pub compile_bailouts,
        /// Compilations whose code was made invalid before it was installed.
        pub compile_invalidations,
        /// Collections, of all collectors.
        pub gc_collections,
        /// Time in them, as far as the collectors count it: the pauses.
        pub gc_ns,
        /// CPU time of the collectors' threads, as of the latest collection; JDK 17 does not tell it.
        pub gc_cpu_ns,
        /// Safepoints.
        pub safepoints,
        /// Time in safepoints.
        pub safepoint_ns,
        /// Time to bring all threads to them.
        pub safepoint_sync_ns,
        /// Time between safepoints, up to the last.
        pub application_ns,
        /// Java threads that live.
        pub threads_live,
        /// Java threads that were started.
        pub threads_started,
        /// Most Java threads that lived at once.
        pub threads_peak,
        /// Heap in use when the JVM last counted it: after the latest collection, or later; absent before the first.
        pub heap_used_bytes,
        /// Metaspace in use after the latest collection; absent before the first.
        pub metaspace_used_bytes,
    }
}

/// A collector's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collector {
    /// How often it ran.
    pub collections: u64,
    /// Time in its pauses.
    pub pause_ns: u64,
}

fn none(collectors: &[Option<Collector>; COLLECTORS]) -> bool {
    collectors.iter().all(Option::is_none)
}

/// Memory of a process at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// In RAM, of the process, with what it shares with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// What its cgroup is charged with, the page cache included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_bytes: Option<u64>,
}

/// Something about a JVM that does not change, or that is told when it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// One of [`FACTS`].
    pub name: String,
    /// What it is.
    pub value: String,
    /// Where it was read.
    pub source: String,
}

impl Fact {
    /// A fact with its evidence.
    pub fn new(name: &str, value: impl Into<String>, source: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: value.into(), source: source.into() }
    }
}

/// Names of facts and what they mean. A name that may come several times says so.
pub const FACTS: &[(&str, &str)] = &[
    ("jvm_kind", "hotspot, openj9, graalvm_native or unknown"),
    ("hsperfdata", "`read`, or why the JVM's own counters are not available"),
    ("usdt", "`attached`: what the JVM does is counted as it happens; else what is not, and why; several"),
    ("jvm_version", "version of the virtual machine"),
    ("jvm_name", "name of the virtual machine"),
    ("jvm_vendor", "who built it"),
    ("java_version", "version of Java"),
    ("jvm_mode", "how it executes, in its own words"),
    ("java_main", "main class, module or jar"),
    ("vm_args", "arguments of the virtual machine that may be kept; paths are cut to file names"),
    ("vm_args_withheld", "number of arguments that may not be kept, such as system properties"),
    ("create_vm_ms", "milliseconds to create the virtual machine, in its own account"),
    ("gc", "serial, parallel, g1, z, shenandoah, epsilon or cms"),
    ("gc_collector_0", "name of the collector with this index in samples"),
    ("gc_collector_1", "name of the collector with this index in samples"),
    ("gc_collector_2", "name of the collector with this index in samples"),
    ("heap_max_bytes", "limit of the heap"),
    ("heap_initial_bytes", "size of the heap at the start, when it was asked for"),
    ("tiering", "tiered, stop_at_N (1: C1 only), c2_only, interpreted or compiled_first"),
    ("compiler_threads", "compiler threads that the JVM lets itself have"),
    ("active_processors", "processors that the JVM was told to use"),
    ("cds", "default, app_static, app_dynamic, aot_cache or none: what classes are shared from"),
    ("class_archive", "an archive in use, its file name and kind; several"),
    ("archive_unused", "an archive that was asked for and is not in use: why, and its file name; several"),
    ("aot_training", "recording, assembling, or both at the exit: what this run makes"),
    ("javaagent", "file name of a Java agent's jar; several"),
    ("native_agent", "name of a native agent's library; several"),
    ("jfr", "running or requested"),
    ("attach_listener", "started: something has attached, or the JVM was told to expect it"),
    ("container_memory_limit_bytes", "lowest memory limit of its cgroups"),
    ("container_cpu_limit_millicores", "lowest CPU bandwidth limit of its cgroups, thousandths of a CPU"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_absent_from_the_recording() {
        let mut sample = Sample { classes_loaded: Some(0), ..Sample::default() };
        assert_eq!(serde_json::to_string(&sample).unwrap(), r#"{"classes_loaded":0}"#);
        sample.collectors[1] = Some(Collector { collections: 2, pause_ns: 3 });
        let text = serde_json::to_string(&sample).unwrap();
        assert_eq!(serde_json::from_str::<Sample>(&text).unwrap(), sample);
        assert_eq!(serde_json::from_str::<Sample>("{}").unwrap(), Sample::default());
        assert_eq!(serde_json::to_string(&Memory::default()).unwrap(), "{}");
    }

    #[test]
    fn names_of_facts_are_told_once_and_in_snake_case() {
        for (at, (name, _)) in FACTS.iter().enumerate() {
            assert!(
                name.bytes().all(|b| b == b'_' || b.is_ascii_lowercase() || b.is_ascii_digit()),
                "{name}"
            );
            assert!(FACTS[..at].iter().all(|(other, _)| other != name), "{name}");
        }
    }
}
