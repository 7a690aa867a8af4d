//! What probes count of a JVM's work as it happens.

use serde::{Deserialize, Serialize};

/// How numbers come about, in the contract's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Counted at HotSpot's static probes.
    Usdt,
    /// Counted at HotSpot's functions.
    Symbol,
    /// Sampled from the JVM's own counters.
    Hsperfdata,
    /// Not measured.
    #[default]
    None,
}

impl Source {
    /// The word for it in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Usdt => "usdt",
            Source::Symbol => "symbol",
            Source::Hsperfdata => "hsperfdata",
            Source::None => "none",
        }
    }
}

/// Which work of a JVM is counted as it happens, and how; [`Source::None`] where it is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Probed {
    /// Classes.
    pub classes: Source,
    /// Compilations.
    pub compiles: Source,
    /// Collections.
    pub gc: Source,
    /// Safepoints.
    pub safepoints: Source,
    /// Java threads.
    pub threads: Source,
}

/// Compilers, as far as they are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compiler {
    /// The fast one.
    C1,
    /// The optimising one, whichever it is.
    C2,
}

macro_rules! counted {
    ($($(#[$doc:meta])* $field:ident,)+) => {
        /// What a JVM did since it was first probed. Never falls.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Counted {
            $($(#[$doc])* #[serde(skip_serializing_if = "crate::event::is_zero")] pub $field: u64,)+
        }

        impl Counted {
            /// The most that either says of each.
            pub(crate) fn max(self, other: Self) -> Self {
                Self { $($field: self.$field.max(other.$field),)+ }
            }
        }
    };
}

counted! {
    /// Classes loaded, from anywhere.
    classes,
    /// Those of them that came out of an archive.
    classes_shared,
    /// Compilations by C1 that succeeded.
    compiles_c1,
    /// Compilations by C2 that succeeded.
    compiles_c2,
    /// Compilations that did not.
    compiles_failed,
    /// Time in compilations by C1.
    compile_c1_ns,
    /// Time in compilations by C2.
    compile_c2_ns,
    /// Collections that ended.
    collections,
    /// Time in them.
    gc_ns,
    /// Safepoints that ended.
    safepoints,
    /// Time in them.
    safepoint_ns,
    /// Java threads started.
    threads,
    /// Reads of jars.
    jar_reads,
    /// Bytes that they read.
    jar_bytes,
    /// Reads of `lib/modules`.
    modules_reads,
    /// Bytes that they read.
    modules_bytes,
}
