//! A `PostgreSQL` server of its own: a new cluster in a temporary folder, on a free loopback port, gone at the end.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::unistd::{User, chown, geteuid};
use tempfile::TempDir;

use crate::process::Process;
use crate::{http, process};

const START_BOUND: Duration = Duration::from_secs(30);
const USERS: &str = "create table users (id bigint primary key, name text not null, email text not null);
    insert into users select n, 'User ' || n, 'user' || n || '@example.org' from generate_series(1, 1000) n;
    analyze users;";

/// A running server with a `users` table of 1,000 rows.
#[derive(Debug)]
pub struct Postgres {
    process: Process,
    port: u16,
    // The server is in it: it goes last. Not under target/, which its unprivileged user may not be able to reach.
    _cluster: TempDir,
}

impl Postgres {
    /// Creates a cluster and starts its server, with its log in `logs`.
    pub fn start(logs: &Path) -> Result<Self> {
        let programs = programs().context("no PostgreSQL server programs: run `cargo xtask setup`")?;
        let cluster =
            tempfile::Builder::new().prefix("jcold-postgres-").tempdir().context("make a folder")?;
        let owner = Owner::choose()?;
        owner.give(cluster.path())?;

        let mut initdb = Command::new(programs.join("initdb"));
        initdb.args(["--no-sync", "--auth=trust", "--username=jcold", "--encoding=UTF8", "--locale=C", "-D"]);
        initdb.arg(cluster.path());
        complete(owner.run(&mut initdb).current_dir(cluster.path()))?;

        let port = http::free_port()?;
        let mut server = Command::new(programs.join("postgres"));
        server.arg("-D").arg(cluster.path()).args(["-p", &port.to_string()]);
        for setting in
            ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "log_min_messages=info"]
        {
            server.args(["-c", setting]);
        }
        owner.run(&mut server).current_dir(cluster.path());
        let ready = "database system is ready to accept connections";
        let mut process = Process::start("postgres", &mut server, &logs.join("postgres.log"), ready)?;
        process.await_ready(START_BOUND)?;

        let postgres = Self { process, port, _cluster: cluster };
        let mut psql = Command::new(programs.join("psql"));
        psql.args(["-q", "-X", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "jcold", "-d", "postgres"]);
        psql.args(["-p", &port.to_string(), "-c", USERS]);
        complete(&mut psql)?;
        Ok(postgres)
    }

    /// Address for JDBC; the user is `jcold`, without a password.
    pub fn jdbc_url(&self) -> String {
        format!("jdbc:postgresql://127.0.0.1:{}/postgres", self.port)
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Fails when the server has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        self.process.check_alive()
    }
}

/// Folder of the newest server programs.
pub fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok();
    let newest = versions
        .into_iter()
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter_map(|path| Some((path.file_name()?.to_str()?.parse::<u32>().ok()?, path.join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").is_file())
        .max();
    newest.map(|(_, bin)| bin).or_else(|| {
        env::var_os("PATH").and_then(|path| env::split_paths(&path).find(|dir| dir.join("initdb").is_file()))
    })
}

/// Whom the server runs as: it refuses to run as root.
enum Owner {
    Myself,
    Other(User),
}

impl Owner {
    fn choose() -> Result<Self> {
        if !geteuid().is_root() {
            return Ok(Self::Myself);
        }
        for name in ["postgres", "nobody"] {
            if let Some(user) = User::from_name(name).with_context(|| format!("look up user {name}"))? {
                return Ok(Self::Other(user));
            }
        }
        bail!("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
    }

    fn give(&self, folder: &Path) -> Result<()> {
        match self {
            Self::Myself => Ok(()),
            Self::Other(user) => chown(folder, Some(user.uid), Some(user.gid))
                .with_context(|| format!("give {} to {}", folder.display(), user.name)),
        }
    }

    fn run<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        if let Self::Other(user) = self {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command
    }
}

fn complete(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("start {}", process::line(command)))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("`{}` failed ({})\n{words}", process::line(command), output.status);
    }
    Ok(())
}
