//! One stream to the collector, and how long to wait before the next.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use proto::v1::ingest_service_client::IngestServiceClient;
use proto::v1::{PushRequest, PushResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};

/// Messages between the backlog and the transport, which has its own flow control behind them.
const OUTBOUND: usize = 16;
/// For the collector to answer the opening of a stream.
const OPEN: Duration = Duration::from_secs(5);
const FIRST_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// An open stream.
#[derive(Debug)]
pub(super) struct Connection {
    /// Updates.
    pub(super) outbound: mpsc::Sender<PushRequest>,
    /// Acknowledgements.
    pub(super) inbound: Streaming<PushResponse>,
}

impl Connection {
    /// Waits `delay`, then connects.
    pub(super) async fn open(endpoint: Endpoint, delay: Duration) -> Result<Self, Status> {
        tokio::time::sleep(delay).await;
        let channel = endpoint.connect().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let (outbound, requests) = mpsc::channel(OUTBOUND);
        let mut client = IngestServiceClient::new(channel);
        let opened = tokio::time::timeout(OPEN, client.push(ReceiverStream::new(requests))).await;
        let response = opened.map_err(|_| Status::deadline_exceeded("it does not answer"))??;
        Ok(Self { outbound, inbound: response.into_inner() })
    }
}

/// The status of a stream that no longer takes messages.
pub(super) async fn why_closed(mut inbound: Streaming<PushResponse>) -> Status {
    let ended = async {
        loop {
            match inbound.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return closed(),
                Err(status) => return status,
            }
        }
    };
    tokio::time::timeout(OPEN, ended).await.unwrap_or_else(|_| closed())
}

/// The status of a stream that ended in order.
pub(super) fn closed() -> Status {
    Status::unavailable("it closed the stream")
}

/// Exponential, with full jitter: the agents of a cluster that lost one collector do not come back all at once.
pub(super) fn jittered_delay(failures: u32) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let longest = FIRST_DELAY.saturating_mul(1 << (failures - 1).min(10)).min(LONGEST_DELAY);
    let random = RandomState::new().hash_one(failures) as f64 / u64::MAX as f64;
    longest.mul_f64(random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempt_is_at_once_and_no_delay_is_longer_than_the_longest() {
        assert_eq!(jittered_delay(0), Duration::ZERO);
        for failures in [1, 2, 5, 40, u32::MAX] {
            assert!((0..100).all(|_| jittered_delay(failures) <= LONGEST_DELAY), "{failures}");
        }
        assert!((0..100).all(|_| jittered_delay(1) <= FIRST_DELAY));
    }

    #[test]
    fn agents_that_fail_together_do_not_come_back_together() {
        let delays: std::collections::HashSet<_> = (0..100).map(|_| jittered_delay(6)).collect();
        assert!(delays.len() > 90);
    }
}
