//! Build → spawn → drain.

use std::net::SocketAddr;
use std::time::Duration;

use proto::v1::ingest_service_server::IngestServiceServer;
use proto::v1::query_service_server::QueryServiceServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;

use crate::config::Config;
use crate::ingest::{self, Ingest, WriterTask};
use crate::metrics::{Counters, Metrics};
use crate::query::Query;
use crate::store::{Store, StoreError};

/// Why the collector does not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another with {flag}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The flag that sets it.
        flag: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The reflection service cannot be built.
    #[error("reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The gRPC server failed.
    #[error("gRPC server: {0}")]
    Grpc(#[from] tonic::transport::Error),
    /// The HTTP server failed.
    #[error("metrics server: {0}")]
    Http(std::io::Error),
    /// A task panicked.
    #[error("a task ended abnormally: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// A collector whose addresses are bound and whose database is open.
#[derive(Debug)]
pub struct App {
    grpc: TcpListener,
    http: TcpListener,
    store: Store,
    ingest: Ingest,
    query: Query,
    metrics: Metrics,
    writer: WriterTask,
    stop: CancellationToken,
}

/// A collector that serves.
#[derive(Debug)]
pub struct Running {
    /// Address of the gRPC services.
    pub grpc: SocketAddr,
    /// Address of `/metrics`.
    pub http: SocketAddr,
    stop: CancellationToken,
    tasks: JoinSet<Result<(), AppError>>,
}

// === impl App ===

impl App {
    /// Binds the addresses, then opens the database: a second collector on the same machine fails before it opens
    /// the first one's.
    pub async fn build(config: &Config) -> Result<Self, AppError> {
        let grpc = listen(config.listen, "--listen").await?;
        let http = listen(config.metrics_listen, "--metrics-listen").await?;
        let (store, writer) = Store::open(&config.database).await?;
        let stop = CancellationToken::new();
        let counters = Counters::default();
        let (changes, on_change) = watch::channel(0);
        let (ingest, writer) = ingest::new(writer, &counters, changes, stop.clone());
        let query = Query::new(store.clone(), on_change, stop.clone());
        let metrics = Metrics::new(store.clone(), &counters, config.metrics_window);
        Ok(Self { grpc, http, store, ingest, query, metrics, writer, stop })
    }

    /// Serves until drained.
    pub async fn spawn(self) -> Result<Running, AppError> {
        let grpc = local_address(&self.grpc)?;
        let http = local_address(&self.http)?;
        let stop = self.stop;
        let routes = routes(self.ingest, self.query).await?;
        let mut tasks = JoinSet::new();
        let stopped = stop.clone().cancelled_owned();
        tasks.spawn(async move {
            Server::builder()
                .http2_keepalive_interval(Some(Duration::from_secs(20)))
                .add_routes(routes)
                .serve_with_incoming_shutdown(TcpListenerStream::new(self.grpc), stopped)
                .await?;
            Ok(())
        });
        let stopped = stop.clone().cancelled_owned();
        let scrapes = self.metrics.router();
        tasks.spawn(async move {
            axum::serve(self.http, scrapes).with_graceful_shutdown(stopped).await.map_err(AppError::Http)
        });
        let (store, writer) = (self.store, self.writer);
        tasks.spawn(async move { Ok(writer.run(store).await?) });
        Ok(Running { grpc, http, stop, tasks })
    }
}

/// All services of the gRPC address.
async fn routes(ingest: Ingest, query: Query) -> Result<Routes, AppError> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<IngestServiceServer<Ingest>>().await;
    health.set_serving::<QueryServiceServer<Query>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(Routes::new(IngestServiceServer::new(ingest).max_decoding_message_size(proto::MESSAGE_LIMIT_BYTES))
        .add_service(QueryServiceServer::new(query))
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?))
}

async fn listen(address: SocketAddr, flag: &'static str) -> Result<TcpListener, AppError> {
    TcpListener::bind(address).await.map_err(|source| AppError::Listen { address, flag, source })
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr, AppError> {
    listener.local_addr().map_err(AppError::Http)
}

// === impl Running ===

impl Running {
    /// Waits until a part fails. Never returns while all is well.
    pub async fn failed(&mut self) -> AppError {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Err(error))) => return error,
                Some(Err(error)) => return error.into(),
                Some(Ok(Ok(()))) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Stops reading, commits and acknowledges what was read, closes the database. What is not done after `bound` is
    /// dropped unacknowledged, which says to the agents that they must send it again; `false` tells of it.
    pub async fn drain(mut self, bound: Duration) -> Result<bool, AppError> {
        self.stop.cancel();
        let all = async {
            while let Some(ended) = self.tasks.join_next().await {
                ended??;
            }
            Ok(())
        };
        match tokio::time::timeout(bound, all).await {
            Ok(ended) => ended.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}
