//! Numbers requests, keeps the first of them, and the statistics of each route.

use std::collections::HashMap;

use hdrhistogram::Histogram;
use proto::v1;

use crate::inbound::Ended;

/// User requests of the process that are kept one by one.
const KEPT: u64 = 200;
/// Requests of each route and class that are kept one by one.
const KEPT_OF_ROUTE: u64 = 20;
/// Routes of a process; more are counted together.
const ROUTES_MAX: usize = 100;
/// Route of a request whose line could not be read.
pub const UNPARSED: &str = "~unparsed";
/// Route of a request inside TLS.
pub const TLS: &str = "~tls";
/// Route of requests past the limit of routes.
pub const OTHER: &str = "~other";
/// Longest latency that the histograms tell apart.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// What is known of who sent a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sender {
    pub prober: bool,
    pub itself: bool,
}

/// A request that has its number.
#[derive(Clone, Debug)]
pub(crate) struct Admitted {
    pub class: v1::RequestClass,
    pub ordinal: Option<u64>,
    route: usize,
    route_ordinal: u64,
}

/// The requests of one process.
#[derive(Debug)]
pub(crate) struct Requests {
    routes: Vec<RouteStats>,
    by_name: HashMap<(String, String), usize>,
    user: u64,
    counts: v1::RequestCounts,
    kept: Vec<v1::Request>,
    /// Paths that only probes ask for.
    probe_paths: Vec<String>,
    /// Requests before these were not seen, so nobody knows which was the first.
    late: bool,
}

#[derive(Debug, Default)]
struct RouteStats {
    method: Option<String>,
    route: String,
    first_class: Option<v1::RequestClass>,
    /// User requests that began, and of other classes.
    begun: u64,
    begun_other: u64,
    ended: u64,
    first_ns: Option<u64>,
    second_to_10_ns: Vec<u64>,
    from_11_to_200_ns: Vec<u64>,
    later: Option<Histogram<u32>>,
    changed: bool,
}

impl Requests {
    pub fn new(late: bool, probe_paths: Vec<String>) -> Self {
        Self {
            probe_paths,
            routes: Vec::new(),
            by_name: HashMap::new(),
            user: 0,
            counts: v1::RequestCounts::default(),
            kept: Vec::new(),
            late,
        }
    }

    /// Goes on where an earlier agent stopped.
    pub fn resume(&mut self, known: &v1::Timeline) {
        self.late = false;
        self.counts = known.request_counts.unwrap_or_default();
        self.user = self.counts.user;
        for route in &known.routes {
            let method = (!route.method.is_empty()).then_some(route.method.as_str());
            let at = self.route(method, &route.route);
            let stats = &mut self.routes[at];
            stats.first_class = Some(route.first_class());
            (stats.begun, stats.ended) = (route.count, route.count);
            for request in
                known.requests.iter().filter(|r| r.route == route.route && r.method.as_deref() == method)
            {
                if let Some(ordinal) = request.route_ordinal {
                    stats.observe(ordinal, request.latency_ns);
                }
            }
        }
        self.kept.clone_from(&known.requests);
    }

    /// Gives a request its number.
    pub fn admit(&mut self, method: Option<&str>, route: &str, sender: Sender) -> Admitted {
        let prober = sender.prober || self.probe_paths.iter().any(|path| path == route);
        let class = match sender {
            _ if prober => v1::RequestClass::Probe,
            Sender { itself: true, .. } => v1::RequestClass::SelfWarmup,
            _ => v1::RequestClass::User,
        };
        let route = self.route(method, route);
        let stats = &mut self.routes[route];
        stats.first_class.get_or_insert(class);
        if class == v1::RequestClass::User {
            self.user += 1;
            stats.begun += 1;
            let ordinal = (!self.late).then_some(self.user);
            return Admitted { class, ordinal, route, route_ordinal: stats.begun };
        }
        stats.begun_other += 1;
        Admitted { class, ordinal: None, route, route_ordinal: stats.begun_other }
    }

    /// Method and route of a request, as people write them.
    pub fn line(&self, admitted: &Admitted) -> String {
        let stats = &self.routes[admitted.route];
        stats
            .method
            .as_ref()
            .map_or_else(|| stats.route.clone(), |method| format!("{method} {}", stats.route))
    }

    fn route(&mut self, method: Option<&str>, route: &str) -> usize {
        let key = (method.unwrap_or_default().to_owned(), route.to_owned());
        if let Some(&at) = self.by_name.get(&key) {
            return at;
        }
        if self.routes.len() >= ROUTES_MAX && route != OTHER {
            return self.route(None, OTHER);
        }
        self.routes.push(RouteStats {
            method: method.map(str::to_owned),
            route: route.to_owned(),
            ..RouteStats::default()
        });
        self.by_name.insert(key, self.routes.len() - 1);
        self.routes.len() - 1
    }

    /// Books a request that has ended; `since_exec_ns` turns an instant into one since exec.
    pub fn end(&mut self, ended: &Ended, thread: &str, since_exec_ns: impl Fn(u64) -> u64) -> v1::Request {
        let stats = &mut self.routes[ended.admitted.route];
        let (begin_ns, read_ns) = (ended.ready_ns(), ended.read().at_ns);
        let wait_ns = read_ns.saturating_sub(begin_ns);
        let service_ns = ended.end_ns.saturating_sub(read_ns);
        let is_user = ended.admitted.class == v1::RequestClass::User;
        let request = v1::Request {
            ordinal: ended.admitted.ordinal,
            route_ordinal: (is_user && !self.late).then_some(ended.admitted.route_ordinal),
            class: ended.admitted.class.into(),
            method: stats.method.clone(),
            route: stats.route.clone(),
            status: ended.status.map(u32::from),
            since_exec_ns: since_exec_ns(begin_ns),
            wait_ns,
            service_ns,
            latency_ns: wait_ns + service_ns,
            thread: thread.to_owned(),
            connection_ordinal: ended.connection_ordinal,
            accept_wait_ns: ended.accept_wait_ns,
            streaming: ended.streaming,
            protocol: ended.protocol.of_request().to_owned(),
            ..v1::Request::default()
        };
        match ended.admitted.class {
            v1::RequestClass::Probe => self.counts.probe += 1,
            v1::RequestClass::SelfWarmup => self.counts.self_warmup += 1,
            _ => self.counts.user += 1,
        }
        self.counts.unparsed += u64::from(stats.route == UNPARSED);
        if is_user {
            stats.ended += 1;
            stats.changed = true;
            let ordinal = if self.late { u64::MAX } else { ended.admitted.route_ordinal };
            stats.observe(ordinal, request.latency_ns);
        }
        request
    }

    /// Whether a request is one of those that are kept one by one.
    pub fn is_kept(admitted: &Admitted) -> bool {
        admitted.ordinal.is_some_and(|ordinal| ordinal <= KEPT) || admitted.route_ordinal <= KEPT_OF_ROUTE
    }

    /// Keeps a request of which everything is known.
    pub fn keep(&mut self, request: v1::Request) {
        self.kept.push(request);
    }

    /// The requests that are kept, in the order in which they ended.
    pub fn kept(&self) -> &[v1::Request] {
        &self.kept
    }

    /// Requests that ended, by class.
    pub fn counts(&self) -> v1::RequestCounts {
        self.counts
    }

    /// The routes with user requests; only those that changed since the last call when `changed`.
    pub fn routes(&mut self, changed: bool) -> Vec<v1::Route> {
        self.routes
            .iter_mut()
            .filter(|stats| stats.ended > 0 && (!changed || stats.changed))
            .map(|stats| {
                if changed {
                    stats.changed = false;
                }
                stats.to_proto()
            })
            .collect()
    }
}

impl RouteStats {
    fn observe(&mut self, ordinal: u64, latency_ns: u64) {
        match ordinal {
            1 => self.first_ns = Some(latency_ns),
            2..=10 => self.second_to_10_ns.push(latency_ns),
            11..=200 => self.from_11_to_200_ns.push(latency_ns),
            _ => {}
        }
        if ordinal > 1 {
            let later = self.later.get_or_insert_with(|| {
                Histogram::new_with_bounds(1_000, LATENCY_MAX_NS, 2).expect("bounds and digits are in range")
            });
            later.saturating_record(latency_ns);
        }
    }

    fn to_proto(&self) -> v1::Route {
        let p50_2_to_10_ns = median(&self.second_to_10_ns);
        let p50_11_to_200_ns = median(&self.from_11_to_200_ns);
        let quantile = |q| self.later.as_ref().map(|later| later.value_at_quantile(q));
        v1::Route {
            method: self.method.clone().unwrap_or_default(),
            route: self.route.clone(),
            count: self.ended,
            first_ns: self.first_ns,
            p50_2_to_10_ns,
            p50_11_to_200_ns,
            p95_ns: quantile(0.95),
            p99_ns: quantile(0.99),
            cold_penalty_ns: self
                .first_ns
                .zip(p50_11_to_200_ns.or(p50_2_to_10_ns))
                .map(|(first, later)| first.saturating_sub(later)),
            first_class: self.first_class.unwrap_or_default().into(),
        }
    }
}

/// The middle value; of an even number, the mean of the two in the middle.
pub(crate) fn median(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(sorted[middle - 1].midpoint(sorted[middle])),
    }
}
