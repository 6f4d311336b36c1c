//! What repairs and audits say (SPEC 6.14, 6.17).

use super::Time;
use super::run::RunJson;
use conveyor_domain::repair::{Finding, Outcome, REPAIRS, Subject, by_class};
use conveyor_domain::{
    Audit, BodiesAudit, BodyFault, FailureClass, JobId, ListCounts, Reconciled, ResultCounts, RowCounts,
    Sums, TaskId, Timestamp,
};
use conveyor_store::port::RunView;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Serialize, JsonSchema)]
struct SubjectJson {
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["run", "job", "upload", "dead_letter", "queue"]))]
    kind: &'static str,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<JobId>,
}

impl From<Subject> for SubjectJson {
    fn from(subject: Subject) -> SubjectJson {
        SubjectJson { kind: subject.kind(), id: subject.to_string(), job_id: subject.job() }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct FindingJson<'a> {
    #[schemars(extend("enum" = REPAIRS))]
    repair: &'static str,
    #[schemars(extend("enum" = ["damage", "upkeep"]))]
    kind: &'static str,
    subject: SubjectJson,
    why: &'a str,
    remedy: &'a str,
    /// Whether the repair can do something about it.
    fixable: bool,
}

impl<'a> From<&'a Finding> for FindingJson<'a> {
    fn from(Finding { repair, kind, subject, why, remedy, fixable }: &'a Finding) -> FindingJson<'a> {
        let (kind, subject) = (kind.as_str(), SubjectJson::from(*subject));
        FindingJson { repair, kind, subject, why, remedy, fixable: *fixable }
    }
}

/// What cannot be told yet.
#[derive(Debug, Serialize, JsonSchema)]
struct UnsureJson {
    subject: SubjectJson,
    until: Time,
    /// For whoever has another clock.
    in_ms: u64,
}

impl UnsureJson {
    fn new((subject, until): &(Subject, Timestamp), now: Timestamp) -> UnsureJson {
        UnsureJson { subject: (*subject).into(), until: Time(*until), in_ms: ms(now.until(*until)) }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReconciledJson<'a> {
    at: Time,
    dry_run: bool,
    findings: Vec<TreatedJson<'a>>,
    unsure: Vec<UnsureJson>,
    errors: Vec<RepairErrorJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A finding, and what became of it.
#[derive(Debug, Serialize, JsonSchema)]
struct TreatedJson<'a> {
    #[serde(flatten)]
    finding: FindingJson<'a>,
    #[schemars(extend("enum" = ["seen", "fixed", "gone", "needs_operator", "failed"]))]
    outcome: &'static str,
    /// How many things were changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl<'a> TreatedJson<'a> {
    fn new((finding, outcome): &'a (Finding, Outcome)) -> TreatedJson<'a> {
        let (outcome, changed, error) = match outcome {
            Outcome::Seen => ("seen", None, None),
            Outcome::Fixed(changed) => ("fixed", Some(*changed), None),
            Outcome::Gone => ("gone", None, None),
            Outcome::NeedsOperator => ("needs_operator", None, None),
            Outcome::Failed(error) => ("failed", None, Some(error.as_str())),
        };
        TreatedJson { finding: finding.into(), outcome, changed, error }
    }
}

/// A repair that could not look.
#[derive(Debug, Serialize, JsonSchema)]
struct RepairErrorJson<'a> {
    #[schemars(extend("enum" = REPAIRS))]
    repair: &'static str,
    error: &'a str,
}

impl<'a> From<&'a Reconciled> for ReconciledJson<'a> {
    fn from(Reconciled { at, dry_run, findings, unsure, errors, next }: &'a Reconciled) -> Self {
        ReconciledJson {
            at: Time(*at),
            dry_run: *dry_run,
            findings: findings.iter().map(TreatedJson::new).collect(),
            unsure: unsure.iter().map(|one| UnsureJson::new(one, *at)).collect(),
            errors: errors.iter().map(|(repair, error)| RepairErrorJson { repair, error }).collect(),
            next: next.clone(),
        }
    }
}

type ByClass<T> = BTreeMap<&'static str, T>;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RowCounts")]
struct RowsJson {
    pending: u32,
    processing: u32,
    successful: u32,
    failed: u32,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"enum": FailureClass::ALL.map(FailureClass::as_str)}))]
    failure_reasons: ByClass<u32>,
    /// Failed ones that do not say why.
    #[serde(skip_serializing_if = "is_zero")]
    unclassified: u32,
}

impl From<&RowCounts> for RowsJson {
    fn from(rows: &RowCounts) -> RowsJson {
        RowsJson {
            pending: rows.pending,
            processing: rows.processing,
            successful: rows.settled.successful,
            failed: rows.failed(),
            failure_reasons: by_class(&rows.settled.failed).map(|(class, n)| (class.as_str(), n)).collect(),
            unclassified: rows.unclassified,
        }
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// As they are stored: a counter that was damaged can be anything.
#[derive(Debug, Serialize, JsonSchema)]
struct CountersJson {
    successful: i64,
    failed: i64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"enum": FailureClass::ALL.map(FailureClass::as_str)}))]
    failure_reasons: ByClass<i64>,
}

impl From<&Sums> for CountersJson {
    fn from(sums: &Sums) -> CountersJson {
        let by_class =
            FailureClass::ALL.into_iter().map(|class| (class.as_str(), sums.failed[class as usize]));
        CountersJson {
            successful: sums.successful,
            failed: sums.failed_total(),
            failure_reasons: by_class.filter(|(_, n)| *n != 0).collect(),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ListCounts")]
struct ListJson {
    accepted: u32,
    rejected: u32,
    whole: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ResultCounts")]
struct ResultsJson {
    present: u32,
    missing: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AuditJson<'a> {
    at: Time,
    job_id: JobId,
    run: RunJson<'a>,
    agrees: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<ListJson>,
    total: u32,
    /// Left out where rows prove nothing any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<RowsJson>,
    counters: CountersJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<ResultsJson>,
    disagreements: &'a [String],
    findings: Vec<FindingJson<'a>>,
    unsure: Vec<UnsureJson>,
}

impl<'a> AuditJson<'a> {
    /// `view` is that of the audit's own run.
    pub fn new(audit: &'a Audit, view: &'a RunView) -> AuditJson<'a> {
        let list = |ListCounts { accepted, rejected, whole }: &ListCounts| ListJson {
            accepted: *accepted,
            rejected: *rejected,
            whole: *whole,
        };
        AuditJson {
            at: Time(audit.at),
            job_id: audit.job,
            run: view.into(),
            agrees: audit.agrees(),
            list: audit.list.as_ref().map(list),
            total: audit.stats.total,
            rows: audit.rows.as_ref().map(RowsJson::from),
            counters: (&audit.counters).into(),
            results: audit.results.map(|ResultCounts { present, missing }| ResultsJson { present, missing }),
            disagreements: &audit.disagreements,
            findings: audit.findings.iter().map(FindingJson::from).collect(),
            unsure: audit.unsure.iter().map(|one| UnsureJson::new(one, audit.at)).collect(),
        }
    }
}

/// A body that is not what was written.
#[derive(Debug, Serialize, JsonSchema)]
struct BodyFaultJson {
    #[schemars(with = "TaskId")]
    task_id: String,
    #[schemars(extend("enum" = BodyFault::ALL.map(BodyFault::as_str)))]
    fault: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BodiesAuditJson {
    read: u32,
    bytes: u64,
    unverified: u32,
    at_fault: Vec<BodyFaultJson>,
    more_at_fault: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl BodiesAuditJson {
    pub fn new(audit: &BodiesAudit, next_cursor: Option<String>) -> BodiesAuditJson {
        let BodiesAudit { read, bytes, unverified, at_fault, more_at_fault, next: _ } = audit;
        let named = |(task, fault): &(TaskId, BodyFault)| BodyFaultJson {
            task_id: task.to_string(),
            fault: fault.as_str(),
        };
        BodiesAuditJson {
            read: *read,
            bytes: *bytes,
            unverified: *unverified,
            at_fault: at_fault.iter().map(named).collect(),
            more_at_fault: *more_at_fault,
            next_cursor,
        }
    }
}
