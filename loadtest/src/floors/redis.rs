//! Redis for BullMQ: durable by its append-only file, as BullMQ's users are told to run it.

use super::{missing, on_path};
use crate::process::Service;
use anyhow::Context;
use rustix::process::Signal;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub fn find() -> anyhow::Result<PathBuf> {
    on_path("redis-server").ok_or_else(|| missing("redis-server", "redis-server"))
}

/// The process goes before its folder.
#[derive(Debug)]
pub struct Server {
    _service: Service,
    pub socket: PathBuf,
    _folder: TempDir,
}

impl Server {
    /// `fsync` is `everysec`, the default of the append-only file, or `always`.
    pub async fn start(program: &Path, scratch: &Path, fsync: &str) -> anyhow::Result<Server> {
        let folder = tempfile::Builder::new().prefix("redis-").tempdir_in(scratch)?;
        let socket = folder.path().join("socket");
        let mut command = Command::new(program);
        command
            .args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", fsync])
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(folder.path());
        let mut service = Service::start("redis-server", &mut command, folder.path(), Signal::KILL)?;
        service.wait_for(|_| Ok(UnixStream::connect(&socket).ok().map(drop))).await.context("no Redis")?;
        Ok(Server { _service: service, socket, _folder: folder })
    }
}
