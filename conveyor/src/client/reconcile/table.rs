//! A reconciliation as a person reads it.

use super::whole::{Verdict, Whole, is_damage, is_mended};
use crate::client::audit::line_of;
use crate::client::print::clean;
use crate::client::table::{self, Column};
use conveyor_client::wire::{Outcome, Treated};

const COLUMNS: [Column<Treated>; 4] = [
    ("repair", 0, |treated| treated.finding.repair.to_string()),
    ("subject", 0, |treated| line_of(&treated.finding.subject)),
    ("why", 0, |treated| treated.finding.why.clone()),
    ("done", 0, done),
];

pub fn text(whole: &Whole) -> String {
    let mut lines = Vec::new();
    if !whole.findings.is_empty() {
        lines.push(table::text(&whole.findings, &COLUMNS, true));
    }
    lines.extend(whole.errors.iter().map(|e| clean(&format!("{} could not look: {}", e.repair, e.error))));
    let unsure = whole.unsure.iter();
    lines.extend(
        unsure.map(|one| clean(&format!("cannot be told before {}: {}", one.until, line_of(&one.subject)))),
    );
    lines.push(verdict(whole));
    lines.join("\n")
}

fn done(Treated { finding, outcome, changed, error }: &Treated) -> String {
    let remedy = &finding.remedy;
    match outcome.known() {
        Some(Outcome::Seen) => format!("nothing yet; would: {remedy}"),
        Some(Outcome::Fixed) => format!("{remedy} ({} changed)", changed.unwrap_or_default()),
        Some(Outcome::Gone) => "nothing: it was gone by then".to_owned(),
        Some(Outcome::NeedsOperator) => format!("needs an operator: {remedy}"),
        Some(Outcome::Failed) => format!("failed: {}", error.as_deref().unwrap_or("it is not said why")),
        None => outcome.to_string(),
    }
}

fn verdict(whole: &Whole) -> String {
    let damage = whole.findings.iter().filter(|treated| is_damage(treated));
    let (mended, left): (Vec<_>, Vec<_>) = damage.partition(|treated| is_mended(treated));
    let seen = left.iter().filter(|treated| treated.outcome == Outcome::Seen).count();
    let said = match whole.verdict() {
        Verdict::NothingWrong => "nothing was wrong".to_owned(),
        Verdict::AllMended => format!("{} wrong, all of it mended", mended.len()),
        Verdict::StillWrong if left.is_empty() => {
            let mended = if mended.is_empty() { String::new() } else { format!("{} mended; ", mended.len()) };
            format!("{mended}not everything could be looked at")
        }
        Verdict::StillWrong if seen == left.len() && mended.is_empty() => {
            format!("{seen} wrong; nothing was done, because it was a dry run")
        }
        Verdict::StillWrong => format!("{} mended, {} still wrong", mended.len(), left.len()),
    };
    match upkeep(whole) {
        Some(upkeep) => format!("{said}; {upkeep}"),
        None => said,
    }
}

/// What is past its time is nothing wrong, but it is a finding, and it is not to look forgotten.
fn upkeep(whole: &Whole) -> Option<String> {
    let upkeep = whole.findings.iter().filter(|treated| !is_damage(treated));
    let (done, left): (Vec<_>, Vec<_>) = upkeep.partition(|treated| is_mended(treated));
    match (done.len(), left.len()) {
        (0, 0) => None,
        (done, 0) => Some(format!("{done} tidied up")),
        (0, left) => Some(format!("{left} to be tidied up")),
        (done, left) => Some(format!("{done} tidied up, {left} to be tidied up")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::part;
    use serde_json::{Value, json};

    fn shown(findings: Vec<Value>) -> Vec<String> {
        shown_with(findings, Vec::new())
    }

    fn shown_with(findings: Vec<Value>, errors: Vec<Value>) -> Vec<String> {
        let mut whole = Whole::default();
        let mut part = part(findings.into(), json!([]), None);
        part["errors"] = errors.into();
        whole.add(serde_json::from_value(part).unwrap());
        text(&whole).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    fn finding(outcome: Value) -> Value {
        let mut finding = json!({"repair": "missing_refs", "kind": "damage", "subject": {"type": "run", "id": "R"},
                                 "why": "gone", "remedy": "send", "fixable": true});
        for (name, value) in outcome.as_object().unwrap() {
            finding[name] = value.clone();
        }
        finding
    }

    #[test]
    fn every_outcome_has_its_words() {
        let lines = shown(vec![
            finding(json!({"outcome": "fixed", "changed": 7})),
            finding(json!({"outcome": "seen"})),
            finding(json!({"outcome": "failed", "error": "no room"})),
            finding(json!({"outcome": "needs_operator"})),
        ]);
        assert_eq!(
            lines,
            [
                "repair subject why done",
                "missing_refs run R gone send (7 changed)",
                "missing_refs run R gone nothing yet; would: send",
                "missing_refs run R gone failed: no room",
                "missing_refs run R gone needs an operator: send",
                "1 mended, 3 still wrong",
            ]
        );
        assert_eq!(shown(Vec::new()), ["nothing was wrong"]);
        let dry = shown(vec![finding(json!({"outcome": "seen"})), finding(json!({"outcome": "seen"}))]);
        assert_eq!(dry.last().unwrap(), "2 wrong; nothing was done, because it was a dry run");
        let upkeep = |outcome: &str| shown(vec![finding(json!({"kind": "upkeep", "outcome": outcome}))]);
        assert_eq!(upkeep("seen").last().unwrap(), "nothing was wrong; 1 to be tidied up");
        assert_eq!(upkeep("fixed").last().unwrap(), "nothing was wrong; 1 tidied up");
        let mended = shown(vec![finding(json!({"outcome": "gone"}))]);
        assert_eq!(mended.last().unwrap(), "1 wrong, all of it mended");
        let error = || vec![json!({"repair": "stalled_runs", "error": "no room"})];
        let partly = shown_with(vec![finding(json!({"outcome": "fixed", "changed": 7}))], error());
        assert_eq!(partly.last().unwrap(), "1 mended; not everything could be looked at");
        let nothing = shown_with(Vec::new(), error());
        assert_eq!(nothing.last().unwrap(), "not everything could be looked at");
    }
}
