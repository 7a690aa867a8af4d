//! What a JVM did, counted where HotSpot says that it does it: at its static probes (USDT) or, where those were left out, at
//! its functions.

/// Sites of all `libjvm.so`s that are probed at once.
pub const SITES: usize = 512;
/// Arguments of a site that the probes read.
pub const ARGS: usize = 4;
/// First bytes of a class's or a thread's name that are copied.
pub const NAME_CAPTURE: usize = 96;
/// Names of classes that a connection accepted, or first bytes read of a request, allow for.
pub const NAMES_A_REQUEST: u32 = 512;
/// Names of classes of one JVM.
pub const NAMES: u32 = 8192;
/// Work is told with the next that is done when it has not been for so long.
pub const WORK_SPAN_NS: u64 = 1_000_000;

macro_rules! probes {
    ($($(#[$doc:meta])* $name:ident = $value:literal),+ $(,)?) => {
        /// What a site says when a thread comes by.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Probe { $($(#[$doc])* $name = $value),+ }

        impl Probe {
            /// Every probe.
            pub const ALL: &'static [Probe] = &[$(Probe::$name),+];
        }
    };
}

probes! {
    /// A class was loaded. Arguments: its name, the name's length, 1 when it came out of an archive.
    ClassLoaded = 0,
    /// A compilation begins.
    CompileBegin = 1,
    /// A compilation ends. Arguments: the method's class's name, the name's length, 1 when it succeeded.
    CompileEnd = 2,
    /// A collection begins.
    GcBegin = 3,
    /// A collection ends.
    GcEnd = 4,
    /// The VM thread begins to bring all threads to a safepoint.
    SafepointBegin = 5,
    /// They run again.
    SafepointEnd = 6,
    /// A Java thread starts to run; it is the current one. Arguments: its name, the name's length.
    ThreadStart = 7,
}

/// Values of [`Arg::how`]: where an argument is.
pub mod how {
    /// Nowhere that the probes can look.
    pub const NONE: u8 = 0;
    /// It is [`super::Arg::value`].
    pub const CONSTANT: u8 = 1;
    /// In the register [`super::Arg::base`].
    pub const REGISTER: u8 = 2;
    /// In memory, at base + index × scale + value.
    pub const MEMORY: u8 = 3;
}

/// [`Arg::index`] of a place without one.
pub const NO_INDEX: u16 = u16::MAX;

/// Where an argument is when a thread comes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Arg {
    /// The constant, or the displacement.
    pub value: i64,
    /// Offset of a register in the architecture's `struct pt_regs`.
    pub base: u16,
    /// Offset of another one, or [`NO_INDEX`].
    pub index: u16,
    /// See [`how`].
    pub how: u8,
    /// Bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// 1 when it has a sign.
    pub signed: u8,
    /// Binary logarithm of what the index is multiplied with.
    pub shift: u8,
}

/// Value of the map `SITES`, by a number that the site's cookie holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Site {
    /// Its arguments, as [`Probe`] lists them.
    pub args: [Arg; ARGS],
    /// A [`Probe`].
    pub probe: u32,
    /// Zero.
    pub pad: u32,
}

macro_rules! work {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// What a JVM did since it was first probed.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct Work { $($(#[$doc])* pub $field: u64),+ }
    };
}

work! {
    /// Classes loaded, from anywhere.
    classes,
    /// Those of them that came out of an archive.
    classes_shared,
    /// Compilations by C1 that succeeded.
    compiles_c1,
    /// Compilations by C2, or whatever is not C1, that succeeded.
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
    /// Time in them, without that to bring all threads there where the site says so.
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

/// Value of the map `JVMS`, by tgid.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Jvm {
    /// What it did.
    pub work: Work,
    /// When it last did something of that.
    pub last_ns: u64,
    /// When that was last told.
    pub told_ns: u64,
    /// Begin of the collection under way, else 0.
    pub gc_since_ns: u64,
    /// Begin of the safepoint under way, else 0.
    pub safepoint_since_ns: u64,
    /// Names that may still be copied, until the next request allows for more.
    pub names_left: u32,
    /// Names that were allowed for.
    pub names: u32,
}

const _: () = assert!(size_of::<Arg>() == 16);
const _: () = assert!(size_of::<Site>() == 72);
const _: () = assert!(size_of::<Work>() == 128);
const _: () = assert!(size_of::<Jvm>() == 168);
