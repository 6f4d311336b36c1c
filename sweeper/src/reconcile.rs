//! Every repair for an operator: what is wrong, and, unless it is a dry run, what was done about it (SPEC 6.17). In parts
//! that are bounded in time and size; each says where the next one begins.

use crate::repair::{Fixed, Look, Repair, Scope};
use crate::repairs;
use crate::sweep::{Sweep, fix, outcome};
use conveyor_domain::repair::{Finding, Outcome};
use conveyor_domain::{Reconciled, limits};
use std::collections::BTreeMap;
use std::time::Duration;

/// What is looked at before the time is looked at again.
const PAGE: u32 = 50;

/// A cursor that no part of a reconciliation ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of a reconciliation")]
pub struct InvalidCursor;

/// Looks at everything, or at one job, and fixes what it finds, whoever's it is; from where an earlier part ended, for about
/// as long as it is told.
pub async fn reconcile(
    sweep: &Sweep<'_>,
    scope: Scope,
    dry_run: bool,
    from: Option<&str>,
    within: Duration,
) -> Result<Reconciled, InvalidCursor> {
    let repairs = repairs::all();
    let (mut rest, mut cursor) = begin(&repairs, from)?;
    let sweep = sweep.within(within);
    let mut part = Reconciled {
        at: sweep.clock.now(),
        dry_run,
        findings: Vec::new(),
        unsure: Vec::new(),
        errors: Vec::new(),
        next: None,
    };
    let (mut looked, mut unread) = (false, BTreeMap::new());
    'part: while let Some((repair, later)) = rest.split_first() {
        let look = Look::of(&sweep, scope, true).paged(PAGE);
        loop {
            let full = part.findings.len() + PAGE as usize > limits::FINDINGS_MAX;
            // A part that did nothing would be followed by another.
            if full || (looked && sweep.is_over()) {
                part.next = Some(format!("{}:{}", repair.name(), cursor.unwrap_or_default()));
                break 'part;
            }
            looked = true;
            cursor = page(repair.as_ref(), &sweep, &look, cursor, &mut part).await;
            unread.extend(look.unread_runs().iter().map(|key| (key.run, *key)));
            if cursor.is_none() {
                break;
            }
        }
        rest = later;
    }
    // No repair of this part has seen these, and the next part may have none that looks at runs.
    let again = part.at.after(limits::SWEEP_EVERY);
    part.unsure.extend(unread.into_values().map(|key| (key.into(), again)));
    Ok(part)
}

/// One page of one repair. Returns the cursor of the next, if there is one.
async fn page(
    repair: &dyn Repair,
    sweep: &Sweep<'_>,
    look: &Look<'_>,
    from: Option<String>,
    part: &mut Reconciled,
) -> Option<String> {
    let found = match repair.find(look, from.clone()).await {
        Ok(found) => found,
        Err(error) => {
            part.errors.push((repair.name(), error.to_string()));
            return None;
        }
    };
    part.unsure.extend(found.unsure);
    let (mut left, mut unfinished) = (found.findings.len(), false);
    for finding in found.findings {
        let outcome =
            if part.dry_run { Outcome::Seen } else { mend(repair, sweep, &finding, &mut unfinished).await };
        if matches!(outcome, Outcome::Fixed(_) | Outcome::Gone) {
            left -= 1;
        }
        part.findings.push((finding, outcome));
    }
    // What the time was up for is not behind us yet.
    if unfinished && sweep.is_over() {
        return Some(from.unwrap_or_default());
    }
    found.next.map(|next| next.cursor(left))
}

async fn mend(repair: &dyn Repair, sweep: &Sweep<'_>, finding: &Finding, unfinished: &mut bool) -> Outcome {
    if !finding.fixable {
        return Outcome::NeedsOperator;
    }
    let fixed = fix(repair, sweep, finding).await;
    *unfinished |= fixed == Ok(Fixed::Unfinished);
    outcome(fixed)
}

type Place<'a> = (&'a [Box<dyn Repair>], Option<String>);

/// The repair that a part begins with, those behind it, and the cursor within it.
fn begin<'a>(repairs: &'a [Box<dyn Repair>], from: Option<&str>) -> Result<Place<'a>, InvalidCursor> {
    let Some(from) = from else { return Ok((repairs, None)) };
    let (name, cursor) = from.split_once(':').ok_or(InvalidCursor)?;
    let at = repairs.iter().position(|repair| repair.name() == name).ok_or(InvalidCursor)?;
    Ok((&repairs[at..], Some(cursor.to_owned()).filter(|cursor| !cursor.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_begins_where_another_ended() {
        let repairs = repairs::all();
        let at = |from| begin(&repairs, from).map(|(rest, cursor)| (rest[0].name(), cursor));
        assert_eq!(at(None), Ok(("due_schedules", None)));
        assert_eq!(at(Some("deleted_jobs:")), Ok(("deleted_jobs", None)));
        assert_eq!(at(Some("deleted_jobs:50")), Ok(("deleted_jobs", Some("50".to_owned()))));
        assert_eq!(at(Some("nothing:50")), Err(InvalidCursor));
        assert_eq!(at(Some("deleted_jobs")), Err(InvalidCursor));
    }
}
