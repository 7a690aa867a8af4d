//! A TLS connection, told by the types and lengths of its records (RFC 8446, section 5; RFC 5246, section 6).
//!
//! A request is client data that the server answers with data. HTTP pipelining, and an answer that begins before its
//! request's body has ended, cannot be told from requests one after the other. The streams of HTTP/2 inside TLS
//! cannot either: [`Tls::may_multiplex`] says whether the client offered it.

mod hello;
mod record;

use super::{Answer, Loss, Opening, Piece, Received, bytes::Bytes};
use hello::Hello;
use record::{Kind, Records, Step};

/// Longest record that is too short for anything but an alert or a key update (TLS 1.3).
const ALERT_MAX: u16 = 22;
/// Longest client record that opens no request: an HTTP/1.1 request has 27 bytes, and 16 are added at least.
const NO_REQUEST_MAX: u16 = 41;
/// Longest server record that begins no answer: a status line and an empty one are 17 bytes.
const NO_ANSWER_MAX: u16 = 32;
/// Lengths of a record with TLS 1.3's Finished alone: SHA-256, SHA-384, and SHA-256 with a short tag.
const FINISHED: [u16; 3] = [53, 69, 45];
/// Longest handshake record behind a ChangeCipherSpec that is a Finished (TLS 1.2), and no second ClientHello.
const FINISHED_12_MAX: u16 = 128;
/// Longest record that may be a ticket.
const TICKET_MAX: u16 = 4096;

/// The handshake, and whose turn it is after it.
#[derive(Debug, Default)]
pub(super) struct Tls {
    client: Records,
    server: Records,
    hello: Hello,
    stage: Stage,
    turn: Turn,
    tickets: Tickets,
    /// TLS 1.2 or older: only data is of the type that data has.
    old: bool,
    /// The client has changed to encryption.
    changed_cipher: bool,
    /// No record of the client's last flight began in this read yet.
    new_read: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The server has not spoken.
    #[default]
    Hello,
    /// The server has.
    Handshake,
    /// TLS 1.3: the client's last flight has begun; its records, in so many reads.
    Flight(u8),
    Established,
}

/// Who spoke last, after the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    Nobody,
    Client,
    Server,
}

/// What the server sends right after a TLS 1.3 handshake may be tickets, all of one length.
#[derive(Debug, Default)]
struct Tickets {
    closed: bool,
    length: Option<u16>,
    /// What was taken for a ticket may have been the answer.
    doubtful: bool,
}

impl Tls {
    /// A connection whose handshake nobody saw.
    pub fn adopted() -> Self {
        Self {
            stage: Stage::Established,
            tickets: Tickets { closed: true, ..Tickets::default() },
            hello: Hello::unseen(),
            ..Self::default()
        }
    }

    /// Whether the client offered HTTP/2, or may have.
    pub fn may_multiplex(&self) -> bool {
        self.hello.may_offer_http2()
    }

    pub fn received(&mut self, mut bytes: Bytes<'_>, received: &mut Received) {
        self.new_read = true;
        let mut rest = true;
        self.client.resume(bytes);
        while let Some(step) = self.client.next(&mut bytes) {
            match step {
                Step::Begins(kind, length) => self.client_record(kind, length, received),
                Step::Payload { first: true, bytes: [first, ..], .. }
                    if self.client.kind == Kind::Handshake
                        && self.stage != Stage::Hello
                        && *first != hello::CLIENT_HELLO =>
                {
                    // In TLS 1.3 a client's only handshake record in the clear is its ClientHello.
                    self.old |= !self.changed_cipher;
                }
                Step::Payload { bytes, .. } if self.client.kind == Kind::Handshake => self.hello.take(bytes),
                // Of a record whose header an earlier read held.
                Step::Payload { .. } => {
                    received.continues |= rest && self.turn != Turn::Nobody && self.client.length > ALERT_MAX;
                }
                Step::Lost => {
                    self.hello.close();
                    if !self.old && matches!(self.stage, Stage::Flight(_)) {
                        lost(Loss::TlsHandshake, received);
                    }
                }
            }
            rest = false;
        }
    }

    fn client_record(&mut self, kind: Kind, length: u16, received: &mut Received) {
        match (kind, self.stage) {
            (Kind::Handshake, _) => {
                self.old |= self.changed_cipher && length <= FINISHED_12_MAX;
                open(Opening::Handshake, received);
            }
            (Kind::ChangeCipherSpec, _) => {
                self.changed_cipher = true;
                open(Opening::Handshake, received);
            }
            (Kind::Alert | Kind::Heartbeat, _) => {}
            (Kind::Data, _) if self.old => self.client_data(length, received),
            (Kind::Data, Stage::Established) => self.client_data(length, received),
            // Early data, which no JDK accepts.
            (Kind::Data, Stage::Hello) => open(Opening::Handshake, received),
            (Kind::Data, Stage::Handshake | Stage::Flight(_)) => {
                self.stage = match self.stage {
                    _ if FINISHED.contains(&length) => Stage::Established,
                    Stage::Flight(reads) => Stage::Flight(reads.saturating_add(self.new_read.into())),
                    _ => Stage::Flight(1),
                };
                self.new_read = false;
                open(Opening::Handshake, received);
            }
        }
    }

    fn client_data(&mut self, length: u16, received: &mut Received) {
        self.stage = Stage::Established;
        if length <= ALERT_MAX || (self.turn != Turn::Client && length <= NO_REQUEST_MAX) {
            return;
        }
        if self.turn == Turn::Client {
            received.continues |= received.openings.is_empty();
            if length > NO_REQUEST_MAX && std::mem::take(&mut self.tickets.doubtful) {
                lost(Loss::TlsTicket, received);
            }
            return;
        }
        self.turn = Turn::Client;
        received.openings.push(Opening::Encrypted);
    }

    pub fn sent(&mut self, pieces: &[Piece<'_>]) -> Vec<Answer> {
        let mut answers = Vec::new();
        self.hello.close();
        let total: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
        let mut first = true;
        for piece in pieces {
            let mut bytes = Bytes::of(*piece);
            self.server.resume(bytes);
            while let Some(step) = self.server.next(&mut bytes) {
                match step {
                    Step::Begins(kind, length) => {
                        let alone = first && total.is_multiple_of(u64::from(length) + 5);
                        self.server_record(kind, length, alone, &mut answers);
                    }
                    _ if !first || self.server.kind != Kind::Data => {}
                    // The rest of a record, or where it begins is not known.
                    Step::Payload { .. } if !self.server.lost => self.more(&mut answers),
                    Step::Payload { .. } | Step::Lost => self.server_data(u16::MAX, false, &mut answers),
                }
                first = false;
            }
        }
        answers
    }

    /// `alone` says that the write may consist of nothing but records of this length.
    fn server_record(&mut self, kind: Kind, length: u16, alone: bool, answers: &mut Vec<Answer>) {
        if self.stage == Stage::Hello {
            self.stage = Stage::Handshake;
        }
        match (kind, self.stage) {
            (Kind::Handshake | Kind::ChangeCipherSpec, _) => say(Answer::Handshake, answers),
            (Kind::Alert | Kind::Heartbeat, _) => {}
            (Kind::Data, Stage::Hello | Stage::Handshake) if !self.old => say(Answer::Handshake, answers),
            (Kind::Data, Stage::Flight(reads)) if !self.old => {
                self.stage = Stage::Established;
                self.tickets.length = Some(length);
                // What came in another read may have been a request.
                if reads > 1 {
                    answers.push(Answer::Lost { reason: Loss::TlsHandshake });
                }
                say(Answer::Handshake, answers);
            }
            (Kind::Data, _) => self.server_data(length, alone, answers),
        }
    }

    fn server_data(&mut self, length: u16, alone: bool, answers: &mut Vec<Answer>) {
        if length <= ALERT_MAX || (self.turn != Turn::Server && length <= NO_ANSWER_MAX) {
            return;
        }
        let ticket = match self.turn {
            Turn::Nobody => {
                self.tickets.length = Some(length);
                true
            }
            Turn::Client => self.is_ticket(length, alone),
            Turn::Server => return self.more(answers),
        };
        if ticket {
            return say(Answer::Handshake, answers);
        }
        self.tickets = Tickets { closed: true, ..Tickets::default() };
        self.turn = Turn::Server;
        answers.push(Answer::Begins { stream: None, status: None, streaming: false });
    }

    fn is_ticket(&mut self, length: u16, alone: bool) -> bool {
        let tickets = &mut self.tickets;
        if self.old || tickets.closed || !alone || length > TICKET_MAX {
            return false;
        }
        if let Some(other) = tickets.length {
            // Two of one length are no answers.
            tickets.doubtful &= other != length;
            return other == length;
        }
        tickets.doubtful = self.hello.may_take_tickets();
        tickets.length = Some(length).filter(|_| tickets.doubtful);
        tickets.doubtful
    }

    fn more(&self, answers: &mut Vec<Answer>) {
        if self.turn == Turn::Server && answers.is_empty() {
            answers.push(Answer::Continues);
        }
    }
}

/// Opens it, once in a read.
fn open(opening: Opening, received: &mut Received) {
    if !received.openings.contains(&opening) {
        received.openings.push(opening);
    }
}

fn lost(reason: Loss, received: &mut Received) {
    open(Opening::Lost { reason }, received);
}

/// Says it, once in a write.
fn say(answer: Answer, answers: &mut Vec<Answer>) {
    if !answers.contains(&answer) {
        answers.push(answer);
    }
}
