//! Completeness in one line.

use proto::v1::{Completeness, Gap, Timeline};

use super::format::{counted, duration, harmless};

/// Gaps that are told one by one.
const GAPS: usize = 3;

/// `yes, armed before exec, 12,345 events, 0 dropped`, or `no:` and everything that speaks against it.
pub fn completeness(timeline: &Timeline) -> String {
    let Some(completeness) = &timeline.completeness else {
        return "unknown: the agent has not said".to_owned();
    };
    let events = completeness.events_produced.map_or_else(String::new, |produced| {
        let dropped = completeness.events_dropped.unwrap_or_default();
        format!(", {}, {dropped} dropped", counted(produced, "event"))
    });
    let against = against(completeness);
    match completeness.complete {
        Some(true) => format!("yes, armed before exec{events}"),
        Some(false) if against.is_empty() => format!("no{events}"),
        Some(false) => format!("no: {}", against.join("; ")),
        None if against.is_empty() => format!("so far{events}"),
        None => format!("so far not: {}", against.join("; ")),
    }
}

fn against(completeness: &Completeness) -> Vec<String> {
    let mut reasons = Vec::new();
    if completeness.late == Some(true) {
        reasons.push("late".to_owned());
    } else if completeness.armed_before_exec == Some(false) {
        reasons.push("not armed before exec".to_owned());
    }
    if let Some(dropped) = completeness.events_dropped.filter(|dropped| *dropped > 0) {
        reasons.push(format!("{} dropped", counted(dropped, "event")));
    }
    if let (Some(produced), Some(delivered)) = (completeness.events_produced, completeness.events_delivered) {
        let missing =
            produced.saturating_sub(delivered).saturating_sub(completeness.events_dropped.unwrap_or(0));
        if missing > 0 {
            reasons.push(format!("{} missing", counted(missing, "event")));
        }
    }
    if let Some(misses) = completeness.probe_misses.filter(|misses| *misses > 0) {
        reasons.push(format!("{} skipped by the kernel", counted(misses, "probe run")));
    }
    reasons.extend(completeness.gaps.iter().take(GAPS).map(gap));
    if completeness.gaps.len() > GAPS {
        reasons.push(format!("and {}", counted((completeness.gaps.len() - GAPS) as u64, "more gap")));
    }
    reasons
}

fn gap(gap: &Gap) -> String {
    let length = gap.length_ns.map_or_else(String::new, |ns| format!(" {}", duration(ns)));
    let at = gap.since_exec_ns.map_or_else(String::new, |ns| format!(" at {}", duration(ns)));
    format!("gap{length}{at}: {}", harmless(&gap.reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(completeness_: Completeness) -> String {
        completeness(&Timeline { completeness: Some(completeness_), ..Timeline::default() })
    }

    #[test]
    fn each_state_has_its_line() {
        let clean = Completeness {
            armed_before_exec: Some(true),
            late: Some(false),
            events_produced: Some(12_345),
            events_delivered: Some(12_345),
            events_dropped: Some(0),
            probe_misses: Some(0),
            complete: Some(true),
            ..Completeness::default()
        };
        let restarted = Gap {
            since_exec_ns: Some(4_100_000_000),
            length_ns: Some(3_200_000_000),
            reason: "agent restarted".into(),
        };
        let bare = Gap { reason: "2 updates were dropped".into(), ..Gap::default() };
        let with = |change: &dyn Fn(&mut Completeness)| {
            let mut completeness = clean.clone();
            completeness.complete = Some(false);
            change(&mut completeness);
            line(completeness)
        };
        assert_eq!(line(clean.clone()), "yes, armed before exec, 12,345 events, 0 dropped");
        assert_eq!(
            with(&|c| {
                c.late = Some(true);
                c.armed_before_exec = Some(false);
                c.gaps = vec![restarted.clone()];
            }),
            "no: late; gap 3.200 s at 4.100 s: agent restarted"
        );
        assert_eq!(with(&|c| c.armed_before_exec = Some(false)), "no: not armed before exec");
        assert_eq!(
            with(&|c| {
                c.events_dropped = Some(7);
                c.events_delivered = Some(12_337);
                c.probe_misses = Some(1);
            }),
            "no: 7 events dropped; 1 event missing; 1 probe run skipped by the kernel"
        );
        let five = with(&|c| c.gaps = vec![bare.clone(); 5]);
        assert!(five.ends_with("gap: 2 updates were dropped; and 2 more gaps"), "{five}");
        assert_eq!(with(&|c| c.complete = None), "so far, 12,345 events, 0 dropped");
        assert_eq!(
            with(&|c| {
                c.complete = None;
                c.late = Some(true);
            }),
            "so far not: late"
        );
        assert_eq!(completeness(&Timeline::default()), "unknown: the agent has not said");
    }
}
