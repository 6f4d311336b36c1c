//! What `loadtest` says when it cannot do what it was asked.

use conveyor_testkit::{command, run};
use std::process::{Command, Output};

fn loadtest(arguments: &[&str]) -> Output {
    let mut command = command(env!("CARGO_BIN_EXE_loadtest"));
    command.args(arguments);
    run(command)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn help_names_every_script() {
    let output = loadtest(&["gateway", "--help"]);
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0));
    for script in
        ["/status/", "/flaky/", "/slow/", "/size/", "/account/", "/hang", "/_stats", "/_log", "/_reset"]
    {
        assert!(help.contains(script), "{script} is missing:\n{help}");
    }
}

#[test]
fn help_says_how_the_drain_is_kept_out_of_an_ingest() {
    let output = loadtest(&["ingest", "--help"]);
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0));
    assert!(help.contains("max_inflight 1") && help.contains("never answers"), "{help}");
}

#[test]
fn help_says_what_each_is_about() {
    let cases = [
        ("bill", ["submit", "enumeration", "4.2 write units", "--endpoints-from-env"]),
        ("proxy", ["PUT /faults", "GET /stats", "blocked", "--drop-answers"]),
        ("gate", ["amplification", "1.05", "--slots", "--check"]),
        ("cap", ["average_in_flight", "SIGKILL", "31 s", "--kill"]),
        ("rate", ["worst_excess", "burst + per_second * (t + lateness)", "98%", "--visibility-ms"]),
        ("fair", ["another caller", "twice", "--rows", "--tries"]),
        ("hostile", ["half_preface", "127.0.0.6", "--together", "--hostile-key"]),
    ];
    for (command, words) in cases {
        let output = loadtest(&[command, "--help"]);
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0));
        assert!(words.iter().all(|word| help.contains(word)), "{help}");
    }
}

#[test]
fn bad_usage_is_2() {
    assert_eq!(loadtest(&[]).status.code(), Some(2));
    assert_eq!(loadtest(&["drain", "--tasks", "1"]).status.code(), Some(2), "no key");
    assert_eq!(loadtest(&["drain", "--api-key", "k", "--tasks", "0"]).status.code(), Some(2));
    assert_eq!(loadtest(&["gateway", "--fail-status", "200"]).status.code(), Some(2));
    assert_eq!(loadtest(&["ingest", "--rows", "0"]).status.code(), Some(2));
    assert_eq!(loadtest(&["ingest", "--server", "http://127.0.0.1:1"]).status.code(), Some(2), "no key");
    assert_eq!(loadtest(&["ingest", "--server-pid", "1"]).status.code(), Some(2), "no server");
    for command in ["bill", "gate", "cap", "rate"] {
        assert_eq!(loadtest(&[command, "--tasks", "0"]).status.code(), Some(2));
    }
    assert_eq!(loadtest(&["fair", "--rows", "10"]).status.code(), Some(2), "too few to keep it busy");
    assert_eq!(loadtest(&["fair", "--backend", "both"]).status.code(), Some(2));
    assert_eq!(loadtest(&["bill", "--servers", "none"]).status.code(), Some(2));
    let both = ["bill", "--servers", "ministack", "--endpoints-from-env"];
    assert_eq!(loadtest(&both).status.code(), Some(2));
    assert_eq!(loadtest(&["proxy", "--service", "s3"]).status.code(), Some(2), "no upstream");
    let service = ["proxy", "--upstream", "http://127.0.0.1:1", "--service", "ec2"];
    assert_eq!(loadtest(&service).status.code(), Some(2));
}

#[test]
fn a_failure_is_1_and_says_why() {
    let ratio = loadtest(&["gateway", "--fail-ratio", "1.5"]);
    assert_eq!((ratio.status.code(), stderr(&ratio).contains("--fail-ratio")), (Some(1), true));
    for (flags, said) in [
        (["--upstream", "https://a.example", "--service", "s3"], "--upstream is an http URL"),
        (["--upstream", "http://a.example/path", "--service", "s3"], "--upstream has no path"),
    ] {
        let proxy = loadtest(&[&["proxy"], &flags[..]].concat());
        assert_eq!((proxy.status.code(), stderr(&proxy).contains(said)), (Some(1), true));
    }
    assert!(stderr(&loadtest(&["cap", "--kill", "4"])).contains("--kill leaves at least one"));
    let shares = ["proxy", "--upstream", "http://a.example", "--service", "s3", "--conflict", "0.5"];
    assert!(stderr(&loadtest(&shares)).contains("conflict does not happen"));
    // Port 1 is reserved and nobody listens there.
    let nobody =
        loadtest(&["drain", "--server", "http://127.0.0.1:1", "--api-key", "key-not-shown", "--tasks", "1"]);
    let said = stderr(&nobody);
    assert_eq!(nobody.status.code(), Some(1), "{said}");
    assert!(said.contains("loadtest: the submit failed") && !said.contains("key-not-shown"), "{said}");
    assert!(nobody.stdout.is_empty(), "only a result goes to stdout");
}

#[test]
fn what_is_missing_is_named_before_anything_is_measured() {
    let program = loadtest(&["ingest", "--conveyor", "/nowhere/conveyor"]);
    assert_eq!(program.status.code(), Some(1));
    assert!(stderr(&program).contains("there is no /nowhere/conveyor"), "{}", stderr(&program));

    for command in ["bill", "gate", "cap", "rate", "fair"] {
        let program = loadtest(&[command, "--conveyor", "/nowhere/conveyor"]);
        assert_eq!((program.status.code(), program.stdout.is_empty()), (Some(1), true));
        assert!(stderr(&program).contains("there is no /nowhere/conveyor"), "{}", stderr(&program));
    }

    // With an empty PATH something is missing everywhere: at least Redis.
    let mut floors = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    let floors = floors.args(["floors", "--rows", "10"]).env("PATH", "").output();
    let floors = floors.expect("the binary is built with its tests");
    assert_eq!((floors.status.code(), floors.stdout.is_empty()), (Some(1), true));
    assert!(stderr(&floors).contains("apt-get install"), "{}", stderr(&floors));
}
