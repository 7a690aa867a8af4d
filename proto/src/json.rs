//! The proto3 JSON mapping of the contract's messages, as grpcurl prints it: 64-bit integers as strings, enum values
//! by name, instants in RFC 3339, absent and default fields left out.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor};
use serde_json::Value;

use crate::{DESCRIPTORS, v1};

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(DESCRIPTORS).expect("the descriptors were compiled with this crate's messages")
});

/// A message of the contract that can be shown as JSON.
pub trait Json: prost::Message {
    /// Full name in the contract.
    const NAME: &'static str;

    /// The message as a JSON value, fields in the order of their numbers, maps in the order of their keys.
    fn to_json(&self) -> Value
    where
        Self: Sized,
    {
        let descriptor =
            POOL.get_message_by_name(Self::NAME).expect("the name is one of the contract's messages");
        let mut message = DynamicMessage::new(descriptor.clone());
        message.transcode_from(self).expect("a message decodes from its own encoding");
        let mut value =
            serde_json::to_value(message).expect("a message of the contract has no value outside JSON");
        sort_maps(&descriptor, &mut value);
        value
    }
}

/// Maps come in the random order of a hash; two prints of one timeline must be the same text.
fn sort_maps(descriptor: &MessageDescriptor, value: &mut Value) {
    for field in descriptor.fields() {
        let Some(entry) = value.get_mut(field.json_name()) else { continue };
        match (field.kind(), entry) {
            (_, Value::Object(map)) if field.is_map() => map.sort_keys(),
            (Kind::Message(inner), Value::Array(entries)) => {
                for entry in entries {
                    sort_maps(&inner, entry);
                }
            }
            (Kind::Message(inner), entry @ Value::Object(_)) => sort_maps(&inner, entry),
            _ => {}
        }
    }
}

macro_rules! named {
    ($($message:ident),* $(,)?) => {
        $(impl Json for v1::$message {
            const NAME: &'static str = concat!("jcold.v1.", stringify!($message));
        })*
    };
}

named!(AgentStats, GetTimelineResponse, ListTimelinesResponse, PushRequest, Timeline, WatchTimelinesResponse);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::v1::{
        Completeness, Jvm, ListTimelinesResponse, Milestone, MilestoneKind, Phase, PhaseKind, Timeline,
    };

    #[test]
    fn a_timeline_reads_as_grpcurl_prints_it() {
        let timeline = Timeline {
            id: "00c0ffee00c0ffee".into(),
            jvm: Some(Jvm {
                pid: 4711,
                main: Some("app.jar".into()),
                exec_at: Some(prost_types::Timestamp { seconds: 1_767_225_600, nanos: 250_000_000 }),
                ..Jvm::default()
            }),
            completeness: Some(Completeness {
                armed_before_exec: Some(true),
                late: Some(false),
                events_dropped: Some(0),
                ..Completeness::default()
            }),
            milestones: vec![Milestone {
                kind: MilestoneKind::PortListen.into(),
                since_exec_ns: 9_007_199_254_740_993,
                evidence: "tcp port 8080".into(),
                ..Milestone::default()
            }],
            phases: vec![Phase {
                kind: PhaseKind::JvmBoot.into(),
                cpu_ns: [("main", 7), ("jit_c2", 6), ("jit_c1", 5)].map(|(k, v)| (k.to_owned(), v)).into(),
                ..Phase::default()
            }],
            ..Timeline::default()
        };
        let expected = json!({
            "id": "00c0ffee00c0ffee",
            "jvm": { "pid": 4711, "main": "app.jar", "execAt": "2026-01-01T00:00:00.250Z" },
            "completeness": { "armedBeforeExec": true, "late": false, "eventsDropped": "0" },
            "milestones": [{
                "kind": "MILESTONE_KIND_PORT_LISTEN",
                "sinceExecNs": "9007199254740993",
                "evidence": "tcp port 8080",
            }],
            "phases": [{ "kind": "PHASE_KIND_JVM_BOOT", "cpuNs": { "jit_c1": "5", "jit_c2": "6", "main": "7" } }],
        });
        assert_eq!(timeline.to_json(), expected);
        assert_eq!(timeline.to_json().to_string(), expected.to_string(), "order of fields and keys");
    }

    #[test]
    fn every_message_that_claims_a_name_has_it() {
        assert_eq!(ListTimelinesResponse::default().to_json(), json!({}));
        assert_eq!(v1::AgentStats::default().to_json(), json!({}));
        assert_eq!(v1::GetTimelineResponse::default().to_json(), json!({}));
        assert_eq!(v1::PushRequest::default().to_json(), json!({}));
        assert_eq!(v1::WatchTimelinesResponse::default().to_json(), json!({}));
    }
}
