//! Answers questions about timelines.

use std::pin::Pin;

use futures_util::Stream;
use proto::v1::query_service_server::QueryService;
use proto::v1::{
    GetTimelineRequest, GetTimelineResponse, ListTimelinesRequest, ListTimelinesResponse,
    WatchTimelinesRequest, WatchTimelinesResponse,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::store::{Filter, Place, Store, StoreError};

const DEFAULT_PAGE: u32 = 100;
const LARGEST_PAGE: u32 = 1000;
/// Ids that a watcher reads at a time.
const WATCH_PAGE: u32 = 256;
/// Ids that an ambiguous prefix is answered with.
const CANDIDATES: u32 = 5;

/// The gRPC service.
#[derive(Clone, Debug)]
pub struct Query {
    store: Store,
    changes: watch::Receiver<u64>,
    stop: CancellationToken,
}

impl Query {
    /// `changes` moves after each transaction that changed a timeline; `stop` ends all watches.
    pub fn new(store: Store, changes: watch::Receiver<u64>, stop: CancellationToken) -> Self {
        Self { store, changes, stop }
    }

    /// Sends what changed since the last look, as it is now: a slow watcher misses steps between, never a state.
    fn watch(self, filter: Filter) -> impl Stream<Item = Result<WatchTimelinesResponse, Status>> {
        let Self { store, mut changes, stop } = self;
        async_stream::try_stream! {
            let mut seen = 0;
            loop {
                changes.borrow_and_update();
                let up_to = store.last_change().await.map_err(failed)?;
                while seen < up_to {
                    let page = store.changed(&filter, seen, up_to, WATCH_PAGE).await.map_err(failed)?;
                    seen = page.last().filter(|_| page.len() == WATCH_PAGE as usize).map_or(up_to, |last| last.0);
                    for (_, id) in page {
                        let timeline = store.get(&id).await.map_err(failed)?;
                        yield WatchTimelinesResponse { timeline };
                    }
                }
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { break },
                    () = stop.cancelled() => break,
                }
            }
        }
    }
}

#[tonic::async_trait]
impl QueryService for Query {
    type WatchTimelinesStream = Pin<Box<dyn Stream<Item = Result<WatchTimelinesResponse, Status>> + Send>>;

    async fn list_timelines(
        &self,
        request: Request<ListTimelinesRequest>,
    ) -> Result<Response<ListTimelinesResponse>, Status> {
        let ListTimelinesRequest { filter, page_size, page_token } = request.into_inner();
        let after = match page_token.as_str() {
            "" => None,
            token => Some(place(token).ok_or_else(|| {
                Status::invalid_argument(format!("page_token {token:?} is not one that ListTimelines gave"))
            })?),
        };
        let size = if page_size == 0 { DEFAULT_PAGE } else { page_size.min(LARGEST_PAGE) };
        let filter = filter.unwrap_or_default().into();
        let mut page = self.store.list(&filter, after.as_ref(), size + 1).await.map_err(failed)?;
        let more = page.len() > size as usize;
        page.truncate(size as usize);
        let next_page_token =
            page.last().filter(|_| more).map_or_else(String::new, |(place, _)| token(place));
        let timelines = page.into_iter().map(|(_, timeline)| timeline).collect();
        Ok(Response::new(ListTimelinesResponse { timelines, next_page_token }))
    }

    async fn get_timeline(
        &self,
        request: Request<GetTimelineRequest>,
    ) -> Result<Response<GetTimelineResponse>, Status> {
        let id = request.into_inner().id;
        if id.is_empty() {
            return Err(Status::invalid_argument("id is empty"));
        }
        let mut candidates = self.store.ids_with_prefix(&id, CANDIDATES + 1).await.map_err(failed)?;
        // The shortest comes first, so an id that is also a prefix of others is found as itself.
        if candidates.len() > 1 && candidates[0] != id {
            let more = if candidates.len() > CANDIDATES as usize { ", …" } else { "" };
            candidates.truncate(CANDIDATES as usize);
            let some = candidates.join(", ");
            return Err(Status::invalid_argument(format!("id {id:?} is ambiguous: {some}{more}")));
        }
        let unknown = || Status::not_found(format!("there is no timeline {id:?}"));
        let known = candidates.first().ok_or_else(unknown)?;
        let timeline = self.store.get(known).await.map_err(failed)?.ok_or_else(unknown)?;
        Ok(Response::new(GetTimelineResponse { timeline: Some(timeline) }))
    }

    async fn watch_timelines(
        &self,
        request: Request<WatchTimelinesRequest>,
    ) -> Result<Response<Self::WatchTimelinesStream>, Status> {
        let filter = request.into_inner().filter.unwrap_or_default().into();
        Ok(Response::new(Box::pin(self.clone().watch(filter))))
    }
}

/// A place in a list as text. It names the last timeline of a page, so new timelines move no page.
fn token(place: &Place) -> String {
    format!("{:x}.{}", place.exec_at_ns, place.id)
}

fn place(token: &str) -> Option<Place> {
    let (exec_at_ns, id) = token.split_once('.')?;
    let exec_at_ns = u64::from_str_radix(exec_at_ns, 16).ok()?.cast_signed();
    Some(Place { exec_at_ns, id: id.to_owned() })
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
fn failed(error: StoreError) -> Status {
    tracing::error!(%error, "a query failed");
    Status::internal(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gives_its_place_back() {
        for exec_at_ns in [i64::MIN, -1, 0, 1_767_225_600_250_000_000] {
            let original = Place { exec_at_ns, id: "00c0ffee00c0ffee".into() };
            assert_eq!(place(&token(&original)), Some(original));
        }
    }

    #[test]
    fn a_made_up_token_has_no_place() {
        for made_up in ["x", "zz.1", "12345", "."] {
            assert_eq!(place(made_up), None, "{made_up}");
        }
    }
}
