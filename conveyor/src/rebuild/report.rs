//! What a rebuild did, for people and for programs.

use super::owner::Owner;
use comfy_table::{Table, presets};
use conveyor_domain::{CallerId, JobId, RunStatus};
use conveyor_store::port::RunKey;
use serde_json::{Value, json};

#[derive(Debug)]
pub struct Report {
    pub key: RunKey,
    pub dry_run: bool,
    pub caller: CallerId,
    pub owner: Owner,
    /// There was no row of the job, when this rebuild began or one that broke off.
    pub made_anew: bool,
    pub total: u64,
    pub rows_written: u64,
    /// Rows that are counted in the total and in no list: they were added later.
    pub rows_missing: u64,
    pub objects: u64,
    pub objects_unlabelled: u64,
    pub bodies: u64,
    pub results_restored: u64,
    pub outcomes_lost: u64,
    pub counters_corrected: u64,
    pub refs_sent: u64,
    pub resumed: bool,
    /// Made anew, so paused, and not resumed.
    pub left_paused: bool,
    pub status: RunStatus,
    pub paused: bool,
}

impl Report {
    pub fn new(key: RunKey, caller: CallerId, dry_run: bool) -> Report {
        Report {
            key,
            dry_run,
            caller,
            owner: Owner::JobRow,
            made_anew: false,
            total: 0,
            rows_written: 0,
            rows_missing: 0,
            objects: 0,
            objects_unlabelled: 0,
            bodies: 0,
            results_restored: 0,
            outcomes_lost: 0,
            counters_corrected: 0,
            refs_sent: 0,
            resumed: false,
            left_paused: false,
            status: RunStatus::Running,
            paused: false,
        }
    }

    fn job(&self) -> JobId {
        self.key.job
    }

    pub fn json(&self) -> Value {
        json!({
            "job_id": self.job(),
            "run_id": self.key.run,
            "caller_id": self.caller,
            "owner_by": self.owner.as_str(),
            "dry_run": self.dry_run,
            "job_made_anew": self.made_anew,
            "rows": {"total": self.total, "written": self.rows_written, "missing": self.rows_missing},
            "results": {
                "objects": self.objects,
                "objects_without_index": self.objects_unlabelled,
                "bodies": self.bodies,
                "restored": self.results_restored,
            },
            "outcomes_lost": self.outcomes_lost,
            "counters_corrected": self.counters_corrected,
            "refs_sent": self.refs_sent,
            "resumed": self.resumed,
            "left_paused": self.left_paused,
            "run": {"status": self.status.as_str(), "paused": self.paused},
            "remarks": self.remarks(),
        })
    }

    pub fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut add = |name: &str, value: String| {
            table.add_row([name.to_owned(), value]);
        };
        add("job", format!("{}{}", self.job(), if self.made_anew { ", made anew" } else { "" }));
        add("run", format!("{}, {}{}", self.key.run, self.status.as_str(), self.pause()));
        add("owner", self.caller.to_string());
        let missing = match self.rows_missing {
            0 => String::new(),
            n => format!(", {n} lost (added later, so in no list)"),
        };
        add("rows", format!("{} in all, {} written{missing}", self.total, self.rows_written));
        let unlabelled = match self.objects_unlabelled {
            0 => String::new(),
            n => format!(", {n} of them of an earlier version and of no use"),
        };
        add("result objects", format!("{}{unlabelled}", self.objects));
        add("results", format!("{} found, {} restored", self.bodies, self.results_restored));
        add("outcomes lost", self.outcomes_lost.to_string());
        add("counters", format!("corrected by {}", self.counters_corrected));
        add("refs sent", self.refs_sent.to_string());
        let said = if self.dry_run { "would be done (nothing was)\n" } else { "" };
        let remarks: String = self.remarks().iter().map(|remark| format!("\n{remark}")).collect();
        format!("{said}{}{remarks}", table.trim_fmt())
    }

    /// What is not as it was, and what to do about it.
    fn remarks(&self) -> Vec<String> {
        let job = self.job();
        let mut remarks = Vec::new();
        if self.made_anew {
            remarks.push(
                "The job's state and limits are those of its submit: a stop, a pause, other limits or added tasks since then \
                 are lost."
                    .to_owned(),
            );
        }
        if self.left_paused {
            remarks.push(format!(
                "So its run is paused: `conveyor limits {job}` shows and changes the limits, `conveyor resume {job}` lets it \
                 go on."
            ));
        }
        match self.owner {
            Owner::KeyFile => {
                remarks.push("It belongs to the API key that is kept in the data directory.".to_owned());
            }
            Owner::Accepted => remarks.push(
                "It belongs to the caller that submitted it, whose API keys may be gone: --owner-key names another, as \
                 long as there is no row of the job, or gives that caller a key that nobody has yet."
                    .to_owned(),
            ),
            Owner::JobRow | Owner::Flag => {}
        }
        remarks
    }

    fn pause(&self) -> &'static str {
        match (self.paused, self.resumed) {
            (true, _) if self.left_paused => ", paused",
            (true, _) => ", paused as it was before",
            (false, true) => ", resumed",
            (false, false) => "",
        }
    }
}
