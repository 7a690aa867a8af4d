//! One accepted connection: which bytes belong to which request.

use std::collections::VecDeque;

use super::{
    Read,
    open::{Begin, Ended, Line, Open, RequestId, Touch},
};
use crate::{
    requests::{Admitted, Requests},
    wire::{Answer, Loss, Opening},
};

/// Requests that may be open on one connection.
const OPEN_MAX: usize = 1024;

/// What a connection speaks, by what it said last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    #[default]
    Unknown,
    Http1,
    Http2,
    Tls,
    /// TLS, perhaps with HTTP/2 inside.
    TlsMultiplexed,
    Upgraded,
    Unix,
}

impl Protocol {
    /// The word for it at a request.
    pub fn of_request(self) -> &'static str {
        if self == Protocol::TlsMultiplexed { Protocol::Tls.as_str() } else { self.as_str() }
    }

    /// The word for it at accepted connections.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Unknown => "unknown",
            Protocol::Http1 => "http/1.1",
            Protocol::Http2 => "h2",
            Protocol::Tls => "tls",
            Protocol::TlsMultiplexed => "tls (h2 offered)",
            Protocol::Upgraded => "websocket",
            Protocol::Unix => "unix",
        }
    }
}

/// What is known of a connection as a whole.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub ordinal: u64,
    pub protocol: Protocol,
    /// The client is this process.
    pub itself: bool,
    /// The client is in the pod's own network namespace.
    pub neighbour: bool,
}

#[derive(Debug, Default)]
pub(super) struct Connection {
    pub facts: Facts,
    /// Who accepted it, until the first request has begun.
    accepted: Option<Touch>,
    /// Handshake → accepted, until the first request takes it.
    accept_wait_ns: Option<u64>,
    /// Who said that data is there.
    ready: Option<Touch>,
    /// Bytes were read that do not tell yet what they open.
    head: Option<Begin>,
    /// In the order in which they are answered; streams of HTTP/2 in any.
    open: VecDeque<Open>,
    last_sent_ns: u64,
    /// Nothing that comes is a request.
    over: bool,
}

/// What bytes led to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub ended: Vec<Ended>,
    /// Requests that got their number, and when their data was ready.
    pub begun: Vec<(Admitted, u64)>,
    pub lost: Vec<Loss>,
    /// The request that the thread works on now.
    pub works_on: Option<RequestId>,
}

/// What the connection needs of others.
pub(super) struct Context<'a> {
    pub requests: &'a mut Requests,
    pub next_id: &'a mut RequestId,
    pub before_ready: bool,
}

impl Connection {
    pub fn new(facts: Facts, accepted: Touch, accept_wait_ns: Option<u64>) -> Self {
        Self { facts, accepted: Some(accepted), accept_wait_ns, ..Self::default() }
    }

    pub fn ready(&mut self, touch: Touch) {
        // More of a body is no new request's data, but nobody knows before it is read.
        self.ready.get_or_insert(touch);
    }

    pub fn received(
        &mut self,
        touch: Touch,
        Read { arrived_ns, openings, continues, undecided }: Read<'_>,
        context: &mut Context<'_>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if self.over {
            return outcome;
        }
        let ready = self.ready.take().filter(|ready| ready.at_ns <= touch.at_ns);
        let begin = Begin::of(arrived_ns, self.accepted.take(), ready, touch);
        if continues && let Some(open) = self.current() {
            open.touch(touch);
            outcome.works_on = Some(open.id);
        }
        let mut held = self.head.take();
        for opening in openings {
            self.opens(opening, held.take().unwrap_or(begin), context, &mut outcome);
        }
        if undecided {
            self.head = held.or(Some(begin));
        }
        outcome
    }

    fn opens(&mut self, opening: &Opening, begin: Begin, context: &mut Context<'_>, outcome: &mut Outcome) {
        let (stream, line, protocol) = match opening {
            Opening::Request { stream, method, route, prober } => {
                let line = Line::Read { method: method.clone(), route: route.clone(), prober: *prober };
                (*stream, line, if stream.is_some() { Protocol::Http2 } else { Protocol::Http1 })
            }
            Opening::Unparsed => (None, Line::Unparsed, self.facts.protocol),
            Opening::Encrypted => {
                // More data of a request that is not answered is part of it.
                if let Some(open) = self.open.back_mut().filter(|open| open.sent_ns.is_none()) {
                    open.touch(begin.read());
                    outcome.works_on = Some(open.id);
                    return;
                }
                (None, Line::Encrypted, self.facts.protocol.max(Protocol::Tls))
            }
            Opening::Handshake => {
                self.facts.protocol = self.facts.protocol.max(Protocol::Tls);
                return;
            }
            &Opening::Reset { stream } => {
                self.ends(stream, begin.read().at_ns, outcome);
                return;
            }
            Opening::Lost { reason } => {
                outcome.lost.push(*reason);
                return;
            }
        };
        self.facts.protocol = protocol;
        if self.open.len() >= OPEN_MAX {
            outcome.lost.push(Loss::Uncaptured);
            self.pop(begin.read().at_ns, outcome);
        }
        *context.next_id += 1;
        let mut open = Open::new(*context.next_id, stream, line, begin);
        // A pipelined request counts when its turn has come, one that cannot be read when it is answered.
        let its_turn = stream.is_some() || self.open.iter().all(|before| before.sent_ns.is_some());
        if its_turn && matches!(open.line, Line::Read { .. }) {
            outcome.begun.extend(open.admit(self.facts.is_itself(context.before_ready), context.requests));
        }
        if its_turn {
            outcome.works_on = Some(open.id);
        }
        self.open.push_back(open);
    }

    pub fn sent(&mut self, touch: Touch, answers: &[Answer], context: &mut Context<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        for answer in answers {
            if self.over {
                break;
            }
            match answer {
                Answer::Opens(opening) => {
                    let begin = self.head.take().unwrap_or(Begin::of(None, None, None, touch));
                    self.opens(opening, begin, context, &mut outcome);
                }
                &Answer::Begins { stream, status, streaming } => {
                    self.begins(touch, stream, status, streaming, context, &mut outcome);
                }
                Answer::Interim => {
                    if let Some(open) = self.current() {
                        open.touch(touch);
                    }
                }
                Answer::Continues => {
                    if let Some(open) = self.current().filter(|open| open.sent_ns.is_some()) {
                        open.answered(touch, None);
                    }
                }
                &Answer::Ends { stream, .. } => {
                    if let Some(open) = self.open.iter_mut().find(|open| open.stream == Some(stream)) {
                        open.answered(touch, None);
                    }
                    self.ends(stream, touch.at_ns, &mut outcome);
                }
                &Answer::Health { stream, serving } => {
                    if let Some(open) = self.open.iter_mut().find(|open| open.stream == Some(stream)) {
                        open.serving = Some(serving);
                    }
                }
                Answer::Handshake => {}
                Answer::Upgraded => {
                    if let Some(open) = self.current() {
                        open.answered(touch, Some(101));
                    }
                    self.pop(touch.at_ns, &mut outcome);
                    (self.over, self.facts.protocol) = (true, Protocol::Upgraded);
                }
                Answer::BecomesStream { stream } => {
                    self.facts.protocol = Protocol::Http2;
                    if let Some(open) = self.current() {
                        open.stream = Some(*stream);
                    }
                }
                Answer::Lost { reason } => {
                    outcome.lost.push(*reason);
                    self.end_streams(touch.at_ns, &mut outcome);
                }
            }
        }
        self.last_sent_ns = touch.at_ns;
        outcome
    }

    /// The first bytes of an answer.
    fn begins(
        &mut self,
        touch: Touch,
        stream: Option<u32>,
        status: Option<u16>,
        streaming: bool,
        context: &mut Context<'_>,
        outcome: &mut Outcome,
    ) {
        // One whose answer has begun has had it when the next one's begins.
        if stream.is_none() && self.open.len() > 1 && self.open[0].sent_ns.is_some() {
            self.pop(touch.at_ns, outcome);
        }
        let itself = self.facts.is_itself(context.before_ready);
        let Some(open) = self.open.iter_mut().find(|open| open.stream == stream) else { return };
        outcome.begun.extend(open.admit(itself, context.requests));
        open.answered(touch, status);
        if streaming {
            open.streaming = true;
            let id = open.id;
            self.remove(id, touch.at_ns, outcome);
        }
    }

    /// The request that is being answered, or waits for it.
    fn current(&mut self) -> Option<&mut Open> {
        self.open.front_mut()
    }

    pub fn find(&mut self, id: RequestId) -> Option<&mut Open> {
        self.open.iter_mut().find(|open| open.id == id)
    }

    pub fn open(&self) -> impl Iterator<Item = &Open> {
        self.open.iter()
    }

    fn pop(&mut self, at_ns: u64, outcome: &mut Outcome) {
        if let Some(id) = self.open.front().map(|open| open.id) {
            self.remove(id, at_ns, outcome);
        }
    }

    fn ends(&mut self, stream: u32, at_ns: u64, outcome: &mut Outcome) {
        if let Some(id) = self.open.iter().find(|open| open.stream == Some(stream)).map(|open| open.id) {
            self.remove(id, at_ns, outcome);
        }
    }

    /// Ends the streams whose answers have begun: their ends may be among what was lost.
    fn end_streams(&mut self, at_ns: u64, outcome: &mut Outcome) {
        let begun = |open: &&Open| open.stream.is_some() && open.sent_ns.is_some();
        for id in self.open.iter().filter(begun).map(|open| open.id).collect::<Vec<_>>() {
            self.remove(id, at_ns, outcome);
        }
    }

    fn remove(&mut self, id: RequestId, at_ns: u64, outcome: &mut Outcome) {
        let Some(index) = self.open.iter().position(|open| open.id == id) else { return };
        let ended = self.open.remove(index).and_then(|open| open.end(at_ns, &self.facts));
        outcome.ended.extend(ended.map(|mut ended| {
            ended.accept_wait_ns = self.accept_wait_ns.take();
            ended
        }));
    }

    /// Ends the answered request whose answer has paused since `before_ns`.
    pub fn end_answered(&mut self, before_ns: u64, now_ns: u64) -> Outcome {
        let mut outcome = Outcome::default();
        let paused =
            |open: &Open| open.stream.is_none() && open.sent_ns.is_some_and(|sent| sent <= before_ns);
        if self.open.front().is_some_and(paused) {
            self.pop(now_ns, &mut outcome);
        }
        outcome
    }

    /// The connection is closed: what was asked on it is over, answered or not. Of pipelined requests whose answers came
    /// in one write only the first was seen to be answered; those behind a refusal were not.
    pub fn close(&mut self, at_ns: u64, context: &mut Context<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let refused = self.open.front().and_then(|open| open.status).is_some_and(|status| status >= 400);
        let itself = self.facts.is_itself(context.before_ready);
        while let Some(open) = self.open.front_mut() {
            if open.admitted.is_none()
                && !refused
                && matches!(open.line, Line::Read { .. })
                && open.begin.read().at_ns <= self.last_sent_ns
            {
                outcome.begun.extend(open.admit(itself, context.requests));
                open.sent_ns = Some(self.last_sent_ns);
            }
            self.pop(at_ns, &mut outcome);
        }
        outcome
    }
}

impl Facts {
    fn is_itself(&self, before_ready: bool) -> bool {
        self.itself || (self.neighbour && before_ready)
    }
}
