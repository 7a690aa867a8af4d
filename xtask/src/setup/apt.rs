//! Installs Debian packages without starting their services: jcold runs servers of its own, in folders of its own.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use nix::unistd::geteuid;

use super::needs::{self, Look};
use crate::step;

/// Debian's own switch: while this file exits with 101, no package's installation starts a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Whether packages can be installed here.
pub fn usable() -> bool {
    needs::is_debian() && geteuid().is_root() && matches!(needs::on_path("apt-get"), Look::There(_))
}

/// apt, with services held back while it lives.
pub struct Apt {
    holds_services: bool,
    updated: Cell<bool>,
}

impl Apt {
    /// Holds services back, unless the machine has a policy of its own.
    pub fn open() -> Result<Self> {
        let holds_services = !Path::new(POLICY).exists();
        if holds_services {
            fs::write(POLICY, "#!/bin/sh\nexit 101\n").with_context(|| format!("write {POLICY}"))?;
            fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755))
                .with_context(|| POLICY.to_owned())?;
        }
        Ok(Self { holds_services, updated: Cell::new(false) })
    }

    /// Installs packages; the first call brings the package lists up to date.
    pub fn install(&self, packages: &[&str]) -> Result<()> {
        if !self.updated.replace(true) {
            step::run("update", "package lists", Command::new("apt-get").args(["-q", "update"]))?;
        }
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
            .args(["-q", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0", "install"])
            .args(packages);
        step::run("install", &packages.join(" "), &mut command)
    }
}

impl Drop for Apt {
    fn drop(&mut self) {
        if self.holds_services
            && let Err(error) = fs::remove_file(POLICY)
        {
            eprintln!(
                "could not remove {POLICY}: {error}; remove it, or packages will not start their services"
            );
        }
    }
}
