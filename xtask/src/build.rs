//! One build for everything: clippy's driver stands in for the compiler, so that the workspace is linted by the very pass that
//! builds it, and dependencies are compiled once. (`cargo clippy` would check all 400 of them a second time.)

use crate::exec::Log;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What was built.
#[derive(Debug, Default)]
pub struct Built {
    /// Executables of tests.
    pub tests: Vec<TestBinary>,
    /// Warnings of the compiler and of clippy, as they were shown.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestBinary {
    /// The folder of the package, from the root: `store/aws`.
    pub package: String,
    pub target: String,
    /// Whether it has the tests beside the code of a library or program, rather than those of a `tests` folder.
    pub unit: bool,
    pub executable: PathBuf,
}

/// The product without AWS, which is a build of its own: kept beside the full one.
pub const EMBEDDED_ONLY: &str = "conveyor-embedded";

/// Builds the workspace with its tests. Always the whole: for a part of it cargo would choose other features of the
/// dependencies, and compile them again.
pub fn run(workspace: &Workspace, log: &Log) -> Result<Built> {
    embedded_only(workspace, log)?;
    let mut built = Built::default();
    let mut command = cargo(workspace, &["build", "--workspace", "--all-targets"])?;
    log.read(&mut command, |line| built.take(line, workspace, log))?;
    ensure!(!built.tests.is_empty(), "cargo named no tests");
    Ok(built)
}

/// Built first: the full build puts its own binary in the same place.
fn embedded_only(workspace: &Workspace, log: &Log) -> Result<()> {
    // With a test among the targets, the features of dependencies are those of the full build.
    let mut command = cargo(
        workspace,
        &["build", "--workspace", "--no-default-features", "--bin", "conveyor", "--test", "servers"],
    )?;
    log.read(&mut command, |line| Built::default().take(line, workspace, log))?;
    let kept = workspace.binary(EMBEDDED_ONLY);
    // Not a link: the next build writes to the same file.
    fs::copy(workspace.binary("conveyor"), &kept).with_context(|| kept.display().to_string())?;
    Ok(())
}

fn cargo(workspace: &Workspace, args: &[&str]) -> Result<Command> {
    let mut command = workspace.cargo(args);
    command.args(["--locked", "--message-format=json-diagnostic-rendered-ansi"]);
    command.env("RUSTC_WORKSPACE_WRAPPER", clippy_driver(workspace)?);
    Ok(command)
}

fn clippy_driver(workspace: &Workspace) -> Result<PathBuf> {
    let sysroot =
        workspace.command("rustc").args(["--print", "sysroot"]).output().context("cannot run rustc")?;
    let driver = Path::new(String::from_utf8_lossy(&sysroot.stdout).trim()).join("bin").join("clippy-driver");
    ensure!(driver.is_file(), "clippy is not installed: `rustup component add clippy`");
    Ok(driver)
}

#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum CargoLine {
    CompilerArtifact {
        manifest_path: PathBuf,
        target: Target,
        profile: Profile,
        executable: Option<PathBuf>,
    },
    CompilerMessage {
        message: Diagnostic,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
}

impl Built {
    /// Takes in one message of cargo.
    fn take(&mut self, line: &str, workspace: &Workspace, log: &Log) -> Result<()> {
        match serde_json::from_str(line) {
            Ok(CargoLine::CompilerArtifact {
                manifest_path,
                target,
                profile,
                executable: Some(executable),
            }) if profile.test => {
                let folder = manifest_path.parent().context("a manifest is in a folder")?;
                let package = folder.strip_prefix(&workspace.root).unwrap_or(folder);
                self.tests.push(TestBinary {
                    package: package.to_string_lossy().into_owned(),
                    target: target.name,
                    unit: !target.kind.iter().any(|kind| kind == "test"),
                    executable,
                });
            }
            Ok(CargoLine::CompilerMessage { message }) => {
                let text = message.rendered.unwrap_or_default();
                log.say(text.trim_end());
                // "2 warnings emitted" is one as well, without a place.
                if message.level == "warning" && text.contains("-->") {
                    self.warnings.push(text);
                }
            }
            Ok(_) => {}
            // A program that cargo runs may write to the same place.
            Err(_) if !line.starts_with('{') => log.say(line),
            Err(error) => bail!("cargo said {line}: {error}"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(line: &str) -> Result<Built> {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::create(folder.path().join("log"), false).unwrap();
        let mut built = Built::default();
        let workspace = Workspace { root: "/w".into(), target: "/w/target".into(), cargo: "cargo".into() };
        built.take(line, &workspace, &log).map(|()| built)
    }

    #[test]
    fn executables_of_tests_are_noted_with_their_package() {
        let built = taken(
            r#"{"reason":"compiler-artifact","package_id":"p","manifest_path":"/w/store/aws/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"aws_backend","src_path":"x"},"profile":{"opt_level":"0","test":true},"features":[],"filenames":[],"executable":"/w/target/debug/deps/aws_backend-1","fresh":true}"#,
        );
        let binary = TestBinary {
            package: "store/aws".to_owned(),
            target: "aws_backend".to_owned(),
            unit: false,
            executable: "/w/target/debug/deps/aws_backend-1".into(),
        };
        assert_eq!(built.unwrap().tests, [binary]);
        assert!(taken(r#"{"reason":"build-script-executed","package_id":"p"}"#).unwrap().tests.is_empty());
        assert!(taken("a build script talks").is_ok());
        assert!(taken("{ not what cargo says").is_err());
    }

    #[test]
    fn warnings_count_and_their_summary_does_not() {
        let said = |level: &str, text: &str| {
            format!(r#"{{"reason":"compiler-message","message":{{"level":"{level}","rendered":"{text}"}}}}"#)
        };
        assert_eq!(taken(&said("warning", "warning: unused --> a.rs:1")).unwrap().warnings.len(), 1);
        assert!(taken(&said("warning", "warning: 2 warnings emitted")).unwrap().warnings.is_empty());
        assert!(taken(&said("note", "note: --> a.rs:1")).unwrap().warnings.is_empty());
    }
}
