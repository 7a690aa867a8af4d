//! Typed access to the probes' maps.

use std::{
    fs,
    os::fd::{AsFd as _, AsRawFd as _},
};

use agent_ebpf::{Counter, Jvm, Offsets, Process, Site, Socket, SocketKey, Thread, Work, process};
use aya::{
    Ebpf, Pod,
    maps::{HashMap, Map, MapData, MapError, PerCpuArray, RingBuf},
};

use super::ProbeError;

/// A value of the shared layout, as the loader wants it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Shared<T>(pub(super) T);

macro_rules! shared {
    ($($ty:ty),+) => {
        // SAFETY: `repr(C)` structs of integers without implicit padding, sizes asserted in agent-ebpf.
        $(unsafe impl Pod for Shared<$ty> {})+
    };
}
shared!(Offsets, Process, Thread, SocketKey, Socket, Jvm, Site);

/// The maps, opened once.
pub struct Maps {
    processes: HashMap<MapData, u32, Shared<Process>>,
    threads: HashMap<MapData, u32, Shared<Thread>>,
    sockets: HashMap<MapData, Shared<SocketKey>, Shared<Socket>>,
    jvms: HashMap<MapData, u32, Shared<Jvm>>,
    counters: PerCpuArray<MapData, u64>,
    pub(super) ring: Option<RingBuf<MapData>>,
    memory_bytes: u64,
}

/// Entries of the maps in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processes exec'd since the probes were loaded.
    pub processes: u64,
    /// Threads of followed processes.
    pub threads: u64,
    /// Connections of followed processes.
    pub sockets: u64,
}

/// What the probes counted, over all processes, by [`Counter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters([u64; Counter::ALL.len()]);

impl Counters {
    /// One of them.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Records and map entries that found no room.
    pub fn dropped(&self) -> u64 {
        // Where an arrival finds no room, nothing is lost but a better instant.
        self.0.iter().sum::<u64>() - self.get(Counter::Produced) - self.get(Counter::ArrivalsFull)
    }
}

impl Maps {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, ProbeError> {
        let memory_bytes = ebpf
            .maps()
            .map(|(_, map)| map_data(map).map_or(0, |data| memlock(data.fd().as_fd().as_raw_fd())))
            .sum();
        Ok(Self {
            processes: typed(ebpf, "PROCESSES")?,
            threads: typed(ebpf, "THREADS")?,
            sockets: typed(ebpf, "SOCKETS")?,
            jvms: typed(ebpf, "JVMS")?,
            counters: typed(ebpf, "COUNTERS")?,
            ring: Some(typed(ebpf, "EVENTS")?),
            memory_bytes,
        })
    }

    /// Kernel memory of all maps, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// The entry of a process, if it has one.
    pub fn process(&self, tgid: u32) -> Option<Process> {
        self.processes.get(&tgid, 0).ok().map(|entry| entry.0)
    }

    /// Follows a process that was running before the probes were.
    pub fn follow(&mut self, tgid: u32) -> Result<(), MapError> {
        let entry =
            Process { flags: process::SEEN | process::FOLLOWED, ..self.process(tgid).unwrap_or_default() };
        self.jvms.insert(tgid, Shared(Jvm::default()), 0)?;
        self.processes.insert(tgid, Shared(entry), 0)
    }

    /// What a followed JVM did by now, as far as it is probed.
    pub fn work(&self, tgid: u32) -> Option<Work> {
        self.jvms.get(&tgid, 0).ok().map(|entry| entry.0.work)
    }

    /// Makes no more records of a process, but still one of its exit.
    pub fn unfollow(&mut self, tgid: u32) -> Result<(), MapError> {
        match self.process(tgid) {
            Some(entry) => self.processes.insert(tgid, Shared(Process { flags: process::SEEN, ..entry }), 0),
            None => Ok(()),
        }
    }

    /// Forgets a process that has exited, unless its id has been taken by another.
    pub fn forget(&mut self, tgid: u32, exec_ns: u64) {
        let same = |entry: Process| entry.exec_ns == exec_ns && entry.flags & process::SEEN != 0;
        if self.process(tgid).is_some_and(same) {
            // Gone already is as good.
            let _ = self.processes.remove(&tgid);
            let _ = self.jvms.remove(&tgid);
        }
    }

    /// Whether a record of this process being seen as a JVM was made.
    pub fn is_seen(&self, tgid: u32) -> bool {
        self.process(tgid).is_some_and(|entry| entry.flags & process::SEEN != 0)
    }

    /// Accounts a thread that was there before its process was followed, unless a probe already does.
    pub fn add_thread(&mut self, tid: u32, thread: Thread) -> Result<(), MapError> {
        const BPF_NOEXIST: u64 = 1;
        match self.threads.insert(tid, Shared(thread), BPF_NOEXIST) {
            Err(MapError::SyscallError(error)) if error.io_error.raw_os_error() == Some(libc::EEXIST) => {
                Ok(())
            }
            other => other,
        }
    }

    /// What was not reported yet of a thread.
    pub fn thread(&self, tid: u32) -> Option<Thread> {
        self.threads.get(&tid, 0).ok().map(|entry| entry.0)
    }

    /// Stops accounting a thread.
    pub fn remove_thread(&mut self, tid: u32) {
        // Gone already is as good.
        let _ = self.threads.remove(&tid);
    }

    /// Follows a connection that was open before its process was followed.
    pub fn add_socket(&mut self, tgid: u32, fd: i32, role: u32) -> Result<(), MapError> {
        let socket = Socket { role, ..Socket::default() };
        self.sockets.insert(Shared(SocketKey { tgid, fd }), Shared(socket), 0)
    }

    /// Stops following the connections of a process. Looks at every entry of the map.
    pub fn remove_sockets(&mut self, tgid: u32) {
        let keys: Vec<_> =
            self.sockets.keys().filter_map(Result::ok).filter(|key| key.0.tgid == tgid).collect();
        for key in keys {
            // Gone already is as good.
            let _ = self.sockets.remove(&key);
        }
    }

    /// Entries in use, by map. Looks at every entry of each.
    pub fn usage(&self) -> Usage {
        Usage {
            processes: self.processes.keys().count() as u64,
            threads: self.threads.keys().count() as u64,
            sockets: self.sockets.keys().count() as u64,
        }
    }

    /// What the probes counted so far.
    pub fn counters(&self) -> Counters {
        let mut sums = Counters::default();
        for &(counter, _) in Counter::ALL {
            if let Ok(values) = self.counters.get(&(counter as u32), 0) {
                sums.0[counter as usize] = values.iter().sum();
            }
        }
        sums
    }
}

pub(super) fn typed<T>(ebpf: &mut Ebpf, name: &'static str) -> Result<T, ProbeError>
where
    T: TryFrom<Map, Error = MapError>,
{
    let map = ebpf.take_map(name).expect("every name here is a map of the object");
    map.try_into().map_err(|source| ProbeError::Map { name, source })
}

pub(super) fn map_data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data) | Map::HashMap(data) | Map::PerCpuArray(data) | Map::RingBuf(data) => Some(data),
        _ => None,
    }
}

/// `memlock` of a map, bytes (kernel/bpf/syscall.c, `bpf_map_show_fdinfo`).
fn memlock(fd: i32) -> u64 {
    fdinfo(fd, "memlock").unwrap_or(0)
}

/// A number that the kernel tells of one of this process's own BPF fds.
pub(super) fn fdinfo(fd: i32, key: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok())
}
