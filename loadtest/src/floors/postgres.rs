//! PostgreSQL with the settings that it comes with, which are durable ones.

use super::{missing, on_path};
use crate::list::List;
use crate::process::Service;
use anyhow::{Context, ensure};
use rustix::process::{Signal, geteuid};
use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;

const COPY_TIMEOUT: Duration = Duration::from_secs(1800);
/// Where Debian keeps the servers, one folder a version.
const DEBIAN: &str = "/usr/lib/postgresql";
const PROGRAMS: [&str; 3] = ["initdb", "postgres", "psql"];

/// The row that Conveyor keeps: where it is in the list, what it is called, what is to be fetched, how it stands.
const TABLE: &str =
    "CREATE TABLE tasks (idx bigint PRIMARY KEY, external_id text, url text, status smallint DEFAULT 0)";

/// The clock is the server's, around the transaction alone.
const COPY: &str = r"\set ON_ERROR_STOP on
SELECT extract(epoch FROM clock_timestamp()) AS begin \gset
BEGIN;
\copy tasks (idx, external_id, url) FROM pstdin (FORMAT csv)
COMMIT;
SELECT extract(epoch FROM clock_timestamp()) - :begin;
SELECT count(*) FROM tasks;
";

/// Where the programs are, and who may run them.
#[derive(Debug)]
pub struct Programs {
    folder: PathBuf,
    user: Option<User>,
}

/// PostgreSQL does not run as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct User {
    uid: u32,
    gid: u32,
}

impl Programs {
    pub fn find() -> anyhow::Result<Programs> {
        let folder = newest(Path::new(DEBIAN))
            .or_else(|| Some(on_path("initdb")?.parent()?.to_owned()))
            .filter(|folder| PROGRAMS.iter().all(|program| folder.join(program).is_file()))
            .ok_or_else(|| missing("PostgreSQL", "postgresql"))?;
        let user = if geteuid().is_root() {
            let passwd = fs::read_to_string("/etc/passwd")?;
            let found = ["postgres", "nobody"].iter().find_map(|name| user_named(&passwd, name));
            Some(found.context("PostgreSQL does not run as root, and there is no user postgres or nobody")?)
        } else {
            None
        };
        Ok(Programs { folder, user })
    }

    /// An empty cluster that is served on a Unix socket only.
    pub async fn start(&self, scratch: &Path) -> anyhow::Result<Server> {
        let folder = tempfile::Builder::new().prefix("postgres-").tempdir_in(scratch)?;
        if let Some(user) = self.user {
            chown(folder.path(), Some(user.uid), Some(user.gid))?;
        }
        let data = folder.path().join("data");
        let mut initdb = self.command("initdb", folder.path());
        initdb.args(["--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C"]);
        initdb.args(["--no-sync", "--pgdata"]).arg(&data);
        done(tokio::process::Command::from(initdb), "initdb").await?;

        let mut postgres = self.command("postgres", folder.path());
        postgres.args(["-c", "listen_addresses="]).arg("-k").arg(folder.path()).arg("-D").arg(&data);
        // SIGQUIT has it end its children too, which SIGKILL would leave behind.
        let mut service = Service::start("PostgreSQL", &mut postgres, folder.path(), Signal::QUIT)?;
        let program = self.folder.join("psql");
        let ready = || {
            let asked = psql(&program, folder.path()).args(["-c", "SELECT 1"]).output()?;
            Ok(asked.status.success().then_some(()))
        };
        service.wait_for(|_| ready()).await?;
        Ok(Server { psql: program, _service: service, folder })
    }

    fn command(&self, program: &str, folder: &Path) -> Command {
        let mut command = Command::new(self.folder.join(program));
        command.current_dir(folder);
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }
}

/// The process goes before its folder.
#[derive(Debug)]
pub struct Server {
    psql: PathBuf,
    _service: Service,
    folder: TempDir,
}

impl Server {
    pub fn socket_folder(&self) -> &Path {
        self.folder.path()
    }

    /// Copies all rows in one transaction, and says how many seconds it took.
    pub async fn copy(&self, indexed: &List) -> anyhow::Result<f64> {
        let script = self.folder.path().join("copy.sql");
        fs::write(&script, COPY)?;
        let mut create = psql(&self.psql, self.folder.path());
        create.args(["-c", TABLE]);
        done(create.into(), "CREATE TABLE").await?;
        let mut copy = psql(&self.psql, self.folder.path());
        copy.arg("-f").arg(&script);
        let mut copy = tokio::process::Command::from(copy);
        copy.stdin(File::open(&indexed.path)?);
        let answer = done(copy, "COPY").await?;
        let (seconds, rows) = parse_copy(&String::from_utf8_lossy(&answer.stdout))
            .context("psql did not answer with seconds and rows")?;
        ensure!(rows == indexed.rows, "COPY stored {rows} of {} rows", indexed.rows);
        Ok(seconds)
    }
}

/// Quiet, with bare values, and deaf to the settings of whoever runs it.
fn psql(program: &Path, socket_folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["-XqAt", "-U", "postgres", "-d", "postgres", "-h"]).arg(socket_folder);
    command
}

fn parse_copy(answer: &str) -> Option<(f64, u64)> {
    let (seconds, rows) = answer.trim().split_once('\n')?;
    Some((seconds.trim().parse().ok()?, rows.trim().parse().ok()?))
}

async fn done(mut command: tokio::process::Command, what: &str) -> anyhow::Result<Output> {
    let output = timeout(COPY_TIMEOUT, command.kill_on_drop(true).output());
    let output = output.await.with_context(|| format!("{what} takes too long"))??;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{what} failed: {}", said.trim());
    Ok(output)
}

/// The programs of the highest version in Debian's folder.
fn newest(folder: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let newest = versions.filter_map(|name| name.parse::<u32>().ok()).max()?;
    Some(folder.join(newest.to_string()).join("bin"))
}

fn user_named(passwd: &str, name: &str) -> Option<User> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2);
    Some(User { uid: numbers.next()?.parse().ok()?, gid: numbers.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_from_passwd() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/:/bin/false\n";
        assert_eq!(user_named(passwd, "nobody"), Some(User { uid: 65534, gid: 65533 }));
        assert_eq!(user_named(passwd, "postgres"), None);
    }

    #[test]
    fn the_newest_version_is_a_number_not_a_text() {
        let folder = tempfile::tempdir().unwrap();
        ["9", "15", "old"].iter().for_each(|name| fs::create_dir(folder.path().join(name)).unwrap());
        assert_eq!(newest(folder.path()), Some(folder.path().join("15/bin")));
        assert_eq!(newest(&folder.path().join("old")), None);
    }

    #[test]
    fn psql_answers_with_seconds_and_rows() {
        assert_eq!(parse_copy("2.775907\n1000000\n"), Some((2.775907, 1_000_000)));
        assert_eq!(parse_copy(""), None);
    }
}
