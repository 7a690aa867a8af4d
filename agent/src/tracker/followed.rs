//! One JVM that is followed.

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::PathBuf,
};

use proto::v1;
use timeline::{Account, Builder, Cause, Counted, Counts, Event, Fact, Start, What, recording};

use super::view::View;
use crate::{
    events::{Decoder, raw::Record},
    probes::Attached,
};

/// Where a JVM stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between exec and its verdict.
    Cold,
    /// It has its verdict; only its end is waited for.
    Observed,
    /// It has exited.
    Exited { at_ns: u64 },
}

pub struct Followed {
    pub pid: u32,
    /// As the probes noted it; 0 when they did not see it.
    pub exec_ns: u64,
    pub decoder: Decoder,
    state: State,
    /// What the probes had made when they were last asked.
    pub made: Counts,
    builder: Builder,
    recorder: Option<Recorder>,
    view: View,
    delivered: u64,
    /// Of `made`, as far as the decoder was told.
    dropped: u64,
    /// What an earlier agent had counted.
    before: Counts,
    /// Misses of all probes when this JVM was first counted.
    misses_before: Option<u64>,
    /// There is something that no update has told.
    untold: bool,
}

impl Followed {
    pub fn new(pid: u32, exec_ns: u64, builder: Builder, recorder: Option<Recorder>, view: View) -> Self {
        Self {
            pid,
            exec_ns,
            decoder: Decoder::default(),
            state: State::Cold,
            made: Counts::default(),
            before: builder.counts(),
            builder,
            recorder,
            view,
            delivered: 0,
            dropped: 0,
            misses_before: None,
            untold: true,
        }
    }

    /// Takes a record of this process.
    pub fn take(&mut self, record: &Record) {
        self.delivered += 1;
        if let Record::ProcessExited(_) | Record::ProcessReplaced(_) = record {
            self.state = State::Exited { at_ns: crate::clock::boot_ns() };
        }
        let Self { decoder, builder, recorder, .. } = self;
        decoder.decode(record, |event| {
            if let Some(recorder) = recorder {
                recorder.write(&event);
            }
            builder.apply(&event);
        });
    }

    /// Takes an event that no probe made.
    pub fn apply(&mut self, event: &Event) {
        if let Some(recorder) = &mut self.recorder {
            recorder.write(event);
        }
        self.builder.apply(event);
    }

    /// Tells the account of a thread that left its CPU and did not tell by itself.
    pub fn account(&mut self, tid: u32, at_ns: u64, account: Account, leaving: Cause) {
        self.apply(&Event { at_ns, tid, what: What::ThreadAccount { account, leaving: Some(leaving) } });
    }

    pub fn found(&mut self, tid: u32, name: String, at_ns: u64) {
        self.apply(&Event { at_ns, tid, what: What::ThreadFound { name } });
    }

    pub fn missed(&mut self, at_ns: u64, reason: &str) {
        let what = What::Missed { length_ns: 0, reason: reason.to_owned() };
        self.apply(&Event { at_ns, tid: self.pid, what });
    }

    /// Looks at the JVM's own counters; `work` tells what probes have counted.
    pub fn sample(&mut self, now_ns: u64, work: impl Fn() -> Option<Counted>) {
        if let Some((sample, counted)) = self.view.sample(work) {
            let (sample, counted) = (Box::new(sample), counted.map(Box::new));
            self.apply(&Event { at_ns: now_ns, tid: self.pid, what: What::Sampled { sample, counted } });
        }
    }

    /// Takes what probes have counted by now.
    pub fn worked(&mut self, now_ns: u64, counted: Counted) {
        self.apply(&Event {
            at_ns: now_ns,
            tid: self.pid,
            what: What::Counted { counted: Box::new(counted) },
        });
    }

    /// From now on its work is counted as it happens, as far as `attached` says.
    pub fn probed(&mut self, now_ns: u64, attached: &Attached) {
        let Attached { probed, problems } = attached;
        self.apply(&Event { at_ns: now_ns, tid: self.pid, what: What::Probed { probed: *probed } });
        let facts = if problems.is_empty() {
            vec![Fact::new("usdt", "attached", "libjvm.so")]
        } else {
            problems.iter().map(|problem| Fact::new("usdt", problem, "libjvm.so")).collect()
        };
        self.apply(&Event { at_ns: now_ns, tid: self.pid, what: What::Facts { facts } });
    }

    /// Looks at what changes rarely, when the timeline has come to another instant.
    fn look(&mut self, now_ns: u64) {
        let instants = self.builder.instants();
        let Some((facts, memory)) = self.view.look(instants) else { return };
        self.apply(&Event { at_ns: now_ns, tid: self.pid, what: What::Memory { memory } });
        self.apply(&Event { at_ns: now_ns, tid: self.pid, what: What::Facts { facts } });
    }

    pub fn builder_tick(&mut self, now_ns: u64) {
        self.settle_counts();
        if self.state != State::Observed {
            self.builder.tick(now_ns);
            self.look(now_ns);
        }
    }

    /// Compares what was made with what arrived. Records that were made after the probes were asked may have arrived
    /// too; they count the next time.
    fn settle_counts(&mut self) {
        if self.state == State::Observed {
            return;
        }
        let Counts { produced, dropped, misses, .. } = self.made;
        if dropped > self.dropped {
            self.dropped = dropped;
            self.decoder.lost();
        }
        let misses_before = *self.misses_before.get_or_insert(misses);
        self.builder.counted(Counts {
            produced: self.before.produced + produced,
            dropped: self.before.dropped + dropped,
            delivered: self.before.delivered + self.delivered.min(produced.saturating_sub(dropped)),
            misses: self.before.misses + misses.saturating_sub(misses_before),
        });
    }

    /// A cold JVM has its verdict: nothing more is watched but the end.
    pub fn observed(&mut self, now_ns: u64) {
        self.builder.finish(now_ns);
        self.look(now_ns);
        self.view.close();
        self.decoder = Decoder::default();
        self.state = State::Observed;
        self.untold = true;
    }

    /// Ends the timeline: all of it that no update took away, and the last update.
    pub fn finish(&mut self, now_ns: u64) -> (v1::Timeline, Option<v1::Timeline>) {
        self.settle_counts();
        self.builder.finish(now_ns);
        let whole = self.builder.snapshot();
        (whole, self.builder.update(now_ns, true))
    }

    pub fn update(&mut self, now_ns: u64) -> Option<v1::Timeline> {
        self.untold = false;
        self.builder.update(now_ns, self.state == State::Observed)
    }

    pub fn is_cold(&self) -> bool {
        self.state == State::Cold
    }

    pub fn is_observed(&self) -> bool {
        self.state == State::Observed
    }

    pub fn is_busy(&self) -> bool {
        self.state != State::Observed || self.untold
    }

    pub fn has_verdict(&self) -> bool {
        self.builder.has_verdict()
    }

    pub fn has_exited(&self) -> bool {
        matches!(self.state, State::Exited { .. })
    }

    pub fn exited_before(&self, at_ns: u64) -> bool {
        matches!(self.state, State::Exited { at_ns: exited } if exited < at_ns)
    }

    pub fn user_requests(&self) -> u64 {
        self.builder.user_requests()
    }
}

/// Writes events to a file as they come.
pub struct Recorder {
    path: PathBuf,
    /// `None` once it failed.
    file: Option<BufWriter<File>>,
}

impl Recorder {
    pub fn create(path: PathBuf, start: &Start) -> Option<Self> {
        let file = match File::create(&path) {
            Ok(file) => Some(BufWriter::new(file)),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "cannot record");
                return None;
            }
        };
        let mut recorder = Self { path, file };
        recorder.write(start);
        Some(recorder)
    }

    fn write<T: serde::Serialize>(&mut self, value: &T) {
        let Some(file) = &mut self.file else { return };
        let written =
            recording::line(value).map_err(Into::into).and_then(|line| file.write_all(line.as_bytes()));
        if let Err(error) = written {
            tracing::error!(path = %self.path.display(), %error, "recording stopped");
            self.file = None;
        }
    }
}
