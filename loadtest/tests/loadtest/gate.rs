//! The real `loadtest gate` and `loadtest domains` on the real Conveyor, at a small size.

use conveyor_testkit::{command, run};
use serde_json::{Value, json};

fn measure(arguments: &[&str]) -> Value {
    let mut command = command(env!("CARGO_BIN_EXE_loadtest"));
    command.args(arguments);
    let output = run(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_gate_receives_each_message_once() {
    let size = ["--tasks", "50", "--slots", "40", "--latency-ms", "10"];
    let report = measure(&[&["gate", "--check", "--backend", "embedded"], &size[..]].concat());
    assert_eq!((&report["bench"], &report["unmet"]), (&json!("gate"), &json!([])));
    let [off, on] = [&report["runs"][0], &report["runs"][1]];
    assert_eq!((&off["gate"], &on["gate"]), (&json!("off"), &json!("on")));
    assert_eq!((&on["completed"], &on["dead_lettered"]), (&json!(50), &json!(0)));
    assert!(on["messages_received"].as_u64() < off["messages_received"].as_u64(), "{report}");
}

#[test]
fn limited_domains_are_measured_at_their_gateway() {
    // How long it takes depends on the machine; --check would want a time as well.
    let report = measure(&["domains", "--domains", "3", "--tasks", "10", "--per-second", "20"]);
    assert_eq!((&report["bench"], &report["completed"]), (&json!("domains"), &json!(30)));
    assert!(report["messages_a_task"].as_f64().unwrap() <= 2.0, "{report}");
    assert!(report["worst_excess"].as_f64().unwrap() <= 0.0, "{report}");
}
