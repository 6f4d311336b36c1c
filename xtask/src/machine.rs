//! What the machine must have: looked for once, before the first step, and named in one message.
//!
//! Nothing here is installed from a registry: that is for the steps. This is about compilers, programs and what the
//! kernel allows, which tests and steps take for granted.

use crate::exec;
use anyhow::{Result, bail, ensure};
use conveyor_aws_servers::{default_pair, needs};
use std::fmt::Write;
use std::process::{Command, Stdio};
use std::{env, thread};

/// Something that steps rely on.
#[derive(Debug)]
pub struct Requirement {
    pub what: &'static str,
    /// What it is for, as the reader of the message knows it.
    pub why: &'static str,
    /// The steps that need it; all of them if there is none.
    pub steps: &'static [&'static str],
    from: From,
    is_there: fn() -> bool,
}

/// Where it comes from.
#[derive(Debug, PartialEq, Eq)]
enum From {
    /// Packages of Debian and Ubuntu.
    Packages(&'static [&'static str]),
    /// Components of the toolchain.
    Components(&'static [&'static str]),
}

/// What the kernel may forbid. Tests that need it can be left out, aloud.
struct Privilege {
    what: &'static str,
    steps: &'static [&'static str],
    /// Part of the names of the tests, for `--skip`.
    tests: &'static str,
    is_there: fn() -> bool,
}

/// What cannot be tested on this machine.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// For the summary, a line each.
    pub notes: Vec<String>,
    /// For `--skip` of every test binary, so that nothing passes that has not run.
    pub skip: Vec<&'static str>,
}

const ALL: &[&str] = &[];
/// Tests that are about Localstack alone have its name in theirs.
const LOCALSTACK: &str = "localstack";
/// Steps whose tests talk to AWS-compatible servers.
const WITH_SERVERS: &[&str] = &["servers", "integration", "aws", "cluster", "client-aws"];
/// Steps that install packages of npm.
const WITH_NPM: &[&str] = &["servers", "integration", "aws", "cluster", "client", "client-aws"];
const WITH_PYTHON: &[&str] =
    &["servers", "integration", "aws", "cluster", "client", "schemathesis", "client-aws"];

static REQUIREMENTS: [Requirement; 14] = [
    Requirement {
        what: "rustfmt",
        why: "formatting",
        steps: &["format"],
        from: From::Components(&["rustfmt"]),
        is_there: || works("cargo", &["fmt", "--version"]),
    },
    Requirement {
        what: "clippy",
        why: "lints",
        steps: &["lints"],
        from: From::Components(&["clippy"]),
        is_there: || works("cargo", &["clippy", "--version"]),
    },
    Requirement {
        what: "a C compiler with the headers of libc",
        why: "SQLite, zstd and ring, which are compiled from source",
        steps: ALL,
        from: From::Packages(&["gcc", "libc6-dev"]),
        is_there: || compiles("CC", "cc", "c", "stdlib.h"),
    },
    Requirement {
        what: "a C++ compiler with its headers",
        why: "libFuzzer",
        steps: &["fuzz"],
        from: From::Packages(&["g++"]),
        is_there: || compiles("CXX", "c++", "c++", "vector"),
    },
    Requirement {
        what: "cp, head, mkdir, mkfifo and rm",
        why: "tests that copy and fill directories",
        steps: ALL,
        from: From::Packages(&["coreutils"]),
        is_there: || all_on_path(&["cp", "head", "mkdir", "mkfifo", "rm"]),
    },
    Requirement {
        what: "kill",
        why: "signals to processes under test",
        steps: &["integration", "process", "cluster"],
        from: From::Packages(&["procps"]),
        is_there: || works("kill", &["-0", &std::process::id().to_string()]),
    },
    Requirement {
        what: "unshare",
        why: "a small disk of its own",
        steps: &["process"],
        from: From::Packages(&["util-linux"]),
        is_there: || all_on_path(&["unshare"]),
    },
    Requirement {
        what: "mount",
        why: "a small disk of its own",
        steps: &["process"],
        from: From::Packages(&["mount"]),
        is_there: || all_on_path(&["mount"]),
    },
    Requirement {
        what: "setpriv",
        why: "processes of every role, which end with the test",
        steps: &["cluster", "client-aws"],
        from: From::Packages(&["util-linux"]),
        is_there: || all_on_path(&["setpriv"]),
    },
    Requirement {
        what: "Python 3.10 or later as python3, with its venv module",
        why: "the client, schemathesis and AWS-compatible servers",
        steps: WITH_PYTHON,
        from: From::Packages(&["python3", "python3-venv"]),
        is_there: || {
            let check = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
            works("python3", &["-c", check])
        },
    },
    Requirement {
        what: "Node 18 or later as node",
        why: "the client",
        steps: &["client", "client-aws"],
        from: From::Packages(&["nodejs"]),
        is_there: || works("node", &["--eval", "process.exit(+(parseInt(process.versions.node) < 18))"]),
    },
    Requirement {
        what: needs::NPM.what,
        why: "the client and AWS-compatible servers from its registry",
        steps: WITH_NPM,
        from: From::Packages(needs::NPM.packages),
        is_there: needs::NPM.is_met,
    },
    Requirement {
        what: needs::JAVA.what,
        why: "DynamoDB Local",
        steps: &["servers", "aws"],
        from: From::Packages(needs::JAVA.packages),
        is_there: needs::JAVA.is_met,
    },
    Requirement {
        what: "git",
        why: "applying and reverting patches",
        steps: &["mutations"],
        from: From::Packages(&["git"]),
        is_there: || works("git", &["--version"]),
    },
];

static PRIVILEGES: [Privilege; 1] = [Privilege {
    what: "user and mount namespaces (unshare --user --map-root-user --mount)",
    steps: &["process"],
    tests: "full_disk",
    is_there: || {
        let mount = "mount -t tmpfs -o size=1m none \"$0\"";
        let folder = env::temp_dir();
        let args = ["--user", "--map-root-user", "--mount", "sh", "-c", mount];
        exec::works(Command::new("unshare").args(args).arg(folder))
    },
}];

/// Looks for everything that some steps need, and installs what is missing if this is Debian or the like and we are root.
/// Fails with one message if something is still missing, or if something cannot be tested here and this is CI.
pub fn check(steps: &[&str]) -> Result<Report> {
    let mut missing = missing(&REQUIREMENTS, steps, &probe(&REQUIREMENTS, |one| one.is_there));
    let packages = packages(&missing);
    if !packages.is_empty() && may_install() {
        println!("{}\ninstalling {} with apt-get", message(&missing), packages.join(" "));
        install(&packages)?;
        missing.retain(|one| !(one.is_there)());
    }
    ensure!(missing.is_empty(), "{}", message(&missing));
    let allowed = probe(&PRIVILEGES, |one| one.is_there);
    let report = report(&PRIVILEGES, steps, &allowed, default_pair().note.as_deref());
    // Another server takes the part of Localstack, but nothing that of a namespace.
    if is_ci() && report.skip.iter().any(|tests| *tests != LOCALSTACK) {
        bail!("in CI nothing may be left out:\n{}", report.notes.join("\n"));
    }
    Ok(report)
}

/// Probes are commands that mostly wait for a process to start: all at once.
fn probe<T: Sync>(all: &[T], is_there: fn(&T) -> fn() -> bool) -> Vec<bool> {
    thread::scope(|scope| {
        let probes: Vec<_> = all.iter().map(|one| scope.spawn(move || is_there(one)())).collect();
        probes.into_iter().map(|probe| probe.join().unwrap_or(false)).collect()
    })
}

/// What is wanted and not there.
fn missing<'a>(all: &'a [Requirement], steps: &[&str], there: &[bool]) -> Vec<&'a Requirement> {
    let missing = all.iter().zip(there).filter(|(one, there)| !**there && wanted(one.steps, steps));
    missing.map(|(one, _)| one).collect()
}

fn wanted(needed_by: &[&str], steps: &[&str]) -> bool {
    needed_by.is_empty() || needed_by.iter().any(|step| steps.contains(step))
}

/// Everything that is missing, and how to get it.
fn message(missing: &[&Requirement]) -> String {
    let mut text = "this machine lacks:".to_owned();
    for one in missing {
        let _ = write!(text, "\n  {} (for {})", one.what, one.why);
        if !one.steps.is_empty() {
            let _ = write!(text, "; steps: {}", one.steps.join(", "));
        }
    }
    let (packages, components) = (packages(missing), components(missing));
    if !packages.is_empty() {
        let _ = write!(text, "\non Debian and Ubuntu: apt-get install {}", packages.join(" "));
    }
    if !components.is_empty() {
        let _ = write!(text, "\nof the toolchain: rustup component add {}", components.join(" "));
    }
    text
}

fn packages(missing: &[&Requirement]) -> Vec<&'static str> {
    named(missing, |from| if let From::Packages(names) = from { names } else { &[] })
}

fn components(missing: &[&Requirement]) -> Vec<&'static str> {
    named(missing, |from| if let From::Components(names) = from { names } else { &[] })
}

/// Names, each once, in order.
fn named(missing: &[&Requirement], of: fn(&From) -> &'static [&'static str]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for name in missing.iter().flat_map(|one| of(&one.from)) {
        if !names.contains(name) {
            names.push(*name);
        }
    }
    names
}

/// What is left out, given what the kernel allows and why Localstack cannot run.
fn report(
    privileges: &[Privilege],
    steps: &[&str],
    allowed: &[bool],
    without_localstack: Option<&str>,
) -> Report {
    let mut report = Report::default();
    for (one, _) in privileges.iter().zip(allowed).filter(|(one, there)| !**there && wanted(one.steps, steps))
    {
        report
            .notes
            .push(format!("SKIPPED tests named *{}*: this machine does not allow {}", one.tests, one.what));
        report.skip.push(one.tests);
    }
    if let Some(note) = without_localstack.filter(|_| wanted(WITH_SERVERS, steps)) {
        report.notes.push(format!("SKIPPED tests named *localstack*: {note}"));
        report.skip.push(LOCALSTACK);
    }
    report
}

fn install(packages: &[&str]) -> Result<()> {
    let apt = |args: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-o", "DPkg::Lock::Timeout=300", "-y", "-qq"]);
        // What it says goes to standard error, if at all: standard output may be read by a program.
        apt.args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let wanted = [&["install", "--no-install-recommends"], packages].concat();
    // An image without package lists can install nothing; with them, updating is only slow.
    ensure!(
        apt(&wanted) || apt(&["update"]) && apt(&wanted),
        "apt-get could not install {}",
        packages.join(" ")
    );
    Ok(())
}

fn may_install() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0") && works("apt-get", &["--version"])
}

/// As the services that run tests for others say it.
fn is_ci() -> bool {
    env::var("CI").is_ok_and(|value| !["", "0", "false"].contains(&value.as_str()))
}

fn works(program: &str, args: &[&str]) -> bool {
    exec::works(Command::new(program).args(args))
}

fn all_on_path(programs: &[&str]) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = env::split_paths(&path).collect();
    programs.iter().all(|program| folders.iter().any(|folder| folder.join(program).is_file()))
}

/// Whether a compiler runs and finds a header. The variable is the one that build scripts read.
fn compiles(variable: &str, default: &str, language: &str, header: &str) -> bool {
    let compiler = env::var(variable).ok().filter(|name| !name.is_empty());
    let compiler = compiler.unwrap_or_else(|| default.to_owned());
    // It may come with arguments.
    let mut words = compiler.split_whitespace();
    let Some(program) = words.next() else { return false };
    let mut command = Command::new(program);
    command.args(words).args(["-fsyntax-only", "-include", header, "-x", language, "/dev/null"]);
    exec::works(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacking(names: &[&str], steps: &[&str]) -> Vec<&'static Requirement> {
        let there: Vec<bool> =
            REQUIREMENTS.iter().map(|one| !names.iter().any(|name| one.what.contains(name))).collect();
        missing(&REQUIREMENTS, steps, &there)
    }

    #[test]
    fn everything_that_is_missing_is_in_one_message() {
        let missing = lacking(
            &["Java", "C++", "unshare", "setpriv", "clippy"],
            &["aws", "fuzz", "cluster", "lints", "process"],
        );
        let text = message(&missing);
        for part in
            ["Java 17 or later (for DynamoDB Local); steps: servers, aws", "C++", "unshare", "setpriv"]
        {
            assert!(text.contains(part), "{text}");
        }
        let packages = text.lines().find(|line| line.contains("apt-get")).unwrap();
        assert_eq!(packages, "on Debian and Ubuntu: apt-get install g++ util-linux default-jre-headless");
        assert!(text.ends_with("of the toolchain: rustup component add clippy"), "{text}");
    }

    #[test]
    fn only_what_the_steps_need_is_missing() {
        assert!(lacking(&["Java", "C++", "npm", "Python", "git"], &["unit", "process"]).is_empty());
        assert_eq!(lacking(&["C compiler"], &["unit"]).len(), 1, "every step builds");
        assert_eq!(lacking(&["git"], &["mutations"]).len(), 1);
        assert!(lacking(&[], &["aws", "fuzz", "client"]).is_empty());
    }

    #[test]
    fn what_cannot_be_tested_is_said_and_left_out() {
        let note = Some("there is no Python: ministack speaks SQS");
        let said = report(&PRIVILEGES, &["process", "aws"], &[false], note);
        assert_eq!(said.skip, ["full_disk", "localstack"]);
        assert!(said.notes.iter().all(|note| note.starts_with("SKIPPED tests named *")), "{said:?}");
        assert!(said.notes[1].contains("there is no Python"));
        assert_eq!(report(&PRIVILEGES, &["process", "aws"], &[true], None), Report::default());
        assert_eq!(report(&PRIVILEGES, &["unit"], &[false], note), Report::default(), "neither is wanted");
    }

    #[test]
    fn a_program_that_is_nowhere_is_not_found() {
        assert!(!works("no-such-program-anywhere", &[]) && !all_on_path(&["sh", "no-such-program-anywhere"]));
        assert!(all_on_path(&["sh"]));
        assert!(!compiles("", "no-such-compiler", "c", "stdlib.h"));
    }

    #[test]
    fn every_requirement_says_where_it_comes_from() {
        let all: Vec<&Requirement> = REQUIREMENTS.iter().collect();
        assert!(all.iter().all(|one| packages(&[one]).len() + components(&[one]).len() > 0));
    }
}
