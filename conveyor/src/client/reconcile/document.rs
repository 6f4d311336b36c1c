//! What this client reads of a reconciliation, and what it comes to.

use crate::client::audit::{Finding, Unsure};
use crate::client::failure::Failure;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;

/// An answer: a part of a look, if `next` says where to go on. Findings are kept as they were sent.
#[derive(Debug, Deserialize)]
pub struct Part {
    pub at: String,
    pub findings: Vec<Value>,
    pub unsure: Vec<Value>,
    pub errors: Vec<Value>,
    pub next: Option<String>,
}

/// A finding and what became of it.
#[derive(Debug, Deserialize)]
pub struct Treated {
    #[serde(flatten)]
    pub finding: Finding,
    pub outcome: String,
    pub changed: Option<u64>,
    pub error: Option<String>,
}

impl Treated {
    fn key(&self) -> (&str, &str) {
        (&self.finding.repair, &self.finding.subject.id)
    }

    /// Whether it was so, and is no longer.
    pub fn is_mended(&self) -> bool {
        matches!(self.outcome.as_str(), "fixed" | "gone")
    }

    /// Whether nothing was tried.
    pub fn is_only_seen(&self) -> bool {
        self.outcome == "seen"
    }
}

/// A repair that could not look.
#[derive(Debug, Deserialize)]
pub struct RepairError {
    pub repair: String,
    pub error: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    NothingWrong,
    StillWrong,
    AllMended,
}

/// Everything that was found, over all parts and all looks.
#[derive(Debug, Default)]
pub struct Whole {
    at: String,
    raw: Vec<Value>,
    raw_unsure: Vec<Value>,
    raw_errors: Vec<Value>,
    pub findings: Vec<Treated>,
    pub unsure: Vec<Unsure>,
    pub errors: Vec<RepairError>,
}

impl Whole {
    /// A new look is taken. What was mended stays told; everything else it finds again, if it is still so.
    pub fn look_again(&mut self) {
        let mended: Vec<bool> = self.findings.iter().map(Treated::is_mended).collect();
        self.keep(&mended);
        self.unsure.clear();
        self.raw_unsure.clear();
        self.errors.clear();
        self.raw_errors.clear();
    }

    pub fn add(&mut self, part: Part) -> Result<(), Failure> {
        self.at = part.at;
        let found: Vec<Treated> = read(&part.findings)?;
        self.forget_unfinished(&found);
        self.findings.extend(found);
        self.unsure.extend(read(&part.unsure)?);
        self.errors.extend(read(&part.errors)?);
        self.raw.extend(part.findings);
        self.raw_unsure.extend(part.unsure);
        self.raw_errors.extend(part.errors);
        Ok(())
    }

    /// What took longer than one part is found again by the next one, which knows better what became of it.
    fn forget_unfinished(&mut self, again: &[Treated]) {
        let again: HashSet<(&str, &str)> = again.iter().map(Treated::key).collect();
        let keep: Vec<bool> =
            self.findings.iter().map(|old| old.is_mended() || !again.contains(&old.key())).collect();
        self.keep(&keep);
    }

    fn keep(&mut self, keep: &[bool]) {
        let mut left = keep.iter();
        self.findings.retain(|_| left.next() == Some(&true));
        let mut left = keep.iter();
        self.raw.retain(|_| left.next() == Some(&true));
    }

    /// How long until everything that could not be told can be; `None` if there is no such thing.
    pub fn wait(&self) -> Option<Duration> {
        self.unsure.iter().map(|one| Duration::from_millis(one.in_ms)).max()
    }

    pub fn verdict(&self) -> Verdict {
        let damage = || self.findings.iter().filter(|treated| treated.finding.is_damage());
        // What could not be looked at, or not be told, cannot pass for being in order.
        if !self.errors.is_empty() || !self.unsure.is_empty() || damage().any(|treated| !treated.is_mended())
        {
            return Verdict::StillWrong;
        }
        match damage().next() {
            Some(_) => Verdict::AllMended,
            None => Verdict::NothingWrong,
        }
    }

    pub fn document(&self, dry_run: bool) -> Value {
        json!({ "at": self.at, "dry_run": dry_run, "findings": self.raw, "unsure": self.raw_unsure,
                "errors": self.raw_errors })
    }
}

fn read<T: DeserializeOwned>(items: &[Value]) -> Result<Vec<T>, Failure> {
    let one = |item: &Value| T::deserialize(item).map_err(|e| Failure::not_understood(e.to_string()));
    items.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(kind: &str, outcome: &str) -> Value {
        json!({"repair": "r", "kind": kind, "subject": {"type": "run", "id": "R"}, "why": "w", "remedy": "m", "fixable": true,
               "outcome": outcome, "new": 1})
    }

    fn part(findings: Vec<Value>) -> Part {
        Part { at: "T".to_owned(), findings, unsure: Vec::new(), errors: Vec::new(), next: None }
    }

    fn whole(findings: &[(&str, &str)]) -> Whole {
        let mut whole = Whole::default();
        whole.add(part(findings.iter().map(|(kind, outcome)| finding(kind, outcome)).collect())).unwrap();
        whole
    }

    #[test]
    fn upkeep_is_not_wrong_and_damage_is_until_it_is_mended() {
        let verdict = |findings: &[(&str, &str)]| whole(findings).verdict();
        assert_eq!(verdict(&[]), Verdict::NothingWrong);
        assert_eq!(
            verdict(&[("upkeep", "fixed"), ("upkeep", "failed"), ("upkeep", "seen")]),
            Verdict::NothingWrong
        );
        assert_eq!(verdict(&[("damage", "fixed"), ("damage", "gone")]), Verdict::AllMended);
        for left in ["seen", "needs_operator", "failed", "something-new"] {
            assert_eq!(verdict(&[("damage", "fixed"), ("damage", left)]), Verdict::StillWrong, "{left}");
        }
    }

    #[test]
    fn what_could_not_be_looked_at_is_not_in_order() {
        let errors = vec![json!({"repair": "r", "error": "e"})];
        let unsure = vec![json!({"subject": {"type": "run", "id": "R"}, "until": "T", "in_ms": 70})];
        for part in [Part { errors, ..part(Vec::new()) }, Part { unsure, ..part(Vec::new()) }] {
            let mut whole = Whole::default();
            whole.add(part).unwrap();
            assert_eq!(whole.verdict(), Verdict::StillWrong);
        }
    }

    #[test]
    fn what_took_two_parts_is_told_once() {
        let mut whole = whole(&[("damage", "failed")]);
        whole.add(part(vec![finding("damage", "fixed")])).unwrap();
        assert_eq!((whole.findings.len(), whole.verdict()), (1, Verdict::AllMended));
        assert_eq!(whole.document(false)["findings"][0]["outcome"], "fixed");
    }

    #[test]
    fn another_look_forgets_all_but_what_was_mended() {
        let mut whole = whole(&[("damage", "fixed"), ("damage", "seen"), ("upkeep", "gone")]);
        let unsure = vec![json!({"subject": {"type": "run", "id": "R"}, "until": "T", "in_ms": 70})];
        whole.add(Part { unsure, ..part(Vec::new()) }).unwrap();
        assert_eq!(whole.wait(), Some(Duration::from_millis(70)));
        whole.look_again();
        whole.add(part(vec![finding("damage", "fixed")])).unwrap();
        assert_eq!((whole.wait(), whole.verdict()), (None, Verdict::AllMended));
        let document = whole.document(false);
        let outcomes: Vec<&Value> =
            document["findings"].as_array().unwrap().iter().map(|f| &f["outcome"]).collect();
        assert_eq!(outcomes, ["fixed", "gone", "fixed"]);
        assert_eq!(document["findings"][0]["new"], 1, "as it was sent");
    }
}
