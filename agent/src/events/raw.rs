//! Bytes of the ring buffer to the records of the shared layout. Total: what is too short or of an unknown kind is
//! `None`, and counted by the caller.

use agent_ebpf::{
    Accepted, Account, Connected, Head, JvmSeen, Kind, ProcessExited, ReadyLong, ReadyMany, Received,
    ReceivedLong, Sent, SentHead, SentParts, TcpState, ThreadAccount, ThreadNamed, Worked, WorkedOn,
};

/// One record, by its [`Kind`].
#[expect(missing_docs, reason = "each is the kind of the same name")]
pub enum Record {
    JvmSeen(JvmSeen),
    ThreadNamed(ThreadNamed),
    ThreadAccount(ThreadAccount),
    ProcessExited(ProcessExited),
    ProcessReplaced(Head),
    Listening(TcpState),
    Connecting(TcpState),
    Established(TcpState),
    Disconnected(TcpState),
    Connected(Connected),
    Accepted(Accepted),
    Ready(Head),
    Received(Received),
    Sent(Sent),
    Closed(Head),
    EpollReady(ReadyMany),
    PollReady(ReadyMany),
    Handshake(TcpState),
    ReceivedLong(Box<ReceivedLong>),
    SentHead(SentHead),
    SentParts(Box<SentParts>),
    Asked(Sent),
    Answered(Sent),
    IoUring(Head),
    EpollReadyLong(Box<ReadyLong>),
    Worked(Worked),
    WorkedOn(WorkedOn),
}

impl Record {
    /// The account of a thread that made the record and goes on running, in records that have one.
    pub fn running(&self) -> Option<(Head, &Account)> {
        match self {
            Record::Received(r) => Some((r.head, &r.account)),
            Record::ReceivedLong(r) => Some((r.head, &r.account)),
            Record::Sent(r) | Record::Asked(r) | Record::Answered(r) => Some((r.head, &r.account)),
            Record::SentHead(r) => Some((r.head, &r.account)),
            Record::SentParts(r) => Some((r.head, &r.account)),
            _ => None,
        }
    }
}

/// A type of the shared layout that any bytes are a value of.
///
/// # Safety
/// Implementors are `repr(C)` and made of integers and arrays of integers only.
unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($ty:ty),+) => {
        // SAFETY: integers and arrays of integers, as declared in agent-ebpf.
        $(unsafe impl Plain for $ty {})+
    };
}
plain!(
    Head,
    JvmSeen,
    ThreadNamed,
    ThreadAccount,
    ProcessExited,
    TcpState,
    Connected,
    Accepted,
    Received,
    ReceivedLong,
    Sent,
    SentHead,
    SentParts,
    ReadyMany,
    ReadyLong,
    Worked,
    WorkedOn
);

fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    let bytes = bytes.get(..size_of::<T>())?;
    // SAFETY: as many bytes as T has, any of which make a T; read without regard to alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Decodes one record; its head comes along for those who only count.
pub fn decode(bytes: &[u8]) -> Option<(Head, Record)> {
    let head: Head = read(bytes)?;
    let record = match Kind::try_from(head.kind).ok()? {
        Kind::JvmSeen => Record::JvmSeen(read(bytes)?),
        Kind::ThreadNamed => Record::ThreadNamed(read(bytes)?),
        Kind::ThreadAccount => Record::ThreadAccount(read(bytes)?),
        Kind::ProcessExited => Record::ProcessExited(read(bytes)?),
        Kind::ProcessReplaced => Record::ProcessReplaced(head),
        Kind::Listening => Record::Listening(read(bytes)?),
        Kind::Connecting => Record::Connecting(read(bytes)?),
        Kind::Established => Record::Established(read(bytes)?),
        Kind::Disconnected => Record::Disconnected(read(bytes)?),
        Kind::Connected => Record::Connected(read(bytes)?),
        Kind::Accepted => Record::Accepted(read(bytes)?),
        Kind::Ready => Record::Ready(head),
        Kind::Received => Record::Received(read(bytes)?),
        Kind::Sent => Record::Sent(read(bytes)?),
        Kind::Closed => Record::Closed(head),
        Kind::EpollReady => Record::EpollReady(read(bytes)?),
        Kind::PollReady => Record::PollReady(read(bytes)?),
        Kind::Handshake => Record::Handshake(read(bytes)?),
        Kind::ReceivedLong => Record::ReceivedLong(Box::new(read(bytes)?)),
        Kind::SentHead => Record::SentHead(read(bytes)?),
        Kind::SentParts => Record::SentParts(Box::new(read(bytes)?)),
        Kind::Asked => Record::Asked(read(bytes)?),
        Kind::Answered => Record::Answered(read(bytes)?),
        Kind::IoUring => Record::IoUring(head),
        Kind::EpollReadyLong => Record::EpollReadyLong(Box::new(read(bytes)?)),
        Kind::Worked => Record::Worked(read(bytes)?),
        Kind::WorkedOn => Record::WorkedOn(read(bytes)?),
    };
    Some((head, record))
}

/// A kernel string: up to its NUL, with what is not UTF-8 replaced.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_kind_is_decoded_at_its_size_and_not_below() {
        for &kind in Kind::ALL {
            let mut bytes = vec![0u8; kind.size()];
            bytes[..4].copy_from_slice(&(kind as u32).to_ne_bytes());
            assert!(decode(&bytes).is_some(), "{kind:?}");
            assert!(decode(&bytes[..kind.size() - 1]).is_none(), "{kind:?}");
        }
        assert!(decode(&[0; 13_000]).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..13_000)) {
            let _ = decode(&bytes);
        }
    }
}
