//! Records of one process to the core's events. Payload ends here: only its meaning goes on.

pub mod account;
mod address;
mod conversation;
pub mod raw;
pub mod work;

use std::collections::HashMap;

use agent_ebpf::{Head, PARTS, SentParts, part_capture};
use timeline::{
    Event, What,
    wire::{Piece, Protocol, Wire},
};

use self::{
    conversation::Conversation,
    raw::{Record, text},
};

const EPOLLIN: u32 = 1;
const POLLIN: u16 = 1;
const EINPROGRESS: i32 = 115;
const AF_UNIX: u16 = 1;

/// Decodes the records of one process; remembers what its connections have said so far.
#[derive(Default)]
pub struct Decoder {
    accepted: HashMap<i32, Wire>,
    outbound: HashMap<i32, Conversation>,
}

impl Decoder {
    /// Follows a connection that was accepted before the probes were there.
    pub fn adopt(&mut self, fd: i32) {
        self.accepted.insert(fd, Wire::adopted());
    }

    /// Records were lost: where bodies end is not known any more.
    pub fn lost(&mut self) {
        for wire in self.accepted.values_mut() {
            *wire = Wire::adopted();
        }
    }

    /// The events that a record tells, in order; records of a process's life tell none.
    pub fn decode(&mut self, record: &Record, mut tell: impl FnMut(Event)) {
        if let Some((head, raw)) = record.running()
            && let Some(account) = account::of(raw)
        {
            let what = What::ThreadAccount { account, leaving: None };
            tell(Event { at_ns: head.at_ns, tid: head.tid, what });
        }
        let (head, what) = match record {
            Record::JvmSeen(_) => return,
            Record::Worked(r) => return work::worked(r, tell),
            Record::WorkedOn(r) => return work::worked_on(r, tell),
            Record::ThreadNamed(r) => (r.head, What::ThreadNamed { name: text(&r.comm) }),
            Record::ThreadAccount(r) => {
                let Some(account) = account::of(&r.account) else { return };
                (r.head, What::ThreadAccount { account, leaving: Some(account::cause(r.account.leaving)) })
            }
            Record::ProcessExited(r) => (r.head, What::Exited { status: Some(r.status) }),
            Record::ProcessReplaced(head) => (*head, What::Exited { status: None }),
            Record::Listening(r) => (r.head, What::Listening { address: address::local(r) }),
            Record::Handshake(r) => {
                (r.head, What::Handshake { local: address::local(r), peer: address::peer(r) })
            }
            Record::Connecting(r) => (r.head, What::Connecting { socket: r.socket, peer: address::peer(r) }),
            Record::Established(r) => {
                (r.head, What::Established { socket: r.socket, local: address::local(r) })
            }
            Record::Disconnected(r) => {
                let errno = Some(i32::from(r.error)).filter(|errno| *errno != 0);
                (r.head, What::Disconnected { socket: r.socket, errno })
            }
            Record::Connected(r) => {
                let errno = Some(-r.result).filter(|errno| *errno != 0 && *errno != EINPROGRESS);
                self.outbound.insert(r.head.fd, Conversation::default());
                (r.head, What::Connected { fd: r.head.fd, errno })
            }
            Record::Accepted(r) => {
                let unix = u16::from_ne_bytes([r.peer[0], r.peer[1]]) == AF_UNIX;
                if !unix {
                    self.accepted.insert(r.head.fd, Wire::default());
                }
                (r.head, What::Accepted { fd: r.head.fd, peer: address::of(&r.peer), unix })
            }
            Record::Ready(head) => (*head, What::Ready { fd: head.fd }),
            Record::Received(r) => (
                r.head,
                self.received(r.head, r.arrived_ns, (r.bytes, captured(&r.data, r.captured)), &mut tell),
            ),
            Record::ReceivedLong(r) => (
                r.head,
                self.received(r.head, r.arrived_ns, (r.bytes, captured(&r.data, r.captured)), &mut tell),
            ),
            Record::Sent(r) => (r.head, self.sent_one(r.head.fd, r.bytes, captured(&r.data, r.captured))),
            Record::SentHead(r) => (r.head, self.sent_one(r.head.fd, r.bytes, captured(&r.data, r.captured))),
            Record::SentParts(r) => (r.head, self.sent(r.head.fd, r.bytes, &parts(r))),
            Record::Asked(r) => {
                let conversation = self.outbound.entry(r.head.fd).or_default();
                (r.head, conversation.asked(r.head.fd, captured(&r.data, r.captured)))
            }
            Record::Answered(r) => {
                let conversation = self.outbound.entry(r.head.fd).or_default();
                (r.head, conversation.answered(r.head.fd, captured(&r.data, r.captured)))
            }
            Record::Closed(head) => {
                self.accepted.remove(&head.fd);
                self.outbound.remove(&head.fd);
                (*head, What::Closed { fd: head.fd })
            }
            Record::IoUring(head) => (*head, What::IoUring),
            Record::EpollReady(r) => {
                return self.ready_many(r.head, epoll_fds(captured(&r.data, r.captured)), tell);
            }
            Record::EpollReadyLong(r) => {
                return self.ready_many(r.head, epoll_fds(captured(&r.data, r.captured)), tell);
            }
            Record::PollReady(r) => {
                return self.ready_many(r.head, poll_fds(captured(&r.data, r.captured)), tell);
            }
        };
        tell(Event { at_ns: head.at_ns, tid: head.tid, what });
    }

    fn received(
        &mut self,
        Head { fd, tid, at_ns, .. }: Head,
        arrived_ns: u64,
        (bytes, captured): (u32, &[u8]),
        tell: &mut impl FnMut(Event),
    ) -> What {
        const MULTIPLEXED: Option<Protocol> = Some(Protocol::Tls { may_multiplex: true });
        let wire = self.accepted.entry(fd).or_default();
        let before = wire.protocol();
        let timeline::wire::Received { openings, continues, undecided } =
            wire.received(Piece { captured, len: bytes });
        if wire.protocol() == MULTIPLEXED && before != MULTIPLEXED {
            tell(Event { at_ns, tid, what: What::MayMultiplex { fd } });
        }
        let arrived_ns = Some(arrived_ns).filter(|arrived_ns| *arrived_ns != 0);
        What::Received { fd, bytes, arrived_ns, openings, continues, undecided }
    }

    fn sent_one(&mut self, fd: i32, bytes: u32, captured: &[u8]) -> What {
        self.sent(fd, bytes, &[Piece { captured, len: bytes }])
    }

    fn sent(&mut self, fd: i32, bytes: u32, pieces: &[Piece<'_>]) -> What {
        let answers = self.accepted.entry(fd).or_default().sent(pieces);
        What::Sent { fd, bytes, answers }
    }

    fn ready_many(&self, head: Head, fds: impl Iterator<Item = i32>, mut tell: impl FnMut(Event)) {
        for fd in fds.filter(|fd| self.accepted.contains_key(fd)) {
            tell(Event { at_ns: head.at_ns, tid: head.tid, what: What::Ready { fd } });
        }
    }
}

fn captured(data: &[u8], captured: u32) -> &[u8] {
    &data[..data.len().min(captured as usize)]
}

/// The parts of a write, as far as it went.
fn parts(record: &SentParts) -> Vec<Piece<'_>> {
    let (count, mut rest) = (record.parts as usize, record.bytes);
    if count <= 1 {
        return vec![Piece { captured: captured(&record.data, rest), len: rest }];
    }
    let most = part_capture(count, rest as usize);
    let mut data = record.data.as_slice();
    let mut parts = Vec::with_capacity(count.min(PARTS) + 1);
    for &length in record.lengths.iter().take(count) {
        let len = length.min(rest);
        let copied = if data.len() < most { 0 } else { most.min(length as usize) };
        let (own, behind) = data.split_at(copied);
        data = behind;
        if len > 0 {
            parts.push(Piece { captured: captured(own, len), len });
        }
        rest -= len;
    }
    if rest > 0 {
        parts.push(Piece { captured: &[], len: rest });
    }
    parts
}

/// fds with data in an array of `struct epoll_event`.
fn epoll_fds(array: &[u8]) -> impl Iterator<Item = i32> {
    let data_at = std::mem::offset_of!(libc::epoll_event, u64);
    array.chunks_exact(size_of::<libc::epoll_event>()).filter_map(move |entry| {
        let events = u32::from_ne_bytes(entry.get(..4)?.try_into().ok()?);
        let fd = i32::from_ne_bytes(entry.get(data_at..data_at + 4)?.try_into().ok()?);
        (events & EPOLLIN != 0).then_some(fd)
    })
}

/// fds with data in an array of `struct pollfd`: fd, events, revents.
fn poll_fds(array: &[u8]) -> impl Iterator<Item = i32> {
    array.chunks_exact(size_of::<libc::pollfd>()).filter_map(|entry| {
        let fd = i32::from_ne_bytes(entry.get(..4)?.try_into().ok()?);
        let revents = u16::from_ne_bytes(entry.get(6..8)?.try_into().ok()?);
        (revents & POLLIN != 0).then_some(fd)
    })
}
