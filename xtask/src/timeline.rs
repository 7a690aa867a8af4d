//! Timelines as anybody gets them: by the `jcold` command, as proto3 JSON.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{process, repo, wait};

/// Entries of a ledger, as the contract's JSON names them; they sum to the whole.
pub const LEDGER: [&str; 8] = [
    "onCpuNs",
    "runQueueNs",
    "throttledNs",
    "poolConnectNs",
    "socketWaitNs",
    "diskNs",
    "lockOrParkNs",
    "unexplainedNs",
];

/// A collector, asked through `jcold`.
#[derive(Debug)]
pub struct Collector {
    port: u16,
    jcold: std::path::PathBuf,
}

impl Collector {
    /// The collector on a port of loopback; it need not run yet.
    pub fn at(port: u16) -> Result<Self> {
        Ok(Self { port, jcold: repo::binary("jcold")? })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address for agents and clients.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Runs `jcold` with `arguments`; its stdout.
    pub fn jcold(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.jcold);
        command.args(["--collector", &self.url()]).args(arguments);
        let output = command.output().with_context(|| format!("start {}", process::line(&command)))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("`{}` failed ({})\n{words}", process::line(&command), output.status);
        }
        String::from_utf8(output.stdout).context("jcold's output is not UTF-8")
    }

    /// Ids of the timelines of process `pid`, the newest first.
    pub fn ids_of(&self, pid: u32) -> Result<Vec<String>> {
        let list: Value = serde_json::from_str(&self.jcold(&["get", "timelines", "-o", "json"])?)?;
        let timelines = list.get("timelines").unwrap_or(&list).as_array().cloned().unwrap_or_default();
        let of_pid =
            timelines.iter().filter(|timeline| number(&timeline["jvm"]["pid"]) == Some(u64::from(pid)));
        Ok(of_pid.filter_map(|timeline| Some(timeline["id"].as_str()?.to_owned())).collect())
    }

    /// One timeline, whole.
    pub fn timeline(&self, id: &str) -> Result<Timeline> {
        let json = self.jcold(&["get", "timeline", id, "-o", "json"])?;
        Ok(Timeline { value: serde_json::from_str(&json).context("jcold's JSON")? })
    }

    /// The newest timeline of process `pid`, once `enough` of it is stored.
    pub fn await_timeline(
        &self,
        pid: u32,
        what: &str,
        enough: impl Fn(&Timeline) -> bool,
    ) -> Result<Timeline> {
        let mut last = None;
        let found = wait::until(what, Duration::from_millis(200), Duration::from_secs(30), || {
            let Some(id) = self.ids_of(pid)?.into_iter().next() else { return Ok(None) };
            let timeline = self.timeline(&id)?;
            if enough(&timeline) {
                return Ok(Some(timeline));
            }
            last = Some(timeline);
            Ok(None)
        });
        found.with_context(|| match &last {
            Some(timeline) => format!("timeline {}: {}", timeline.id(), timeline.summary()),
            None => format!("the collector has no timeline of process {pid}"),
        })
    }
}

/// A timeline's JSON.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// The JSON as `jcold` gave it.
    pub value: Value,
}

/// A user request of a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// 1-based number among the process's user requests.
    pub ordinal: u64,
    /// `/users/{id}`.
    pub route: String,
    /// Status code, when one was seen.
    pub status: Option<u64>,
    /// Data ready, since exec.
    pub since_exec_ns: u64,
    /// Data ready → first read.
    pub wait_ns: u64,
    /// First read → last write.
    pub service_ns: u64,
    /// Their sum.
    pub latency_ns: u64,
}

impl Timeline {
    /// Its id.
    pub fn id(&self) -> &str {
        self.value["id"].as_str().unwrap_or_default()
    }

    /// Kinds of its milestones without their prefix (`FIRST_REQUEST`), with the time since exec.
    pub fn milestones(&self) -> Vec<(String, u64)> {
        list(&self.value["milestones"])
            .filter_map(|milestone| {
                let kind = milestone["kind"].as_str()?.trim_start_matches("MILESTONE_KIND_").to_owned();
                Some((kind, number(&milestone["sinceExecNs"]).unwrap_or(0)))
            })
            .collect()
    }

    /// When a milestone was reached, since exec; its kind without the prefix.
    pub fn at(&self, kind: &str) -> Option<u64> {
        self.milestones().into_iter().find(|(name, _)| name == kind).map(|(_, since_exec_ns)| since_exec_ns)
    }

    /// Its user requests, in the order in which they are listed.
    pub fn user_requests(&self) -> Vec<Request> {
        list(&self.value["requests"])
            .filter(|request| request["class"] == "REQUEST_CLASS_USER")
            .map(|request| Request {
                ordinal: number(&request["ordinal"]).unwrap_or(0),
                route: request["route"].as_str().unwrap_or_default().to_owned(),
                status: number(&request["status"]),
                since_exec_ns: number(&request["sinceExecNs"]).unwrap_or(0),
                wait_ns: number(&request["waitNs"]).unwrap_or(0),
                service_ns: number(&request["serviceNs"]).unwrap_or(0),
                latency_ns: number(&request["latencyNs"]).unwrap_or(0),
            })
            .collect()
    }

    /// User requests that ended.
    pub fn user_count(&self) -> u64 {
        number(&self.value["requestCounts"]["user"]).unwrap_or(0)
    }

    /// Whether nothing was missed.
    pub fn complete(&self) -> bool {
        self.value["completeness"]["complete"] == true
    }

    /// Reasons of its gaps.
    pub fn gaps(&self) -> Vec<String> {
        list(&self.value["completeness"]["gaps"])
            .map(|gap| gap["reason"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// What is known, in one line, for errors.
    pub fn summary(&self) -> String {
        let milestones: Vec<String> =
            self.milestones().into_iter().map(|(kind, _)| kind.to_lowercase()).collect();
        format!(
            "milestones {}; {} user requests ended, {} kept; completeness {}",
            milestones.join(", "),
            self.user_count(),
            self.user_requests().len(),
            self.value["completeness"]
        )
    }
}

/// Entries of a JSON list; none when there is no list.
pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A whole number of proto3 JSON: 64-bit ones are strings there.
pub fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_is_read_from_proto3_json() {
        let value = serde_json::json!({
            "id": "00ff", "completeness": {"complete": true, "gaps": [{"reason": "agent restarted"}]},
            "milestones": [{"kind": "MILESTONE_KIND_READY", "sinceExecNs": "4079000000"}],
            "requestCounts": {"user": "2"},
            "requests": [
                {"class": "REQUEST_CLASS_PROBE", "route": "/actuator/health/readiness", "latencyNs": "9"},
                {"class": "REQUEST_CLASS_USER", "ordinal": "1", "route": "/users/{id}", "status": 200,
                 "sinceExecNs": "5", "waitNs": "3", "serviceNs": "4", "latencyNs": "7"}]});
        let timeline = Timeline { value };
        assert_eq!(timeline.milestones(), [("READY".to_owned(), 4_079_000_000)]);
        assert_eq!((timeline.user_count(), timeline.complete()), (2, true));
        assert_eq!(timeline.gaps(), ["agent restarted"]);
        let requests = timeline.user_requests();
        assert_eq!((requests.len(), requests[0].ordinal, requests[0].latency_ns), (1, 1, 7));
    }
}
