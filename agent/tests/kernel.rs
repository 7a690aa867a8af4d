//! The probes on the running kernel: this process plays the JVM, and every record is accounted for.
//!
//! One test, since all tests of a binary share the process that the probes follow. It needs root.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::fd::AsRawFd as _,
    thread,
};

use agent::{
    events::raw::{self, Record},
    probes::{Maps, Probes},
};
use agent_ebpf::{Counter, Kind, PARTS, REQUEST_CAPTURE, SHORT_CAPTURE, part_capture};
use aya::maps::{MapData, RingBuf};

const REQUEST: &[u8] = b"GET /users/1 HTTP/1.1\r\nHost: x\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

struct Kernel {
    probes: Probes,
    maps: Maps,
    ring: RingBuf<MapData>,
    delivered: u64,
}

impl Kernel {
    /// The records that are there now, without those of scheduling.
    fn records(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        while let Some(bytes) = self.ring.next() {
            let (head, record) = raw::decode(&bytes).expect("agent and probes share their layout");
            if head.tgid != std::process::id() {
                continue; // A real JVM that starts meanwhile.
            }
            self.delivered += 1;
            if !matches!(record, Record::ThreadAccount(_)) {
                records.push(record);
            }
        }
        records
    }

    fn kinds(&mut self) -> Vec<Kind> {
        self.records().iter().map(kind).collect()
    }
}

fn kind(record: &Record) -> Kind {
    match record {
        Record::JvmSeen(r) => Kind::try_from(r.head.kind),
        Record::ThreadNamed(r) => Kind::try_from(r.head.kind),
        Record::ThreadAccount(r) => Kind::try_from(r.head.kind),
        Record::ProcessExited(r) => Kind::try_from(r.head.kind),
        Record::Listening(r)
        | Record::Handshake(r)
        | Record::Connecting(r)
        | Record::Established(r)
        | Record::Disconnected(r) => Kind::try_from(r.head.kind),
        Record::Connected(r) => Kind::try_from(r.head.kind),
        Record::Accepted(r) => Kind::try_from(r.head.kind),
        Record::Received(r) => Kind::try_from(r.head.kind),
        Record::ReceivedLong(r) => Kind::try_from(r.head.kind),
        Record::Sent(r) | Record::Asked(r) | Record::Answered(r) => Kind::try_from(r.head.kind),
        Record::SentHead(r) => Kind::try_from(r.head.kind),
        Record::SentParts(r) => Kind::try_from(r.head.kind),
        Record::EpollReady(r) | Record::PollReady(r) => Kind::try_from(r.head.kind),
        Record::EpollReadyLong(r) => Kind::try_from(r.head.kind),
        Record::Worked(r) => Kind::try_from(r.head.kind),
        Record::WorkedOn(r) => Kind::try_from(r.head.kind),
        Record::ProcessReplaced(head)
        | Record::Ready(head)
        | Record::Closed(head)
        | Record::IoUring(head) => Kind::try_from(head.kind),
    }
    .expect("it was decoded from one")
}

#[inline(never)]
fn take_the_name_of_a_vm_thread() {
    thread::Builder::new().name("VM Thread".to_owned()).spawn(|| {}).unwrap().join().unwrap();
}

fn poll_for_data(fd: i32) {
    let mut fds = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, on the stack.
    assert_eq!(unsafe { libc::poll(&raw mut fds, 1, 5_000) }, 1);
}

#[test]
fn every_record_is_made_once_and_accounted_for() {
    let (probes, maps, ring) = Probes::load(true).expect("this test needs root and a kernel with BTF");
    let mut kernel = Kernel { probes, maps, ring, delivered: 0 };

    take_the_name_of_a_vm_thread();
    let records = kernel.records();
    let [Record::JvmSeen(seen)] = records.as_slice() else { panic!("{:?}", kernel.kinds()) };
    assert_eq!(raw::text(&seen.comm), "VM Thread");
    assert_eq!(seen.exec_ns, 0, "this process was exec'd before the probes were there");
    take_the_name_of_a_vm_thread();
    assert_eq!(kernel.kinds(), [Kind::ThreadNamed], "a process is seen once");

    // The sentinel alone: a port, a connect; no bytes.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    assert_eq!(kernel.kinds(), [Kind::Listening]);
    kernel.probes.arm().unwrap();

    let mut client = TcpStream::connect(address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let kinds = kernel.kinds();
    assert_eq!(
        kinds,
        [Kind::Connecting, Kind::Established, Kind::Handshake, Kind::Connected, Kind::Accepted]
    );

    client.write_all(REQUEST).unwrap();
    poll_for_data(server.as_raw_fd());
    let mut buffer = [0; 4096];
    assert_eq!(server.read(&mut buffer).unwrap(), REQUEST.len());
    let records = kernel.records();
    let [Record::Asked(sent), Record::Ready(ready), Record::Received(received)] = records.as_slice() else {
        panic!("{:?}", records.iter().map(kind).collect::<Vec<_>>())
    };
    assert_eq!((sent.head.fd, ready.fd), (client.as_raw_fd(), server.as_raw_fd()));
    assert_eq!(&received.data[..received.captured as usize], REQUEST);
    assert!(ready.at_ns < received.head.at_ns);

    server.write_all(ANSWER).unwrap();
    server.write_all(b"more").unwrap();
    client.read_exact(&mut buffer[..ANSWER.len() + 4]).unwrap();
    client.write_all(REQUEST).unwrap();
    let records = kernel.records();
    let [Record::SentHead(answer), Record::Sent(more), Record::Answered(_), Record::Asked(_)] =
        records.as_slice()
    else {
        panic!("{:?}", records.iter().map(kind).collect::<Vec<_>>())
    };
    assert_eq!(&answer.data[..answer.captured as usize], ANSWER);
    assert_eq!((more.bytes, &more.data[..more.captured as usize]), (4, &b"more"[..]));

    // Nothing past the first bytes of a request is ever copied.
    client.write_all(&[b'x'; 6000]).unwrap();
    server.read_exact(&mut vec![0; REQUEST.len() + 6000]).unwrap();
    let captured: u32 = kernel
        .records()
        .iter()
        .map(|record| match record {
            Record::Received(r) => r.captured,
            Record::ReceivedLong(r) => r.captured,
            _ => 0,
        })
        .sum();
    assert_eq!(captured as usize, REQUEST_CAPTURE);

    let pipe = std::io::pipe().unwrap();
    drop(pipe);
    assert_eq!(kernel.kinds(), [], "fds that are no connections make no records");
    drop(server);
    assert_eq!(kernel.kinds(), [Kind::Closed]);

    speaks_frames(&mut kernel, &listener);
    speaks_tls(&mut kernel, &listener);
    what_is_not_read_as_bytes(&mut kernel, &listener);

    let process = kernel.maps.process(std::process::id()).unwrap();
    assert_eq!((process.produced, process.dropped), (kernel.delivered, 0));

    // Loss is counted: more than the ring buffer holds, while nobody reads it.
    let (mut server, mut client) = {
        let client = TcpStream::connect(address).unwrap();
        (listener.accept().unwrap().0, client)
    };
    for _ in 0..10_000 {
        client.write_all(REQUEST).unwrap();
        server.read_exact(&mut buffer[..REQUEST.len()]).unwrap();
        server.write_all(b"x").unwrap();
        client.read_exact(&mut buffer[..1]).unwrap();
    }
    kernel.probes.disarm();
    kernel.records();
    let process = kernel.maps.process(std::process::id()).unwrap();
    assert!(process.dropped > 1_000, "{} of {} dropped", process.dropped, process.produced);
    assert_eq!(process.produced, kernel.delivered + process.dropped);
    assert!(kernel.maps.counters().get(Counter::RingFull) >= process.dropped);
    assert_eq!(kernel.probes.misses(), 0);

    kernel.maps.unfollow(std::process::id()).unwrap();
    client.write_all(REQUEST).unwrap();
    take_the_name_of_a_vm_thread();
    assert_eq!(kernel.kinds(), [], "what is not followed makes no records");
}

/// A connection to ourselves; what makes it is forgotten.
fn connection(kernel: &mut Kernel, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = listener.accept().unwrap().0;
    kernel.records();
    (client, server)
}

fn speaks_frames(kernel: &mut Kernel, listener: &TcpListener) {
    let (mut client, mut server) = connection(kernel, listener);
    let mut read = |bytes: &[u8]| {
        client.write_all(bytes).unwrap();
        server.read_exact(&mut vec![0; bytes.len()]).unwrap();
    };
    read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    read(&[b'f'; 3000]);
    read(&[b'f'; 3000]);
    let records = kernel.records();
    let captured = records.iter().filter_map(|record| match record {
        Record::Received(r) => Some(r.captured),
        Record::ReceivedLong(r) => Some(r.captured),
        _ => None,
    });
    assert_eq!(captured.collect::<Vec<_>>(), [24, 3000, 3000], "each read's first bytes");

    for (count, length) in [(1, 300), (3, 300), (7, 300), (20, 300), (200, 300), (60, 20), (120, 8), (40, 50)]
    {
        let buffers: Vec<Vec<u8>> = (1..=count).map(|n| vec![u8::try_from(n).unwrap(); length]).collect();
        let slices: Vec<_> = buffers.iter().map(|buffer| std::io::IoSlice::new(buffer)).collect();
        assert_eq!(server.write_vectored(&slices).unwrap(), count * length);
        let records = kernel.records();
        let [Record::SentParts(sent)] = records.as_slice() else {
            panic!("{:?}", records.iter().map(kind).collect::<Vec<_>>())
        };
        assert_eq!((sent.parts as usize, sent.bytes as usize), (count, count * length));
        if count == 1 {
            assert_eq!(sent.data[..length], buffers[0]);
            continue;
        }
        assert!(sent.lengths.iter().take(count).all(|len| *len as usize == length));
        let most = part_capture(count, count * length).min(length);
        let copied = sent.data.chunks(most).zip(&buffers).take(PARTS).enumerate();
        for (index, (data, buffer)) in copied.take_while(|(index, _)| (index + 1) * most <= sent.data.len()) {
            let has_room = index * most + part_capture(count, count * length) <= sent.data.len();
            assert!(!has_room || data == &buffer[..most], "part {index} of {count}");
        }
    }
    drop((client, server));
    kernel.records();
}

fn speaks_tls(kernel: &mut Kernel, listener: &TcpListener) {
    let (mut client, mut server) = connection(kernel, listener);
    let mut read = |bytes: &[u8]| {
        client.write_all(bytes).unwrap();
        server.read_exact(&mut vec![0; bytes.len()]).unwrap();
    };
    let mut hello = vec![0x16, 3, 1, 7, 0xd0];
    hello.resize(2005, 0);
    read(&hello);
    read(&[0x17; 2000]);
    read(&[0x17; 2000]);
    let records = kernel.records();
    let captured = records.iter().filter_map(|record| match record {
        Record::Received(r) => Some(r.captured as usize),
        Record::ReceivedLong(r) => Some(r.captured as usize),
        _ => None,
    });
    assert_eq!(captured.collect::<Vec<_>>(), [2005, SHORT_CAPTURE, SHORT_CAPTURE]);
    drop((client, server));
    kernel.records();
}

fn what_is_not_read_as_bytes(kernel: &mut Kernel, listener: &TcpListener) {
    let (client, server) = connection(kernel, listener);
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    // SAFETY: fds of this function, and no offset.
    let sent = unsafe { libc::sendfile(server.as_raw_fd(), file.as_raw_fd(), std::ptr::null_mut(), 1000) };
    assert_eq!(sent, 1000);
    let records = kernel.records();
    let [Record::Sent(sent)] = records.as_slice() else {
        panic!("{:?}", records.iter().map(kind).collect::<Vec<_>>())
    };
    assert_eq!((sent.bytes, sent.captured), (1000, 0), "a file's bytes are only counted");
    drop((client, server));
    kernel.records();

    let dir = tempfile::tempdir().unwrap();
    let unix = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    let client = std::os::unix::net::UnixStream::connect(dir.path().join("socket")).unwrap();
    let (mut server, _) = unix.accept().unwrap();
    server.write_all(b"x").unwrap();
    let records = kernel.records();
    let [Record::Accepted(accepted)] = records.as_slice() else {
        panic!("{:?}", records.iter().map(kind).collect::<Vec<_>>())
    };
    assert_eq!(accepted.peer[..2], 1u16.to_ne_bytes(), "AF_UNIX");
    drop((client, server));
    assert_eq!(kernel.kinds(), [], "what is said on it is not looked at");

    let mut parameters = [0u8; 120];
    // SAFETY: `struct io_uring_params` has 120 bytes, all zero here.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    let expect = if ring >= 0 { vec![Kind::IoUring] } else { Vec::new() };
    assert_eq!(kernel.kinds(), expect, "io_uring_setup returned {ring}");
    if let Ok(fd) = i32::try_from(ring)
        && fd >= 0
    {
        // SAFETY: an fd that nobody else has.
        unsafe { libc::close(fd) };
    }
}
