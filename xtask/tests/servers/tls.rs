//! HTTP/1.1 inside TLS: jcold counts the requests and times them, and cannot know what they ask.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, version};
use xtask::http::Connection;
use xtask::load::{self, Call, MIX, Sent};
use xtask::server::{CERTIFICATE, Server};
use xtask::timeline::{list, number};
use xtask::traced::Traced;

use crate::counts::{WAVES, assert_counts};

/// A client that trusts the testbed's certificate. It resumes sessions where the server offers it.
fn client(keys: &Path, version: &'static SupportedProtocolVersion) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let certificate = keys.join(CERTIFICATE);
    let trusted = CertificateDer::from_pem_file(&certificate).context(certificate.display().to_string())?;
    roots.add(trusted)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version])?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn connect(
    port: u16,
    config: &Arc<ClientConfig>,
) -> Result<Connection<StreamOwned<ClientConnection, TcpStream>>> {
    let session = ClientConnection::new(Arc::clone(config), ServerName::try_from("localhost")?)?;
    Ok(Connection::open(port)?.wrap(|stream| StreamOwned::new(session, stream)))
}

/// The last connections speak TLS 1.2.
fn every_request_is_counted_once(server: Server) -> Result<()> {
    // The User-Agent is inside, so that nobody but the sender knows a probe.
    let mix: Vec<Call> = MIX.into_iter().filter(|call| !call.probe).collect();
    let mut traced = Traced::serve(server)?;
    let mut total = 0;
    let mut opened = 0;
    for version in [&version::TLS13, &version::TLS12] {
        let client = client(traced.dir(), version)?;
        for (requests, connections) in WAVES {
            let connect = || connect(traced.port(), &client);
            total += load::drive(connect, &mix, requests / 2, connections)?.user_total();
            opened += connections as u64;
        }
        // A handshake and nothing else is a connection without a request.
        connect(traced.port(), &client)?.into_stream().flush()?;
        opened += 1;
    }

    let timeline = traced.finish()?;
    let mut sent = Sent::default();
    sent.add("", "~tls", total);
    assert_counts(&timeline, &sent);
    for request in list(&timeline.value["requests"]) {
        assert_eq!(request["protocol"], "tls", "{request}");
        assert_eq!(request.get("status"), None, "{request}");
    }
    let inbound = list(&timeline.value["inbound"]).find(|entry| entry["protocol"] == "tls");
    let of = |name: &str| inbound.and_then(|entry| number(&entry[name]));
    assert_eq!((of("connections"), of("requests")), (Some(opened), Some(total)));
    Ok(())
}

#[test]
fn tomcat_jsse() -> Result<()> {
    every_request_is_counted_once(Server::TomcatTls)
}

#[test]
fn netty_openssl() -> Result<()> {
    every_request_is_counted_once(Server::NettyTls)
}
