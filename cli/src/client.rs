//! Asks the collector.

use std::time::Duration;

use proto::address::{AddressError, cause, reason};
use proto::v1::query_service_client::QueryServiceClient;
use proto::v1::{GetTimelineRequest, ListTimelinesRequest, ListTimelinesResponse, Timeline, TimelineFilter};
use tonic::transport::Channel;
use tonic::{Code, Status};

/// For one answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest page that the collector gives.
const PAGE: u32 = 1000;

/// A connection to a collector.
#[derive(Debug)]
pub struct Client {
    collector: String,
    query: QueryServiceClient<Channel>,
}

/// Why there is no answer. One line each, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The collector is not there.
    #[error(
        "cannot reach the collector at {collector}: {reason}: \
         start jcold-collector, or name another with --collector URL or JCOLD_COLLECTOR"
    )]
    Away {
        /// Its address.
        collector: String,
        /// The innermost cause.
        reason: String,
    },
    /// There is no such timeline.
    #[error("timeline {id:?} not found at {collector}: list them with: jcold get timelines")]
    NotFound {
        /// What was asked for.
        id: String,
        /// The collector's address.
        collector: String,
    },
    /// The collector refused or failed.
    #[error("the collector at {collector} says: {}", reason(status))]
    Refused {
        /// Its address.
        collector: String,
        /// Its answer.
        status: Box<Status>,
    },
}

// === impl Client ===

impl Client {
    /// Connects.
    pub async fn connect(collector: &str) -> Result<Self, ClientError> {
        let endpoint = proto::address::endpoint(collector)?.timeout(TIMEOUT);
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| ClientError::Away { collector: collector.to_owned(), reason: cause(&error) })?;
        let query = QueryServiceClient::new(channel).max_decoding_message_size(proto::MESSAGE_LIMIT_BYTES);
        Ok(Self { collector: collector.to_owned(), query })
    }

    /// At most `limit` timelines, newest first, and the token of what follows when there is more.
    pub async fn list(
        &mut self,
        filter: TimelineFilter,
        limit: u32,
    ) -> Result<ListTimelinesResponse, ClientError> {
        let mut list = ListTimelinesResponse::default();
        loop {
            let listed = u32::try_from(list.timelines.len()).unwrap_or(u32::MAX);
            let request = ListTimelinesRequest {
                filter: Some(filter.clone()),
                page_size: limit.saturating_sub(listed).min(PAGE),
                page_token: list.next_page_token.clone(),
            };
            let page =
                self.query.list_timelines(request).await.map_err(|status| self.refused(status))?.into_inner();
            list.timelines.extend(page.timelines);
            list.next_page_token = page.next_page_token;
            if list.next_page_token.is_empty() || list.timelines.len() >= limit as usize {
                return Ok(list);
            }
        }
    }

    /// One timeline, whole, by its id or a prefix of it.
    pub async fn get(&mut self, id: &str) -> Result<Timeline, ClientError> {
        let not_found = || ClientError::NotFound { id: id.to_owned(), collector: self.collector.clone() };
        match self.query.get_timeline(GetTimelineRequest { id: id.to_owned() }).await {
            Ok(response) => response.into_inner().timeline.ok_or_else(not_found),
            Err(status) if status.code() == Code::NotFound => Err(not_found()),
            Err(status) => Err(self.refused(status)),
        }
    }

    fn refused(&self, status: Status) -> ClientError {
        ClientError::Refused { collector: self.collector.clone(), status: Box::new(status) }
    }
}
