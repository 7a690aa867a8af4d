//! Asks the collector for what an earlier run of the agent has told it.

use std::time::Duration;

use proto::address::AddressError;
use proto::v1::query_service_client::QueryServiceClient;
use proto::v1::{GetTimelineRequest, Timeline};
use tonic::{Code, Status};

/// Why a timeline could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The address is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The collector did not answer in time.
    #[error("collector {collector} did not answer within {timeout:?} when asked for timeline {id}")]
    Timeout {
        /// Its address.
        collector: String,
        /// Which timeline.
        id: String,
        /// For so long.
        timeout: Duration,
    },
    /// The collector cannot be reached.
    #[error("collector {collector} cannot be reached: {}", proto::address::cause(source))]
    Away {
        /// Its address.
        collector: String,
        /// What failed.
        source: tonic::transport::Error,
    },
    /// The collector refused.
    #[error("collector {collector} does not give timeline {id}: {}", proto::address::reason(status))]
    Refused {
        /// Its address.
        collector: String,
        /// Which timeline.
        id: String,
        /// What it said.
        status: Box<Status>,
    },
}

/// The timeline as the collector has it; `None` when it has none.
pub async fn fetch_timeline(
    collector: &str,
    id: &str,
    timeout: Duration,
) -> Result<Option<Timeline>, FetchError> {
    let endpoint = proto::address::endpoint(collector)?;
    let fetch = async {
        let channel = endpoint
            .connect()
            .await
            .map_err(|source| FetchError::Away { collector: collector.to_owned(), source })?;
        let mut client =
            QueryServiceClient::new(channel).max_decoding_message_size(proto::MESSAGE_LIMIT_BYTES);
        match client.get_timeline(GetTimelineRequest { id: id.to_owned() }).await {
            // The collector takes a prefix too; an agent means exactly one process.
            Ok(response) => Ok(response.into_inner().timeline.filter(|timeline| timeline.id == id)),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(FetchError::Refused {
                collector: collector.to_owned(),
                id: id.to_owned(),
                status: Box::new(status),
            }),
        }
    };
    tokio::time::timeout(timeout, fetch).await.unwrap_or_else(|_| {
        Err(FetchError::Timeout { collector: collector.to_owned(), id: id.to_owned(), timeout })
    })
}
