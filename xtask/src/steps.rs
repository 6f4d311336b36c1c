//! The steps of the test command, in order.

use crate::workspace::{Variable, Workspace, done};
use crate::{aws, fuzz, python};
use anyhow::{Result, ensure};
use clap::builder::PossibleValuesParser;

pub struct Step {
    pub name: &'static str,
    /// What is checked.
    pub what: &'static str,
    /// What it is checked on.
    pub on: &'static str,
    /// Whether no later step can run if this one fails.
    pub others_need_it: bool,
    pub run: fn(&Workspace) -> Result<()>,
}

pub const STEPS: [Step; 13] = [
    Step {
        name: "format",
        what: "every file is formatted",
        on: "the workspace",
        others_need_it: false,
        run: |w| w.cargo(&["fmt", "--all", "--check"]),
    },
    Step {
        name: "lints",
        what: "no warnings of the compiler and of clippy; lock files fit their manifests",
        on: "the workspace, with its tests",
        others_need_it: false,
        run: |w| {
            fuzz::lock_file_fits(w)?;
            w.cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
        },
    },
    Step {
        name: "build",
        what: "everything builds; later steps start these binaries",
        on: "the workspace",
        others_need_it: true,
        run: build,
    },
    Step {
        name: "unit",
        what: "tests beside the code",
        on: "every crate",
        others_need_it: false,
        run: |w| w.cargo(&["test", "--workspace", "--locked", "--lib", "--bins"]),
    },
    Step {
        name: "servers",
        what: "AWS-compatible servers are installed",
        on: "the target directory",
        others_need_it: false,
        run: aws::install,
    },
    Step {
        name: "integration",
        what: "store conformance, HTTP answers, the gateway client",
        on: "every crate but the binary, embedded store",
        others_need_it: false,
        run: |w| integration_tests(w, &Tests::of(|folder| folder != BINARY && !AWS.contains(&folder)), &[]),
    },
    Step {
        name: "aws",
        what: "store conformance on DynamoDB, SQS and S3; the servers themselves",
        on: "dynoxide, DynamoDB Local, localstack, ministack",
        others_need_it: false,
        run: |w| {
            let servers = aws::Servers::start(w)?;
            integration_tests(w, &Tests::of(|folder| AWS.contains(&folder)), &servers.variables())
        },
    },
    Step {
        name: "fuzz",
        what: "list decoders: random bytes, any split",
        on: "every format and compression",
        others_need_it: false,
        run: fuzz::run,
    },
    Step {
        name: "process",
        what: "real processes, sockets and files, ended by kill -9",
        on: "the conveyor binary, embedded store",
        others_need_it: false,
        run: |w| integration_tests(w, &Tests { but: &ONLY_AWS, ..Tests::of(|folder| folder == BINARY) }, &[]),
    },
    Step {
        name: "cluster",
        what: "the same, and every role killed and every service failing at random",
        on: "two processes of every role; DynamoDB (dynoxide), SQS and S3 (localstack)",
        others_need_it: false,
        run: cluster,
    },
    Step {
        name: "client",
        what: "the zenrows client from PyPI, unchanged",
        on: "the conveyor binary, embedded store",
        others_need_it: false,
        run: |w| client(w, "conveyor", &[]),
    },
    Step {
        name: "schemathesis",
        what: "the API is what it says of itself: schemathesis from PyPI, every check",
        on: "the conveyor binary, embedded store",
        others_need_it: false,
        run: schemathesis,
    },
    Step {
        name: "client-aws",
        what: "the zenrows client from PyPI, unchanged",
        on: "two processes of every role; dynoxide, localstack, and ministack for Step Functions",
        others_need_it: false,
        run: |w| {
            let servers = aws::Servers::start(w)?;
            // The one that has Step Functions is not among those that all services are asked of.
            let variables = [servers.environment()?, servers.variables()].concat();
            client(w, "cluster", &variables)
        },
    },
];

/// What `--only` takes.
pub fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(STEPS.map(|step| step.name))
}

/// The folder of the package whose tests start real processes.
const BINARY: &str = "conveyor";
/// The folders of the packages whose tests need AWS-compatible servers.
const AWS: [&str; 2] = ["store/aws", "store/aws/servers"];

/// Tests of the binary that are about the AWS backend alone, and those that are about the embedded store alone.
const ONLY_AWS: [&str; 2] = ["aws", "rebuild_aws"];
const ONLY_EMBEDDED: [&str; 5] = ["deploy", "full_disk", "rebuild", "repair", "startup"];
/// The same among the tests of the other files.
const ONLY_EMBEDDED_TESTS: [&str; 2] =
    ["accepted_now_and_drained_later_by_separate_roles", "runs_that_only_wait_cost_no_commits"];

/// Always the whole workspace with its tests: for a part of it cargo would choose other features of the dependencies, and
/// compile them all again.
fn build(workspace: &Workspace) -> Result<()> {
    workspace.cargo(&["build", "--workspace", "--all-targets", "--locked"])
}

/// Which tests to run.
struct Tests {
    /// By the folder of their package.
    of: fn(&str) -> bool,
    /// Files that are left out.
    but: &'static [&'static str],
    /// Tests that are left out, and how many run at once.
    skip: &'static [&'static str],
    at_once: Option<&'static str>,
}

impl Tests {
    fn of(of: fn(&str) -> bool) -> Tests {
        Tests { of, but: &[], skip: &[], at_once: None }
    }
}

/// The tests in the `tests` folders of some packages, by name for the same reason.
fn integration_tests(workspace: &Workspace, tests: &Tests, variables: &[Variable]) -> Result<()> {
    let mut targets = workspace.test_targets(tests.of)?;
    targets.retain(|target| !tests.but.contains(&target.as_str()));
    ensure!(!targets.is_empty(), "there are no such tests");
    let mut args = vec!["test", "--workspace", "--locked", "--no-fail-fast"];
    for target in &targets {
        args.extend(["--test", target]);
    }
    args.push("--");
    for name in tests.skip {
        args.extend(["--skip", name]);
    }
    if let Some(at_once) = tests.at_once {
        args.extend(["--test-threads", at_once]);
    }
    workspace.cargo_with(&args, variables)
}

/// The tests of the binary on the AWS backend.
fn cluster(workspace: &Workspace) -> Result<()> {
    let servers = aws::Servers::start(workspace)?;
    let mut variables = servers.variables();
    variables.push(("CONVEYOR_TEST_CLUSTER", "1".to_owned()));
    // Each starts eight processes.
    let tests = Tests {
        but: &ONLY_EMBEDDED,
        skip: &ONLY_EMBEDDED_TESTS,
        at_once: Some("2"),
        ..Tests::of(|folder| folder == BINARY)
    };
    integration_tests(workspace, &tests, &variables)
}

fn client(workspace: &Workspace, server: &str, variables: &[Variable]) -> Result<()> {
    // A no-op after the step `build`; with `--only client` it keeps an old binary from passing for the new one.
    build(workspace)?;
    let (conveyor, loadtest) = (workspace.binary(server), workspace.binary("loadtest"));
    for binary in [&conveyor, &loadtest] {
        ensure!(binary.is_file(), "{} was not built", binary.display());
    }
    let mut pytest = python::prepare(workspace)?;
    pytest
        .args(["-m", "pytest", "-p", "no:cacheprovider", "-ra", "--strict-markers", "conveyor/tests/client"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("CONVEYOR_BIN", conveyor)
        .env("LOADTEST_BIN", loadtest)
        .envs(variables.iter().map(|(name, value)| (name, value)));
    done(&mut pytest)
}

/// Cases of each operation: enough to find what is wrong at the edges, few enough for minutes. Always the same ones: what is
/// found is found again. By hand, `run.py` takes others each time.
const CASES: [&str; 4] = ["--max-examples", "20", "--seed", "7"];

fn schemathesis(workspace: &Workspace) -> Result<()> {
    build(workspace)?;
    let conveyor = workspace.binary("conveyor");
    ensure!(conveyor.is_file(), "{} was not built", conveyor.display());
    let mut python = python::prepare(workspace)?;
    python
        .arg("conveyor/tests/schemathesis/run.py")
        .args(CASES)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("CONVEYOR_BIN", conveyor);
    done(&mut python)
}
