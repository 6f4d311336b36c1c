//! Conveyor: takes up to a million URLs, answers at once, turns each into a tracked task, drains them through a gateway
//! under exact limits, keeps every result, and says once, for certain, when the list is done.
//!
//! The binary is configuration, wiring and the command line; what the system does is in the other crates.

mod client;
mod direct;
mod domain_limit;
#[cfg(feature = "aws")]
mod provision;
mod rebuild;
mod secret_text;
mod server;

use clap::{Parser, Subcommand};
use rebuild::RebuildArgs;
use server::{Role, ServerArgs};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

const EXIT_WAIT: Duration = Duration::from_millis(500);

/// A durable inbox for bulk URL work.
///
/// `conveyor dev` is the whole system in one process, on an embedded store. Submit a list to it with `conveyor submit`.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything in one process: API, ingest, worker and sweeper, on the embedded store
    Dev(ServerArgs),
    /// Run the HTTP API alone
    Api(ServerArgs),
    /// Run the ingest role alone: turn staged lists into tasks, build exports
    Ingest(ServerArgs),
    /// Run a worker alone: drain what was accepted
    Worker(ServerArgs),
    /// Run the sweeper alone: fire schedules, deliver notifications, repair what crashes and lost messages leave, remove
    /// what is no longer wanted
    Sweeper(ServerArgs),
    /// Create the table, queues and bucket of the AWS backend; safe to repeat
    #[cfg(feature = "aws")]
    Provision(provision::ProvisionArgs),
    /// Make the rows of a job anew from its list and its results, after the table, the database or the queues were lost;
    /// needs no server, and is safe to repeat
    Rebuild(RebuildArgs),
    #[command(flatten)]
    Client(client::ClientCommand),
}

fn main() -> ExitCode {
    let cli = Cli::parse_from(arguments(std::env::args_os().collect(), std::env::var_os("CONVEYOR_ROLE")));
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let outcome = runtime.block_on(async {
        match cli.command {
            Command::Dev(args) => server::run(Role::Dev, args).await,
            Command::Api(args) => server::run(Role::Api, args).await,
            Command::Ingest(args) => server::run(Role::Ingest, args).await,
            Command::Worker(args) => server::run(Role::Worker, args).await,
            Command::Sweeper(args) => server::run(Role::Sweeper, args).await,
            #[cfg(feature = "aws")]
            Command::Provision(args) => provision::run(args).await,
            Command::Rebuild(args) => rebuild::run(args).await,
            Command::Client(command) => client::run(command).await,
        }
    });
    // A thread that hangs in a system call, such as a name lookup, must not hold the exit up.
    runtime.shutdown_timeout(EXIT_WAIT);
    outcome.unwrap_or_else(|error| fail(&error))
}

/// A container image runs one command for every role: `CONVEYOR_ROLE` names the one to run when no command is given.
fn arguments(mut given: Vec<OsString>, role: Option<OsString>) -> Vec<OsString> {
    let has_command = given.get(1).is_some_and(|first| !first.to_string_lossy().starts_with("--"));
    let asks_for_help =
        given.iter().any(|a| matches!(a.to_str(), Some("--help" | "-h" | "--version" | "-V" | "help")));
    if let Some(role) = role
        && !has_command
        && !asks_for_help
        && !given.is_empty()
    {
        given.insert(1, role);
    }
    given
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use conveyor_domain::limits;
    use std::collections::BTreeSet;

    fn with_role(given: &[&str], role: Option<&str>) -> Vec<String> {
        let given = given.iter().map(OsString::from).collect();
        let arguments = arguments(given, role.map(OsString::from));
        arguments.into_iter().map(|a| a.into_string().unwrap()).collect()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn rebuild_asks_for_the_limit_that_the_servers_have() {
        let help = |name| {
            let root = Cli::command();
            let command = root.find_subcommand(name).unwrap();
            let limit = command.get_arguments().find(|arg| arg.get_id() == "run_tasks_max");
            limit.unwrap().get_help().unwrap().to_string()
        };
        assert_eq!(help("dev"), "Most tasks of one run");
        assert_eq!(help("rebuild"), "Most tasks of one run, as the servers were told");
    }

    #[test]
    fn the_flags_that_set_limits_exist() {
        fn flags(command: &clap::Command, found: &mut BTreeSet<String>) {
            found.extend(command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))));
            command.get_subcommands().for_each(|command| flags(command, found));
        }
        let mut known = BTreeSet::new();
        flags(&Cli::command(), &mut known);
        let named = limits::TABLE
            .iter()
            .flat_map(|section| section.limits)
            .flat_map(|limit| limit.set_by.split([' ', '`', ',', ';']).filter(|word| word.starts_with("--")));
        let named: BTreeSet<_> = named.map(str::to_owned).collect();
        assert!(!named.is_empty() && named.is_subset(&known), "unknown: {:?}", named.difference(&known));
    }

    #[test]
    fn the_role_variable_stands_in_for_a_missing_command() {
        assert_eq!(with_role(&["conveyor"], Some("api")), ["conveyor", "api"]);
        assert_eq!(
            with_role(&["conveyor", "--slots", "3"], Some("worker")),
            ["conveyor", "worker", "--slots", "3"]
        );
        assert_eq!(with_role(&["conveyor", "dev"], Some("api")), ["conveyor", "dev"]);
        assert_eq!(with_role(&["conveyor", "--help"], Some("api")), ["conveyor", "--help"]);
        assert_eq!(with_role(&["conveyor"], None), ["conveyor"]);
    }

    /// Flags that no variable may set: one that is meant for something else would decide about it.
    fn is_said_aloud(command: &str, flag: &str) -> bool {
        match command {
            // What is meant for submits must not change a job that is only looked at.
            "limits" => {
                let rates = matches!(flag, "max-inflight" | "rate" | "no-rate" | "burst" | "attempts-max");
                rates || matches!(flag, "max-failure-ratio" | "no-max-failure-ratio")
            }
            // What is meant for reading must not decide what is deleted, sent again or given up.
            "delete" => flag == "run",
            "rerun" => matches!(flag, "status" | "error-class" | "http-status" | "domain" | "param"),
            // Only who has looked at the job knows that it may go on.
            "rebuild" => flag == "resume",
            // What is meant for one key must not decide what another opens.
            "keys create" | "keys quotas" => {
                matches!(flag, "caller" | "operator" | "active-jobs" | "scheduled-jobs" | "queued-tasks")
            }
            "dlq redrive" | "dlq purge" => matches!(flag, "all" | "job" | "run" | "error" | "rate"),
            _ => false,
        }
    }

    fn check_variables(name: &str, command: &clap::Command) {
        for argument in command.get_arguments() {
            let Some(long) = argument.get_long().filter(|long| !matches!(*long, "help" | "version")) else {
                continue;
            };
            let variable = argument.get_env().map(|v| v.to_string_lossy().into_owned());
            let expected = format!("CONVEYOR_{}", long.replace('-', "_").to_uppercase());
            let expected = Some(expected).filter(|_| !is_said_aloud(name, long));
            assert_eq!(variable, expected, "{name} --{long}");
        }
        for command in command.get_subcommands() {
            check_variables(format!("{name} {}", command.get_name()).trim_start(), command);
        }
    }

    #[test]
    fn every_flag_has_a_variable_of_its_name() {
        check_variables("", &Cli::command());
    }
}
