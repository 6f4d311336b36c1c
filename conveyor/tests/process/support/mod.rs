//! What is specific to Conveyor: its servers, gateways and API. Processes, waits and sizes come from the test kit.

mod client;
mod gateway;
mod socket;
pub mod stored;
pub mod wall_clock;

pub use client::{Client, list, urls};
pub use conveyor_testkit::{DEADLINE, Process, Signal, refused, run, sized, until, until_fits};
pub use gateway::Gateway;
pub use socket::until_read;

use conveyor_aws_servers::{Combination, Environment};
use conveyor_testkit::command;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const KEY: &str = "test-key-0123456789";
pub const OTHER_KEY: &str = "other-key-0123456789";

/// Whether servers are started as two processes of every role on the AWS backend instead of as one on the embedded store.
pub fn on_aws() -> bool {
    std::env::var_os("CONVEYOR_TEST_CLUSTER").is_some()
}

pub fn conveyor() -> Command {
    command(env!("CARGO_BIN_EXE_conveyor"))
}

/// A program of another package of the workspace, next to the one under test.
pub fn sibling(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_conveyor")).with_file_name(name);
    assert!(path.exists(), "{} is missing: run `cargo build -p conveyor-loadtest` first", path.display());
    path
}

/// `conveyor dev` in a folder.
pub fn embedded_command(data_dir: &Path, flags: &[&str]) -> Command {
    dev(conveyor(), data_dir, flags)
}

pub fn embedded(data_dir: &Path, flags: &[&str]) -> Process {
    Process::start(embedded_command(data_dir, flags))
}

/// `conveyor dev` in a folder, or the same as a cluster.
pub fn server_command(data_dir: &Path, flags: &[&str]) -> Command {
    if !on_aws() {
        return embedded_command(data_dir, flags);
    }
    let environment = Environment::shared(Combination::Default).expect("AWS-compatible servers");
    let mut server = dev(command(sibling("cluster")), data_dir, flags);
    server.envs(environment.variables());
    // Longer than a process stalls on a busy machine: no message is delivered twice without a kill.
    server.env("CONVEYOR_VISIBILITY_MS", "30000").env("CONVEYOR_AWS_QUEUE_EMPTY_AFTER_MS", "2000");
    server
}

/// Flags of a server that the test kills: on AWS, messages that a killed process held come back after this time.
pub fn killable() -> &'static [&'static str] {
    if on_aws() { &["--visibility-ms", "3000"] } else { &[] }
}

/// The API alone of the server of this folder, which must have ended: it shows what is stored, and nothing moves on.
pub fn api_alone(data_dir: &Path) -> Process {
    let mut api = conveyor();
    api.args(["api", "--listen", "127.0.0.1:0", "--api-key", KEY, "--gateway-url", "null:", "--data-dir"]);
    api.env("CONVEYOR_LOG", "warn");
    if !on_aws() {
        api.arg(data_dir);
        return Process::start(api);
    }
    let environment = Environment::shared(Combination::Default).expect("AWS-compatible servers");
    let name = stored::cluster_name(data_dir);
    let place = ["--aws-table", &name, "--aws-queue-prefix", &name, "--aws-bucket", &name];
    api.arg(data_dir.join("api-alone")).args(["--backend", "aws"]).args(place);
    let secret = std::fs::read_to_string(data_dir.join("cluster-secret")).unwrap();
    api.env("CONVEYOR_SECRET_KEY", secret).envs(environment.variables());
    Process::start(api)
}

pub fn server(data_dir: &Path, flags: &[&str]) -> Process {
    Process::start(server_command(data_dir, flags))
}

fn dev(mut program: Command, data_dir: &Path, flags: &[&str]) -> Command {
    program.args(["dev", "--listen", "127.0.0.1:0", "--api-key", KEY, "--api-key", OTHER_KEY]);
    program.arg("--data-dir").arg(data_dir).args(flags).env("CONVEYOR_LOG", "warn");
    program
}

/// The gateway of the load test: a real HTTP service whose answers the target URL decides.
pub fn scripted_gateway(flags: &[&str]) -> Process {
    let mut command = Command::new(sibling("loadtest"));
    command.args(["gateway", "--listen", "127.0.0.1:0"]).args(flags);
    Process::start(command)
}

/// A proxy of the load test in front of a server that speaks like an AWS service.
pub fn proxy(service: &str, upstream: &str) -> Process {
    let mut command = Command::new(sibling("loadtest"));
    command.args(["proxy", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]);
    command.args(["--service", service, "--upstream", upstream]);
    Process::start(command)
}
