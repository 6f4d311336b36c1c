//! The steps of the test command, in order.

use crate::python;
use crate::workspace::{Workspace, done};
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

pub const STEPS: [Step; 7] = [
    Step {
        name: "format",
        what: "every file is formatted",
        on: "the workspace",
        others_need_it: false,
        run: |w| w.cargo(&["fmt", "--all", "--check"]),
    },
    Step {
        name: "lints",
        what: "no warnings of the compiler and of clippy",
        on: "the workspace, with its tests",
        others_need_it: false,
        run: |w| w.cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
    },
    Step {
        name: "build",
        what: "everything builds; later steps start these binaries",
        on: "the workspace",
        others_need_it: true,
        run: |w| w.cargo(&["build", "--workspace", "--locked"]),
    },
    Step {
        name: "unit",
        what: "tests beside the code",
        on: "every crate",
        others_need_it: false,
        run: |w| w.cargo(&["test", "--workspace", "--locked", "--lib", "--bins"]),
    },
    Step {
        name: "integration",
        what: "store conformance, HTTP answers, the gateway client",
        on: "every crate but the binary, embedded store",
        others_need_it: false,
        run: |w| w.cargo(&["test", "--workspace", "--exclude", "conveyor", "--locked", "--test", "*"]),
    },
    Step {
        name: "process",
        what: "real processes, sockets and files, ended by kill -9",
        on: "the conveyor binary, embedded store",
        others_need_it: false,
        run: |w| w.cargo(&["test", "--package", "conveyor", "--locked", "--test", "*"]),
    },
    Step {
        name: "client",
        what: "the zenrows client from PyPI, unchanged",
        on: "the conveyor binary, embedded store",
        others_need_it: false,
        run: client,
    },
];

/// What `--only` takes.
pub fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(STEPS.map(|step| step.name))
}

fn client(workspace: &Workspace) -> Result<()> {
    // A no-op after the step `build`; with `--only client` it keeps an old binary from passing for the new one.
    workspace.cargo(&["build", "--locked", "--package", "conveyor", "--package", "conveyor-loadtest"])?;
    let (conveyor, loadtest) = (workspace.binary("conveyor"), workspace.binary("loadtest"));
    for binary in [&conveyor, &loadtest] {
        ensure!(binary.is_file(), "{} was not built", binary.display());
    }
    let mut pytest = python::prepare(workspace)?;
    pytest
        .args(["-m", "pytest", "-p", "no:cacheprovider", "-ra", "--strict-markers", "conveyor/tests/client"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("CONVEYOR_BIN", conveyor)
        .env("LOADTEST_BIN", loadtest);
    done(&mut pytest)
}
