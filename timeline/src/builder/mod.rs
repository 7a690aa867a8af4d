//! One timeline in the making: events in, the contract's messages out.
//!
//! Pure and total: no clock, no I/O, and no input makes it fail. What is missing becomes a gap.

mod creation;
mod jvm;
mod kept;
mod resume;
mod stages;
mod threads;
mod update;

use std::collections::HashSet;

use proto::v1;

use self::{creation::Creation, kept::Pending, stages::Stages, threads::Threads, update::Sent};
use crate::{
    accounts::Accounts,
    class::{ThreadClass, ThreadClasses},
    cpu::Cpu,
    event::{Event, Start, What},
    inbound::{Client, Ended, Inbound, Outcome, Read, Touch},
    milestones::Milestones,
    names::Names,
    outbound::{Connector, Outbound, PoolConnect, listening},
    requests::{Admitted, Requests},
    steady::{Detector, Limits, Verdict},
    wire::Loss,
    work::Work,
};

/// Gaps that are kept; the last one says that there were more.
const GAPS_MAX: usize = 50;

/// What was made, delivered and lost of a process, for its completeness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records that the probes made.
    pub produced: u64,
    /// Records that reached the agent.
    pub delivered: u64,
    /// Records and map entries that found no room.
    pub dropped: u64,
    /// Runs that the kernel skipped.
    pub misses: u64,
}

/// What a site sets.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Classes of threads.
    pub classes: ThreadClasses,
    /// When observation ends at the latest.
    pub limits: Limits,
    /// Paths that only the pods' probes ask for.
    pub probe_paths: Vec<String>,
}

/// Builds the timeline of one process.
#[derive(Debug)]
pub struct Builder {
    start: Start,
    threads: Threads,
    milestones: Milestones,
    inbound: Inbound,
    outbound: Outbound,
    requests: Requests,
    /// Requests that have ended and wait for their threads' accounts.
    pending: Vec<Pending>,
    accounts: Accounts,
    cpu: Cpu,
    work: Work,
    names: Names,
    stages: Stages,
    facts: Vec<v1::Fact>,
    detector: Detector,
    gaps: Vec<v1::Gap>,
    /// What is a gap once.
    noted: HashSet<&'static str>,
    counts: Counts,
    creation: Creation,
    steady: Option<v1::Steady>,
    exit: Option<v1::Exit>,
    sent: Sent,
}

impl Builder {
    /// Begins a timeline.
    pub fn new(start: Start, settings: Settings) -> Self {
        let mut milestones = Milestones::new(start.exec_ns, start.wall_offset_ns);
        if !start.late {
            let evidence = start.jvm.executable.clone();
            milestones.reach(v1::MilestoneKind::ProcessExec, start.exec_ns, evidence);
        }
        Self {
            requests: Requests::new(start.late, settings.probe_paths),
            inbound: Inbound::new(start.own_network),
            milestones,
            threads: Threads::new(settings.classes, &start.jvm.executable),
            outbound: Outbound::default(),
            pending: Vec::new(),
            accounts: Accounts::default(),
            cpu: Cpu::default(),
            work: Work::new(&start),
            names: Names::default(),
            stages: Stages::new(start.late),
            facts: Vec::new(),
            detector: Detector::new(settings.limits),
            gaps: Vec::new(),
            noted: HashSet::new(),
            counts: Counts::default(),
            creation: Creation::default(),
            steady: None,
            exit: None,
            sent: Sent::default(),
            start,
        }
    }

    /// Whether there is a verdict: nothing more needs to be watched but the exit.
    pub fn has_verdict(&self) -> bool {
        self.steady.is_some()
    }

    /// User requests that have ended.
    pub fn user_requests(&self) -> u64 {
        self.requests.counts().user
    }

    /// What was made, delivered and lost since this builder began.
    pub fn counted(&mut self, counts: Counts) {
        self.counts = counts;
    }

    /// What [`Builder::counted`] was told last; after [`Builder::resume`], what the earlier agent had counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn since_exec(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.start.exec_ns)
    }

    /// Takes one event.
    pub fn apply(&mut self, event: &Event) {
        let Event { at_ns, tid, ref what } = *event;
        match what {
            What::ThreadNamed { name } => {
                self.threads.named(tid, name);
                let is_open = self.milestones.at(v1::MilestoneKind::JvmCreated).is_none();
                if is_open && self.creation.named(at_ns, self.threads.name(tid), self.threads.class(tid)) {
                    self.jvm_created();
                }
            }
            What::ThreadFound { name } => self.threads.named(tid, name),
            What::ThreadStarted { name } => self.threads.started(tid, name),
            What::ThreadAccount { account, leaving } => {
                let compiles = matches!(self.threads.class(tid), ThreadClass::JitC1 | ThreadClass::JitC2);
                for mut span in self.accounts.told(tid, at_ns, account, *leaving) {
                    span.start_ns = self.since_exec(span.start_ns);
                    span.end_ns = self.since_exec(span.end_ns);
                    if compiles {
                        self.detector.jit(span.end_ns, span.cpu_ns);
                    }
                    self.cpu.add(span);
                }
            }
            &What::Listening { address } => {
                self.outbound.listens_on(address.port());
                self.reach(v1::MilestoneKind::PortListen, at_ns, listening(address));
            }
            &What::Connecting { socket, peer } => {
                let (name, class) = (self.threads.name(tid).to_owned(), self.threads.class(tid));
                let for_request = self.inbound.ordinal_of(tid);
                let request = self.inbound.working(tid);
                let connector = Connector { tid, name, class, for_request, request };
                let since_exec_ns = self.since_exec(at_ns);
                self.outbound.connecting(socket, peer, connector, at_ns, since_exec_ns);
            }
            &What::Established { socket, local } => {
                let pool = self.outbound.established(socket, local, at_ns);
                self.pool_connect(pool);
            }
            &What::Disconnected { socket, errno } => self.outbound.disconnected(socket, errno, at_ns),
            &What::Connected { fd, .. } => self.outbound.connected(fd, tid),
            &What::Handshake { local, peer } => self.inbound.handshake(local, peer, at_ns),
            &What::Accepted { fd, peer, unix } => self.accepted(fd, tid, peer, unix, at_ns),
            &What::Adopted { fd } => {
                let outcome =
                    self.inbound.accepted(fd, Client::default(), Touch::of(event), &mut self.requests);
                self.take(outcome, at_ns);
            }
            &What::Asked { fd, service, setup } => {
                let request = self.inbound.working(tid);
                if let Some(id) = request {
                    self.inbound.touch(id, Touch::of(event));
                }
                let pool = self.outbound.asked(fd, Touch::of(event), request, (service, setup));
                self.pool_connect(pool);
            }
            &What::Answered { fd, service } => {
                let (pool, request) = self.outbound.answered(fd, at_ns, service);
                self.pool_connect(pool);
                if let Some(id) = request {
                    self.inbound.touch(id, Touch::of(event));
                }
            }
            &What::Ready { fd } => {
                if self.inbound.ready(fd, Touch::of(event)) {
                    self.threads.does(tid, ThreadClass::Poller);
                }
            }
            What::Received { fd, arrived_ns, openings, continues, undecided, .. } => {
                let before_ready = self.is_before_ready();
                let read =
                    Read { arrived_ns: *arrived_ns, openings, continues: *continues, undecided: *undecided };
                let outcome =
                    self.inbound.received(*fd, Touch::of(event), read, &mut self.requests, before_ready);
                self.take(outcome, at_ns);
            }
            &What::MayMultiplex { fd } => self.inbound.may_multiplex(fd),
            What::Sent { fd, answers, .. } => {
                let before_ready = self.is_before_ready();
                let outcome =
                    self.inbound.sent(*fd, Touch::of(event), answers, &mut self.requests, before_ready);
                self.take(outcome, at_ns);
            }
            &What::Closed { fd } => {
                self.outbound.closed(fd);
                let before_ready = self.is_before_ready();
                let outcome = self.inbound.closed(fd, at_ns, &mut self.requests, before_ready);
                self.take(outcome, at_ns);
            }
            What::Sampled { sample, counted } => {
                self.work.sampled(self.since_exec(at_ns), sample, counted.as_deref());
            }
            &What::Probed { probed } => self.work.probed(self.since_exec(at_ns), probed),
            What::Counted { counted } => self.work.counted(self.since_exec(at_ns), counted),
            What::Facts { facts } => self.shows(facts),
            What::Memory { memory } => self.remember(at_ns, *memory),
            What::ClassLoaded { package } => self.names.loaded(at_ns, package),
            What::Compiled { compiler, package } => self.names.compiled(at_ns, package, *compiler),
            What::IoUring => self.note(at_ns, "not followed: what the process does through io_uring"),
            &What::Exited { status } => self.exited(at_ns, status),
            What::Missed { length_ns, reason } => self.missed(at_ns, *length_ns, reason.clone()),
        }
    }

    /// The VM was created, if its own last thread was not seen to be, when the latest of them was.
    fn jvm_created(&mut self) {
        if let Some((at_ns, name)) = self.creation.take() {
            self.milestones.reach(v1::MilestoneKind::JvmCreated, at_ns, format!("thread {name:?}"));
        }
    }

    /// Notes an instant of what can only be after the VM was created.
    fn reach(&mut self, kind: v1::MilestoneKind, at_ns: u64, evidence: String) {
        self.jvm_created();
        self.milestones.reach(kind, at_ns, evidence);
    }

    fn accepted(&mut self, fd: i32, tid: u32, peer: Option<std::net::SocketAddr>, unix: bool, at_ns: u64) {
        self.threads.does(tid, ThreadClass::Acceptor);
        let itself = peer.is_some_and(|peer| self.outbound.is_own(peer));
        let client = Client { peer, itself, unix };
        let outcome = self.inbound.accepted(fd, client, Touch { tid, at_ns }, &mut self.requests);
        self.take(outcome, at_ns);
        if unix {
            self.note(at_ns, "not followed: connections of Unix sockets");
        }
        let evidence = peer.map_or_else(String::new, |peer| format!("from {}", peer.ip().to_canonical()));
        self.reach(v1::MilestoneKind::FirstAccept, at_ns, evidence);
    }

    fn is_before_ready(&self) -> bool {
        self.milestones.at(v1::MilestoneKind::Ready).is_none()
    }

    /// What bytes on an accepted connection led to.
    fn take(&mut self, outcome: Outcome, at_ns: u64) {
        for ended in outcome.ended {
            self.ended(ended);
        }
        for begun in outcome.begun {
            self.begun(begun);
        }
        for reason in outcome.lost {
            self.note(at_ns, Loss::as_str(reason));
        }
    }

    /// A gap that is told once.
    fn note(&mut self, at_ns: u64, reason: &'static str) {
        if self.noted.insert(reason) {
            self.missed(at_ns, 0, reason.to_owned());
        }
    }

    fn pool_connect(&mut self, pool: Option<PoolConnect>) {
        if let Some(PoolConnect { at_ns, evidence }) = pool {
            self.reach(v1::MilestoneKind::PoolConnect, at_ns, evidence);
        }
    }

    fn begun(&mut self, (admitted, ready_ns): (Admitted, u64)) {
        if admitted.ordinal == Some(1) {
            self.jvm_created();
            self.milestones.first_request(ready_ns, self.requests.line(&admitted));
            self.detector.first_request(self.since_exec(ready_ns));
        }
    }

    fn ended(&mut self, ended: Ended) {
        let exec_ns = self.start.exec_ns;
        let thread = self.threads.name(ended.read().tid);
        let request = self.requests.end(&ended, thread, |at_ns| at_ns.saturating_sub(exec_ns));
        self.milestones.request_ended(&request, ended.end_ns, ended.serving);
        let end_ns = self.since_exec(ended.end_ns);
        self.cpu.request(end_ns, request.latency_ns, &self.milestones.phases());
        if ended.admitted.class == v1::RequestClass::User {
            self.detector.request(request.latency_ns);
        }
        if let Some(ordinal) = ended.admitted.ordinal
            && self.milestones.until_ns().is_none_or(|until_ns| end_ns <= until_ns)
        {
            self.stages.ended(ordinal, end_ns);
        }
        if Requests::is_kept(&ended.admitted) {
            self.pending.push(Pending { request, ended });
        }
    }

    fn exited(&mut self, at_ns: u64, status: Option<u32>) {
        // wait(2): the low seven bits are the signal, the next byte the code.
        let signal = status.map(|status| status & 0x7f).filter(|signal| *signal != 0);
        let code = status.filter(|_| signal.is_none()).map(|status| (status >> 8) & 0xff);
        self.jvm_created();
        let since_exec_ns = self.since_exec(at_ns);
        self.exit = Some(v1::Exit { since_exec_ns, code, signal });
        if self.steady.is_none() {
            self.verdict(v1::SteadyVerdict::Exited, at_ns, None);
        }
    }

    fn verdict(&mut self, verdict: v1::SteadyVerdict, at_ns: u64, p50_ns: Option<u64>) {
        let since_exec_ns = self.since_exec(at_ns);
        let at_ordinal = p50_ns.map(|_| self.requests.counts().user);
        self.steady =
            Some(v1::Steady { verdict: verdict.into(), since_exec_ns, at_ordinal, p50_ns, memory: None });
        self.milestones.observed_until(at_ns);
    }

    fn missed(&mut self, at_ns: u64, length_ns: u64, reason: String) {
        let since_exec_ns = Some(self.since_exec(at_ns).saturating_sub(length_ns));
        self.gap(v1::Gap { since_exec_ns, length_ns: (length_ns > 0).then_some(length_ns), reason });
    }

    fn gap(&mut self, gap: v1::Gap) {
        match self.gaps.len().cmp(&(GAPS_MAX - 1)) {
            std::cmp::Ordering::Less => self.gaps.push(gap),
            std::cmp::Ordering::Equal => {
                self.gaps.push(v1::Gap { reason: "more gaps than are kept".to_owned(), ..gap });
            }
            std::cmp::Ordering::Greater => {}
        }
    }

    /// Lets time pass: ends answers that have paused, books what has settled, and comes to a verdict.
    pub fn tick(&mut self, now_ns: u64) {
        for ended in self.inbound.tick(now_ns) {
            self.ended(ended);
        }
        self.keep_settled(Some(now_ns));
        if self.creation.is_over(now_ns) {
            self.jvm_created();
        }
        let now = self.since_exec(now_ns);
        self.settle(Some(now));
        if self.steady.is_some() {
            return;
        }
        match self.detector.verdict(now) {
            Verdict::Cold => {}
            Verdict::Steady { p50_ns } => {
                self.verdict(v1::SteadyVerdict::Reached, now_ns, Some(p50_ns));
                let evidence =
                    "last 50 requests' median within 10 % of the 50 before, compilers quiet for 5 s";
                self.milestones.reach(v1::MilestoneKind::Steady, now_ns, evidence.to_owned());
            }
            Verdict::Limit => self.verdict(v1::SteadyVerdict::Limit, now_ns, None),
        }
    }

    fn settle(&mut self, now: Option<u64>) {
        let threads = &self.threads;
        let phases = self.milestones.phases();
        self.cpu.settle(now, &phases, |tid| threads.class(tid));
        self.work.settle(now, &phases);
        self.stages.settle(now, &self.milestones, &mut self.work);
    }

    /// Nothing more will come: ends what is open and books everything.
    pub fn finish(&mut self, now_ns: u64) {
        self.jvm_created();
        for ended in self.inbound.finish(now_ns) {
            self.ended(ended);
        }
        self.keep_settled(None);
        self.milestones.observed_until(now_ns);
        self.settle(None);
    }
}
