//! `jcold`: shows what the collector knows.
#![forbid(unsafe_code)]

mod args;
mod client;
mod run;

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let printed = match run::run(cli).await {
        Ok(printed) => printed,
        Err(error) => {
            eprintln!("jcold: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_all(printed.text.as_bytes()).and_then(|()| stdout.flush())
        // The reader, `head` for instance, has seen enough.
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("jcold: cannot write to stdout: {error}");
        return ExitCode::FAILURE;
    }
    if let Some(remark) = printed.remark {
        eprintln!("jcold: {remark}");
    }
    ExitCode::SUCCESS
}
