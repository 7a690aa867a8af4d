//! The servers that jcold is tested with: the same small set of routes on each.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::jdk::{self, Jdk};
use crate::{repo, step};

/// Oldest Java release with virtual threads.
pub const VIRTUAL_THREADS: u32 = 21;
/// Password of a key store that is made for one test and protects nothing.
const PASSWORD: &str = "changeit";
const KEY_STORE: &str = "testbed.p12";
/// The certificate to trust, PEM, in the folder that [`Server::command`] was given.
pub const CERTIFICATE: &str = "testbed.pem";

/// A server of the testbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Server {
    /// Spring MVC on Tomcat's NIO connector
    Tomcat,
    /// The same on virtual threads (JDK 21 and later)
    TomcatVirtual,
    /// The same inside TLS, by the JDK's own JSSE
    TomcatTls,
    /// Jetty 12
    Jetty,
    /// Undertow
    Undertow,
    /// Netty on the JDK's NIO, HTTP/1.1 and HTTP/2
    Netty,
    /// Netty on its own epoll
    NettyEpoll,
    /// Netty inside TLS, by its own OpenSSL
    NettyTls,
    /// com.sun.net.httpserver of the JDK
    Jdk,
    /// grpc-java on Netty
    Grpc,
}

impl Server {
    /// The command that runs it on a port of loopback. A TLS server's key store and [`CERTIFICATE`] are made in the
    /// folder `keys` unless they are there.
    pub fn command(self, port: u16, keys: &Path) -> Result<Vec<String>> {
        let jdk = jdk::choose()?;
        let mut words = vec![jdk.java().display().to_string()];
        match self {
            Self::Tomcat => words.extend(spring(port)?),
            Self::TomcatVirtual => {
                if jdk.feature < VIRTUAL_THREADS {
                    bail!(
                        "virtual threads need a JDK from {VIRTUAL_THREADS} on, {} is {}; name one in JCOLD_JAVA_HOME",
                        jdk.home.display(),
                        jdk.version
                    );
                }
                words.extend(spring(port)?);
                words.push("--spring.threads.virtual.enabled=true".into());
            }
            Self::TomcatTls => {
                let keys = make_keys(&jdk, keys)?;
                words.extend(spring(port)?);
                words.push(format!("--server.ssl.key-store={keys}"));
                words.push(format!("--server.ssl.key-store-password={PASSWORD}"));
            }
            Self::Jetty => words.extend(small("JettyServer", port, &[])?),
            Self::Undertow => words.extend(small("UndertowServer", port, &[])?),
            Self::Netty => words.extend(small("NettyServer", port, &["nio"])?),
            Self::NettyEpoll => words.extend(small("NettyServer", port, &["epoll"])?),
            Self::NettyTls => {
                let keys = make_keys(&jdk, keys)?;
                words.extend(small("NettyServer", port, &["nio", &keys, PASSWORD])?);
            }
            Self::Jdk => words.extend(small("JdkServer", port, &[])?),
            Self::Grpc => words.extend(small("GrpcServer", port, &[])?),
        }
        Ok(words)
    }

    /// What it prints once it serves.
    pub fn ready_line(self) -> &'static str {
        if self.is_spring() { "Started TestbedApplication" } else { "serving on" }
    }

    /// It is the Spring testbed: its `/users/{id}` needs the database, and it has readiness probes.
    pub fn is_spring(self) -> bool {
        matches!(self, Self::Tomcat | Self::TomcatVirtual | Self::TomcatTls)
    }

    /// Its address, for a person.
    pub fn url(self, port: u16) -> String {
        let scheme = match self {
            Self::TomcatTls | Self::NettyTls => "https",
            Self::Grpc => "grpc",
            _ => "http",
        };
        format!("{scheme}://127.0.0.1:{port}")
    }
}

/// The Spring testbed with neither database nor stub: a pool that nobody asks is never opened.
fn spring(port: u16) -> Result<Vec<String>> {
    Ok(vec![
        "-jar".into(),
        repo::spring_jar()?.display().to_string(),
        "--server.address=127.0.0.1".into(),
        format!("--server.port={port}"),
        "--spring.datasource.url=jdbc:postgresql://127.0.0.1/none".into(),
    ])
}

fn small(class: &str, port: u16, arguments: &[&str]) -> Result<Vec<String>> {
    let jar = repo::servers_jar()?.display().to_string();
    let mut words = vec!["-cp".into(), jar, format!("dev.jcold.servers.{class}"), port.to_string()];
    words.extend(arguments.iter().map(|&argument| argument.to_owned()));
    Ok(words)
}

/// Makes a key with its certificate for loopback; the key store's path.
fn make_keys(jdk: &Jdk, dir: &Path) -> Result<String> {
    let store = dir.join(KEY_STORE);
    let certificate = dir.join(CERTIFICATE);
    if !certificate.is_file() {
        std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        let keytool = || {
            let mut keytool = Command::new(jdk.home.join("bin/keytool"));
            keytool.args(["-alias", "testbed", "-storetype", "PKCS12", "-storepass", PASSWORD]);
            keytool.arg("-keystore").arg(&store);
            keytool
        };
        let names = ["-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1,dns:localhost"];
        step::run("make", "key store", keytool().args(["-genkeypair", "-keyalg", "EC"]).args(names))?;
        step::run("make", "certificate", keytool().args(["-exportcert", "-rfc", "-file"]).arg(&certificate))?;
    }
    Ok(store.display().to_string())
}
