//! The steps of the test command, in order.

use crate::aws::{self, Servers};
use crate::build::{Built, EMBEDDED_ONLY, TestBinary};
use crate::exec::Log;
use crate::lanes::Mode;
use crate::rust_tests::Tests;
use crate::workspace::{Variable, Workspace};
use crate::{fuzz, mutations, packages};
use anyhow::{Result, anyhow, ensure};
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub struct Step {
    pub name: &'static str,
    /// What is checked.
    pub what: &'static str,
    /// What it is checked on.
    pub on: &'static str,
    pub lane: Lane,
    /// Whether it is part of `--quick`.
    pub quick: bool,
    pub needs_python: bool,
    pub run: fn(&Run) -> Result<()>,
}

/// Steps of one lane run one after the other; the two lanes run side by side after the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Before everything else, alone.
    First,
    /// Mostly bound by the processor.
    Embedded,
    /// Mostly bound by servers in Python, of which each has one thread.
    Aws,
}

/// What a step works with.
#[derive(Debug)]
pub struct Run<'a> {
    pub workspace: &'a Workspace,
    pub log: &'a Log,
    pub built: &'a Built,
    pub shared: &'a Shared,
    pub scratch: PathBuf,
    /// Parts of the names of tests that cannot run on this machine.
    pub skip: &'a [&'static str],
    pub mode: Mode<'a>,
    /// Whether the filter found something in this step.
    pub matched: AtomicBool,
}

impl Run<'_> {
    /// Notes that the filter found something in this step.
    pub fn matched(&self) {
        self.matched.store(true, Ordering::Relaxed);
    }
}

/// What steps share, made when the first asks for it. A second one that asks waits.
#[derive(Debug, Default)]
pub struct Shared {
    installed: OnceLock<Result<(), String>>,
    servers: OnceLock<Result<Servers, String>>,
    python: OnceLock<Result<PathBuf, String>>,
    node: OnceLock<Result<PathBuf, String>>,
}

impl Shared {
    pub fn install_servers(&self, workspace: &Workspace) -> Result<()> {
        let outcome =
            self.installed.get_or_init(|| aws::install(workspace).map_err(|error| format!("{error:#}")));
        outcome.clone().map_err(|error| anyhow!(error))
    }

    pub fn servers(&self, workspace: &Workspace) -> Result<&Servers> {
        self.install_servers(workspace)?;
        let start = || Servers::start(workspace).map_err(|error| format!("{error:#}"));
        self.servers.get_or_init(start).as_ref().map_err(|error| anyhow!(error.clone()))
    }

    /// Servers, if any were needed.
    pub fn started(&self) -> Option<&Servers> {
        self.servers.get()?.as_ref().ok()
    }

    pub fn python(&self, workspace: &Workspace) -> Result<PathBuf> {
        let install = || packages::python(workspace).map_err(|error| format!("{error:#}"));
        self.python.get_or_init(install).clone().map_err(|error| anyhow!(error))
    }

    pub fn node(&self, workspace: &Workspace) -> Result<PathBuf> {
        let install = || packages::node(workspace).map_err(|error| format!("{error:#}"));
        self.node.get_or_init(install).clone().map_err(|error| anyhow!(error))
    }
}

/// What most steps are.
pub const USUAL: Step = Step {
    name: "",
    what: "",
    on: "",
    lane: Lane::Embedded,
    quick: false,
    needs_python: false,
    run: |_| Ok(()),
};

pub const STEPS: [Step; 13] = [
    Step {
        name: "format",
        what: "every file is formatted",
        on: "the workspace",
        lane: Lane::First,
        quick: true,
        run: |run| run.log.run(&mut run.workspace.cargo(&["fmt", "--all", "--check"])),
        ..USUAL
    },
    Step {
        name: "lints",
        what: "the build had no warnings of the compiler and of clippy; lock files fit; patches of `mutations` apply",
        on: "the workspace, with its tests",
        lane: Lane::First,
        quick: true,
        run: lints,
        ..USUAL
    },
    Step {
        name: "unit",
        what: "tests beside the code",
        on: "every crate",
        quick: true,
        run: |run| Tests::of(|binary| binary.unit).run(run, &[]),
        ..USUAL
    },
    Step {
        name: "integration",
        what: "store conformance, HTTP answers, the gateway client, the simulation",
        on: "every crate but the binary, embedded store",
        quick: true,
        run: |run| {
            let of = if run.mode.quick { is_quick } else { is_integration };
            Tests { threads: 6, ..Tests::of(of) }.run(run, &[])
        },
        ..USUAL
    },
    Step {
        name: "embedded-only",
        what: "the product without AWS: starts, drains a list, refuses what needs AWS",
        on: "a conveyor binary without default features",
        run: embedded_only,
        ..USUAL
    },
    Step {
        name: "process",
        what: "real processes, sockets and files, ended by kill -9",
        on: "the conveyor binary, embedded store",
        run: |run| {
            let tests = Tests {
                under: &[
                    "both::",
                    "embedded::",
                    "files::",
                    "takeover::dump::",
                    "takeover::embedded::",
                    "takeover::times::",
                ],
                threads: 6,
                ..Tests::of(is_process)
            };
            tests.run(run, &[])
        },
        ..USUAL
    },
    Step {
        name: "client",
        what: "the zenrows clients from PyPI and npm, unchanged",
        on: "the conveyor binary, embedded store",
        needs_python: true,
        run: |run| client(run, "conveyor", &[]),
        ..USUAL
    },
    Step {
        name: "schemathesis",
        what: "the API is what it says of itself: schemathesis from PyPI, every check",
        on: "the conveyor binary, embedded store",
        needs_python: true,
        run: schemathesis,
        ..USUAL
    },
    Step {
        name: "fuzz",
        what: "list decoders: random bytes, any split",
        on: "every format and compression",
        run: fuzz::run,
        ..USUAL
    },
    Step {
        name: "servers",
        what: "AWS-compatible servers are installed and start",
        on: "the target directory",
        lane: Lane::Aws,
        run: |run| {
            run.log.say(&run.shared.servers(run.workspace)?.describe());
            Ok(())
        },
        ..USUAL
    },
    Step {
        name: "aws",
        what: "store conformance on DynamoDB, SQS and S3; the servers themselves",
        on: "dynoxide, DynamoDB Local, localstack, ministack",
        lane: Lane::Aws,
        run: |run| {
            let variables = run.shared.servers(run.workspace)?.variables();
            Tests { threads: 12, ..Tests::of(is_aws) }.run(run, &variables)
        },
        ..USUAL
    },
    Step {
        name: "cluster",
        what: "the same as `process`, and every role killed and every service failing at random",
        on: "two processes of every role; DynamoDB (dynoxide), SQS and S3 (localstack)",
        lane: Lane::Aws,
        run: |run| {
            let mut variables = run.shared.servers(run.workspace)?.variables();
            variables.push(("CONVEYOR_TEST_CLUSTER", "1".to_owned()));
            // Each starts eight processes.
            Tests { under: &["both::", "aws::", "takeover::aws::"], threads: 5, ..Tests::of(is_process) }
                .run(run, &variables)
        },
        ..USUAL
    },
    Step {
        name: "client-aws",
        what: "the zenrows clients from PyPI and npm, unchanged",
        on: "two processes of every role; dynoxide, localstack, and ministack for Step Functions",
        lane: Lane::Aws,
        needs_python: true,
        run: |run| {
            let servers = run.shared.servers(run.workspace)?;
            // The one that has Step Functions is not among those that all services are asked of.
            client(run, "cluster", &[servers.environment()?, servers.variables()].concat())
        },
        ..USUAL
    },
];

/// What `--only` takes.
pub fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(STEPS.iter().map(|step| step.name))
}

/// The folder of the package whose tests start real processes.
const BINARY: &str = "conveyor";
/// The folders of the packages whose tests need AWS-compatible servers.
const AWS: [&str; 2] = ["store/aws", "store/aws/servers"];

fn is_process(binary: &TestBinary) -> bool {
    !binary.unit && binary.package == BINARY
}

fn is_aws(binary: &TestBinary) -> bool {
    !binary.unit && AWS.contains(&&*binary.package)
}

fn is_integration(binary: &TestBinary) -> bool {
    !binary.unit && !is_process(binary) && !is_aws(binary)
}

/// Without what takes long: simulated faults, and programs that measure.
fn is_quick(binary: &TestBinary) -> bool {
    is_integration(binary) && !["sim", "loadtest"].contains(&&*binary.package)
}

fn lints(run: &Run) -> Result<()> {
    fuzz::lock_file_fits(run.workspace, run.log)?;
    mutations::all_apply(run.workspace, run.log)?;
    for warning in &run.built.warnings {
        run.log.say(warning.trim_end());
    }
    ensure!(run.built.warnings.is_empty(), "{} warnings", run.built.warnings.len());
    Ok(())
}

/// A small list through the real binary, and what a build without AWS says of AWS.
fn embedded_only(run: &Run) -> Result<()> {
    if run.mode.filter.is_some_and(|part| !"embedded-only".contains(part)) {
        return Ok(());
    }
    run.matched();
    let mut command = run.workspace.command("sh");
    command.arg("xtask/embedded_only.sh").arg(run.workspace.binary(EMBEDDED_ONLY));
    run.log.run(command.env("TMPDIR", &run.scratch))
}

fn client(run: &Run, server: &str, variables: &[Variable]) -> Result<()> {
    let mut pytest = Command::new(run.shared.python(run.workspace)?);
    pytest.current_dir(&run.workspace.root);
    // Two at once: the tests mostly wait. Plugins are named, because to load those that nothing uses takes seconds.
    pytest.args(["-m", "pytest", "-p", "xdist", "-n", "2", "--dist", "loadgroup"]);
    pytest.args(["-p", "no:cacheprovider", "-ra", "--strict-markers", "conveyor/tests/client"]);
    if let Some(part) = run.mode.filter {
        pytest.args(["-k", part]);
    }
    if run.mode.soak_time.is_some() {
        pytest.env("CONVEYOR_SOAK", "1");
    }
    pytest
        .env("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TMPDIR", &run.scratch)
        .env("NODE_CLIENT", run.shared.node(run.workspace)?)
        .env("CONVEYOR_BIN", run.workspace.binary(server))
        .env("LOADTEST_BIN", run.workspace.binary("loadtest"))
        .envs(variables.iter().map(|(name, value)| (name, value)));
    let status = run.log.status(&mut pytest)?;
    // Pytest's own code for "nothing selected".
    if run.mode.filter.is_some() && status.code() == Some(5) {
        return Ok(());
    }
    run.matched();
    ensure!(status.success(), "pytest: {status}");
    Ok(())
}

/// Cases of each operation: enough to find what is wrong at the edges, few enough for minutes. Always the same ones: what is
/// found is found again. By hand, `run.py` takes others each time.
const CASES: [&str; 4] = ["--max-examples", "20", "--seed", "7"];

fn schemathesis(run: &Run) -> Result<()> {
    if run.mode.filter.is_some_and(|part| !"schemathesis".contains(part)) {
        return Ok(());
    }
    run.matched();
    let mut python = Command::new(run.shared.python(run.workspace)?);
    python.current_dir(&run.workspace.root).arg("conveyor/tests/schemathesis/run.py").args(CASES);
    python
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TMPDIR", &run.scratch)
        .env("CONVEYOR_BIN", run.workspace.binary("conveyor"));
    run.log.run(&mut python)
}
