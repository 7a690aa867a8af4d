//! Records of one process to the core's events. Payload ends here: only its meaning goes on.

mod address;
pub mod raw;

use std::collections::HashMap;

use agent_ebpf::{ReadyMany, Received, Sent};
use timeline::{Event, Opening, What, http::HeadParser, http::status, service};

use self::raw::{Record, text};

const EPOLLIN: u32 = 1;
const POLLIN: u16 = 1;
const EINPROGRESS: i32 = 115;

/// Decodes the records of one process; remembers what its connections have sent of a request so far.
#[derive(Default)]
pub struct Decoder {
    accepted: HashMap<i32, HeadParser>,
}

impl Decoder {
    /// Follows a connection that was accepted before the probes were there.
    pub fn adopt(&mut self, fd: i32) {
        self.accepted.insert(fd, HeadParser::default());
    }

    /// The events that a record tells; a poller's record may tell several, records of a process's life none.
    pub fn decode(&mut self, record: &Record, mut tell: impl FnMut(Event)) {
        let (head, what) = match record {
            Record::JvmSeen(_) => return,
            Record::ThreadNamed(r) => (r.head, What::ThreadNamed { name: text(&r.comm) }),
            Record::ThreadCpu(r) => (
                r.head,
                What::ThreadCpu { start_ns: r.start_ns, cpu_ns: r.cpu_ns, run_queue_ns: r.run_queue_ns },
            ),
            Record::ProcessExited(r) => (r.head, What::Exited { status: Some(r.status) }),
            Record::ProcessReplaced(head) => (*head, What::Exited { status: None }),
            Record::Listening(r) => (r.head, What::Listening { address: address::local(r) }),
            Record::Connecting(r) => (r.head, What::Connecting { socket: r.socket, peer: address::peer(r) }),
            Record::Established(r) => {
                (r.head, What::Established { socket: r.socket, local: address::local(r) })
            }
            Record::Disconnected(r) => (r.head, What::Disconnected { socket: r.socket }),
            Record::Connected(r) => {
                let errno = Some(-r.result).filter(|errno| *errno != 0 && *errno != EINPROGRESS);
                (r.head, What::Connected { fd: r.head.fd, errno })
            }
            Record::Accepted(r) => {
                self.accepted.insert(r.head.fd, HeadParser::default());
                (r.head, What::Accepted { fd: r.head.fd, peer: address::of(&r.peer) })
            }
            Record::Ready(head) => (*head, What::Ready { fd: head.fd }),
            Record::Received(r) => (r.head, self.received(r)),
            Record::Sent(r) => (r.head, self.sent(r)),
            Record::Closed(head) => {
                self.accepted.remove(&head.fd);
                (*head, What::Closed { fd: head.fd })
            }
            Record::EpollReady(r) => return self.ready_many(r, epoll_fds(r), tell),
            Record::PollReady(r) => return self.ready_many(r, poll_fds(r), tell),
        };
        tell(Event { at_ns: head.at_ns, tid: head.tid, what });
    }

    fn received(&mut self, record: &Received) -> What {
        let fd = record.head.fd;
        let data = captured(&record.data, record.captured);
        match self.accepted.get_mut(&fd) {
            Some(parser) => {
                let opening: Option<Opening> = parser.feed(data, record.bytes > record.captured);
                What::Received { fd, bytes: record.bytes, opening }
            }
            None => What::Answered { fd, service: service::of_received(data) },
        }
    }

    fn sent(&mut self, record: &Sent) -> What {
        let fd = record.head.fd;
        let data = captured(&record.data, record.captured);
        let Some(parser) = self.accepted.get_mut(&fd) else {
            return What::Sent { fd, bytes: record.bytes, status: None, service: service::of_sent(data) };
        };
        let status = status(data);
        // After an interim answer the rest of the same request comes (RFC 9110, section 15.2).
        if !status.is_some_and(|status| (100..200).contains(&status)) {
            parser.reset();
        }
        What::Sent { fd, bytes: record.bytes, status, service: None }
    }

    fn ready_many(&self, record: &ReadyMany, fds: impl Iterator<Item = i32>, mut tell: impl FnMut(Event)) {
        for fd in fds.filter(|fd| self.accepted.contains_key(fd)) {
            tell(Event { at_ns: record.head.at_ns, tid: record.head.tid, what: What::Ready { fd } });
        }
    }
}

fn captured(data: &[u8], captured: u32) -> &[u8] {
    &data[..data.len().min(captured as usize)]
}

/// fds with data in an array of `struct epoll_event`.
fn epoll_fds(record: &ReadyMany) -> impl Iterator<Item = i32> {
    let data_at = std::mem::offset_of!(libc::epoll_event, u64);
    captured(&record.data, record.captured).chunks_exact(size_of::<libc::epoll_event>()).filter_map(
        move |entry| {
            let events = u32::from_ne_bytes(entry.get(..4)?.try_into().ok()?);
            let fd = i32::from_ne_bytes(entry.get(data_at..data_at + 4)?.try_into().ok()?);
            (events & EPOLLIN != 0).then_some(fd)
        },
    )
}

/// fds with data in an array of `struct pollfd`: fd, events, revents.
fn poll_fds(record: &ReadyMany) -> impl Iterator<Item = i32> {
    captured(&record.data, record.captured).chunks_exact(size_of::<libc::pollfd>()).filter_map(|entry| {
        let fd = i32::from_ne_bytes(entry.get(..4)?.try_into().ok()?);
        let revents = u16::from_ne_bytes(entry.get(6..8)?.try_into().ok()?);
        (revents & POLLIN != 0).then_some(fd)
    })
}
