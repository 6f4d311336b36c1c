//! What a reconciliation comes to, over all its parts and looks.

use conveyor_client::wire::{Outcome, Reconciled, RepairError, Time, Treated, Unsure};
use conveyor_domain::repair::Kind;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    NothingWrong,
    StillWrong,
    AllMended,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub struct Whole {
    at: Option<Time>,
    pub findings: Vec<Treated>,
    pub unsure: Vec<Unsure>,
    pub errors: Vec<RepairError>,
}

/// Upkeep is nothing that is wrong.
pub fn is_damage(treated: &Treated) -> bool {
    treated.finding.kind == Kind::Damage
}

/// Whether it was so, and is no longer.
pub fn is_mended(treated: &Treated) -> bool {
    treated.outcome == Outcome::Fixed || treated.outcome == Outcome::Gone
}

fn key(treated: &Treated) -> (&str, &str) {
    (&treated.finding.repair, &treated.finding.subject.id)
}

impl Whole {
    /// A new look is taken. What was mended stays told; everything else it finds again, if it is still so.
    pub fn look_again(&mut self) {
        self.findings.retain(is_mended);
        self.unsure.clear();
        self.errors.clear();
    }

    /// Adds a part. What took longer than one part is found again by the next one, which knows better what became of it.
    pub fn add(&mut self, part: Reconciled) {
        let again: HashSet<(&str, &str)> = part.findings.iter().map(key).collect();
        self.findings.retain(|old| is_mended(old) || !again.contains(&key(old)));
        self.at = Some(part.at);
        self.findings.extend(part.findings);
        self.unsure.extend(part.unsure);
        self.errors.extend(part.errors);
    }

    /// How long until everything that could not be told can be; `None` if there is no such thing.
    pub fn wait(&self) -> Option<Duration> {
        self.unsure.iter().map(|one| Duration::from_millis(one.in_ms)).max()
    }

    pub fn verdict(&self) -> Verdict {
        let damage = || self.findings.iter().filter(|treated| is_damage(treated));
        // What could not be looked at, or not be told, cannot pass for being in order.
        if !self.errors.is_empty() || !self.unsure.is_empty() || !damage().all(is_mended) {
            return Verdict::StillWrong;
        }
        match damage().next() {
            Some(_) => Verdict::AllMended,
            None => Verdict::NothingWrong,
        }
    }

    pub fn document(&self, dry_run: bool) -> Value {
        json!({ "at": self.at, "dry_run": dry_run, "findings": self.findings, "unsure": self.unsure,
                "errors": self.errors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::{T, finding, part};

    fn read(findings: Value, unsure: Value, errors: Value) -> Reconciled {
        let mut part = part(findings, unsure, None);
        part["errors"] = errors;
        serde_json::from_value(part).unwrap()
    }

    fn whole(findings: &[(&str, &str)]) -> Whole {
        let mut whole = Whole::default();
        let findings = findings.iter().map(|(kind, outcome)| finding(kind, outcome)).collect();
        whole.add(read(findings, json!([]), json!([])));
        whole
    }

    fn unsure() -> Value {
        json!([{"subject": {"type": "run", "id": "R"}, "until": T, "in_ms": 70}])
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
        let errors = json!([{"repair": "r", "error": "e"}]);
        for part in [read(json!([]), json!([]), errors), read(json!([]), unsure(), json!([]))] {
            let mut whole = Whole::default();
            whole.add(part);
            assert_eq!(whole.verdict(), Verdict::StillWrong);
        }
    }

    #[test]
    fn what_took_two_parts_is_told_once() {
        let mut whole = whole(&[("damage", "failed")]);
        whole.add(read(json!([finding("damage", "fixed")]), json!([]), json!([])));
        assert_eq!((whole.findings.len(), whole.verdict()), (1, Verdict::AllMended));
        assert_eq!(whole.document(false)["findings"][0]["outcome"], "fixed");
    }

    #[test]
    fn another_look_forgets_all_but_what_was_mended() {
        let mut whole = whole(&[("damage", "fixed"), ("damage", "seen"), ("upkeep", "gone")]);
        whole.add(read(json!([]), unsure(), json!([])));
        assert_eq!(whole.wait(), Some(Duration::from_millis(70)));
        whole.look_again();
        whole.add(read(json!([finding("damage", "fixed")]), json!([]), json!([])));
        assert_eq!((whole.wait(), whole.verdict()), (None, Verdict::AllMended));
        let document = whole.document(false);
        let outcomes: Vec<&Value> =
            document["findings"].as_array().unwrap().iter().map(|f| &f["outcome"]).collect();
        assert_eq!(outcomes, ["fixed", "gone", "fixed"]);
    }
}
