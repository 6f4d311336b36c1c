//! What the gateway charged (SPEC 6.25). An indication for the caller, not a bill: what the gateway says is believed, within
//! reason.

use crate::limits;
use serde::{Deserialize, Serialize};

const NANOS: f64 = 1e9;
/// A sum is never more than this: two of them still fit into a signed 64-bit integer, so that adding never fails.
pub const SUM_MAX: u64 = i64::MAX.cast_unsigned() / 2;

/// Credits, and a cost in billionths of whatever unit the gateway counts in: so sums are exact. Stored as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spend {
    #[serde(rename = "c", skip_serializing_if = "is_zero")]
    pub credits: u64,
    #[serde(rename = "n", skip_serializing_if = "is_zero")]
    pub cost_nanos: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Spend {
    /// What the headers of an answer say. A value that is no number, below nothing or absurd says nothing.
    pub fn of_headers(credits: Option<&str>, cost: Option<&str>) -> Spend {
        Spend {
            credits: credits.and_then(parse_credits).unwrap_or(0),
            cost_nanos: cost.and_then(parse_cost).unwrap_or(0),
        }
    }

    pub fn is_zero(&self) -> bool {
        *self == Spend::default()
    }

    /// As callers are shown it.
    pub fn cost(&self) -> f64 {
        self.cost_nanos as f64 / NANOS
    }

    #[must_use]
    pub fn plus(self, other: Spend) -> Spend {
        let sum = |a: u64, b: u64| a.saturating_add(b).min(SUM_MAX);
        Spend {
            credits: sum(self.credits, other.credits),
            cost_nanos: sum(self.cost_nanos, other.cost_nanos),
        }
    }
}

fn parse_credits(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|credits| *credits <= limits::CALL_CREDITS_MAX)
}

fn parse_cost(text: &str) -> Option<u64> {
    let cost: f64 = text.trim().parse().ok()?;
    // Up to there a double tells billionths apart.
    let fits = (0.0..=limits::CALL_COST_MAX).contains(&cost);
    fits.then(|| (cost * NANOS).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(text: &str) -> u64 {
        Spend::of_headers(None, Some(text)).cost_nanos
    }

    #[test]
    fn a_cost_is_exact_to_a_billionth() {
        assert_eq!(cost("0.00028"), 280_000);
        assert_eq!(cost(" 1 "), 1_000_000_000);
        assert_eq!(cost("2.8e-05"), 28_000);
        assert_eq!(cost("9999.999999999"), 9_999_999_999_999);
        let tenth = Spend { cost_nanos: cost("0.1"), ..Spend::default() };
        let sum = (0..3).fold(Spend::default(), |sum, _| sum.plus(tenth));
        assert_eq!(serde_json::json!(sum.cost()).to_string(), "0.3");
    }

    #[test]
    fn nonsense_costs_nothing() {
        for text in ["", "-0.1", "free", "inf", "NaN", "1,5", "10000.1", "1e300", "0x10", "1 2"] {
            assert_eq!(cost(text), 0, "{text}");
        }
        for text in ["", "-1", "1.5", "many", "1000000001", "99999999999999999999"] {
            assert_eq!(Spend::of_headers(Some(text), None), Spend::default(), "{text}");
        }
        assert_eq!(Spend::of_headers(Some(" 25 "), Some("bad")), Spend { credits: 25, cost_nanos: 0 });
    }

    #[test]
    fn sums_end_somewhere_and_can_always_be_added() {
        let most = Spend { credits: u64::MAX, cost_nanos: u64::MAX };
        let sum = most.plus(most);
        assert_eq!((sum.credits, sum.cost_nanos), (SUM_MAX, SUM_MAX));
        assert!(SUM_MAX.checked_add(SUM_MAX).and_then(|n| i64::try_from(n).ok()).is_some());
    }

    #[test]
    fn what_is_nothing_takes_no_room() {
        assert_eq!(serde_json::to_string(&Spend::default()).unwrap(), "{}");
        let spend = Spend { credits: 5, cost_nanos: 7 };
        let stored = serde_json::to_string(&spend).unwrap();
        assert_eq!((stored.as_str(), serde_json::from_str(&stored).unwrap()), (r#"{"c":5,"n":7}"#, spend));
    }
}
