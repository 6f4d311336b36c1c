//! What repairs and audits say (SPEC 6.14, 6.17).

use super::{Time, run};
use conveyor_domain::repair::{Finding, Outcome, Subject, by_class};
use conveyor_domain::{
    Audit, BodiesAudit, BodyFault, FailureClass, Reconciled, RowCounts, Sums, TaskId, Timestamp,
};
use conveyor_store::port::RunView;
use conveyor_wire as wire;

fn subject(subject: Subject) -> wire::Subject {
    wire::Subject { kind: subject.kind().into(), id: subject.to_string(), job_id: subject.job() }
}

fn finding(finding: &Finding) -> wire::Finding {
    wire::Finding {
        repair: finding.repair.into(),
        kind: finding.kind.into(),
        subject: subject(finding.subject),
        why: finding.why.clone(),
        remedy: finding.remedy.clone(),
        fixable: finding.fixable,
    }
}

fn unsure((about, until): &(Subject, Timestamp), now: Timestamp) -> wire::Unsure {
    let in_ms = u64::try_from(now.until(*until).as_millis()).unwrap_or(u64::MAX);
    wire::Unsure { subject: subject(*about), until: Time(*until), in_ms }
}

pub(crate) fn reconciled(
    Reconciled { at, dry_run, findings, unsure: later, errors, next }: &Reconciled,
) -> wire::Reconciled {
    let error = |(repair, error): &(&'static str, String)| wire::RepairError {
        repair: (*repair).into(),
        error: error.clone(),
    };
    wire::Reconciled {
        at: Time(*at),
        dry_run: *dry_run,
        findings: findings.iter().map(treated).collect(),
        unsure: later.iter().map(|one| unsure(one, *at)).collect(),
        errors: errors.iter().map(error).collect(),
        next: next.clone(),
    }
}

fn treated((found, outcome): &(Finding, Outcome)) -> wire::Treated {
    let (outcome, changed, error) = match outcome {
        Outcome::Seen => (wire::Outcome::Seen, None, None),
        Outcome::Fixed(changed) => (wire::Outcome::Fixed, Some(*changed), None),
        Outcome::Gone => (wire::Outcome::Gone, None, None),
        Outcome::NeedsOperator => (wire::Outcome::NeedsOperator, None, None),
        Outcome::Failed(error) => (wire::Outcome::Failed, None, Some(error.clone())),
    };
    wire::Treated { finding: finding(found), outcome: outcome.into(), changed, error }
}

fn rows(rows: &RowCounts) -> wire::RowCounts {
    let failed = by_class(&rows.settled.failed);
    wire::RowCounts {
        pending: rows.pending,
        processing: rows.processing,
        successful: rows.settled.successful,
        failed: rows.failed(),
        failure_reasons: failed.map(|(class, n)| (class.as_str().into(), n)).collect(),
        unclassified: rows.unclassified,
    }
}

fn counters(sums: &Sums) -> wire::Counters {
    let by_class =
        FailureClass::ALL.into_iter().map(|class| (class.as_str().into(), sums.failed[class as usize]));
    wire::Counters {
        successful: sums.successful,
        failed: sums.failed_total(),
        failure_reasons: by_class.filter(|(_, n)| *n != 0).collect(),
    }
}

/// `view` is that of the audit's own run.
pub(crate) fn audit(audit: Audit, view: &RunView) -> wire::Audit {
    let agrees = audit.agrees();
    wire::Audit {
        at: Time(audit.at),
        job_id: audit.job,
        run: run(view),
        agrees,
        list: audit.list,
        total: audit.stats.total,
        rows: audit.rows.as_ref().map(rows),
        counters: counters(&audit.counters),
        results: audit.results,
        disagreements: audit.disagreements,
        findings: audit.findings.iter().map(finding).collect(),
        unsure: audit.unsure.iter().map(|one| unsure(one, audit.at)).collect(),
    }
}

pub(crate) fn bodies_audit(audit: BodiesAudit, next_cursor: Option<String>) -> wire::BodiesAudit {
    let BodiesAudit { read, bytes, unverified, at_fault, more_at_fault, next: _ } = audit;
    let named = |(task_id, fault): (TaskId, BodyFault)| wire::BodyFault { task_id, fault: fault.into() };
    let at_fault = at_fault.into_iter().map(named).collect();
    wire::BodiesAudit { read, bytes, unverified, at_fault, more_at_fault, next_cursor }
}
