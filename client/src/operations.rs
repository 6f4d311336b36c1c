//! Every operation of the HTTP API (SPEC 10), in the words of its description. Ids are taken as what they are shown as.

use crate::{Call, Client, Done, Download, Pages};
use conveyor_domain::{ExportFormat, ScheduleState};
use conveyor_wire::{
    AddTasks, Added, ApiKey, Audit, Became, BodiesAudit, Caller, ChangeLimits, ChangeQuotas, Clock,
    CompleteParts, CreateInput, CreateKey, Delivery, DryRun, Event, Export, History, HmacKeyCreated,
    HmacKeyFinalized, HmacKeys, Ingest, Input, Job, Lease, Letter, Limits, PartTargets, PutWebhook,
    QuotasBody, ReconcileRequest, Reconciled, RedriveLetters, Redriven, Rerun, RerunJob, Run, ScheduleBody,
    ScheduleTurn, SignParts, StartExport, StartedExport, SubmitJob, Submitted, Task, TestSent, Webhook,
    WebhookBody,
};
use serde::Serialize;
use std::fmt::Display;

/// Jobs.
impl Client {
    /// Submits a job. Under its `Idempotency-Key` it is made once, however often it is sent.
    pub fn submit<T: Serialize, S: Serialize>(&self, job: &SubmitJob<T, S>) -> Call<Submitted> {
        self.post(&[&"jobs"]).json(job).keyed()
    }

    /// Says what a submit would come to, and makes no job.
    pub fn dry_run<T: Serialize, S: Serialize>(&self, job: &SubmitJob<T, S>) -> Call<DryRun> {
        self.post(&[&"jobs"]).query("dry_run", true).json(job).harmless()
    }

    /// The caller's jobs, the newest first. Filters: `status`, `type`.
    pub fn jobs(&self) -> Pages<Job> {
        Pages::new(self.get(&[&"jobs"]), "jobs")
    }

    pub fn job(&self, job: impl Display) -> Call<Job> {
        self.get(&[&"jobs", &job])
    }

    /// Adds tasks to an open job.
    pub fn add_tasks<T: Serialize>(&self, job: impl Display, tasks: &AddTasks<T>) -> Call<Added> {
        self.post(&[&"jobs", &job, &"tasks"]).json(tasks).keyed()
    }

    /// Says that an open job has all its tasks.
    pub fn close(&self, job: impl Display) -> Call<Job> {
        self.post(&[&"jobs", &job, &"close"])
    }

    /// Stops the current run. Tasks in flight may still finish.
    pub fn stop(&self, job: impl Display) -> Call<Run> {
        self.post(&[&"jobs", &job, &"stop"])
    }

    pub fn pause(&self, job: impl Display) -> Call<Run> {
        self.post(&[&"jobs", &job, &"pause"]).harmless()
    }

    pub fn resume(&self, job: impl Display) -> Call<Run> {
        self.post(&[&"jobs", &job, &"resume"]).harmless()
    }

    pub fn delete_job(&self, job: impl Display) -> Call<Done> {
        self.delete(&[&"jobs", &job])
    }

    /// Starts another run of the job. Filters of the tasks that it does: `status`, `error_class`, `http_status`, `domain`,
    /// each a list with commas.
    pub fn rerun(&self, job: impl Display, changes: Option<&RerunJob>) -> Call<Rerun> {
        let call = self.post(&[&"jobs", &job, &"rerun"]).keyed();
        match changes {
            Some(changes) => call.json(changes),
            None => call,
        }
    }

    pub fn limits(&self, job: impl Display) -> Call<Limits> {
        self.get(&[&"jobs", &job, &"limits"])
    }

    pub fn change_limits(&self, job: impl Display, limits: &ChangeLimits) -> Call<Job> {
        self.patch(&[&"jobs", &job]).json(limits)
    }

    /// Which workers hold permits of the caller's jobs.
    pub fn leases(&self) -> Pages<Lease> {
        Pages::new(self.get(&[&"leases"]), "leases")
    }

    pub fn replace_schedule(&self, job: impl Display, schedule: &ScheduleBody) -> Call<Job> {
        self.put(&[&"jobs", &job, &"schedule"]).json(schedule)
    }

    /// Pauses a schedule, or lets it fire again.
    pub fn turn_schedule(&self, job: impl Display, schedule_state: ScheduleState) -> Call<Job> {
        let turn = ScheduleTurn { schedule_state };
        self.post(&[&"jobs", &job, &"schedule", &"state"]).json(&turn).harmless()
    }
}

/// Runs, and what came of their tasks.
impl Client {
    pub fn runs(&self, job: impl Display) -> Pages<Run> {
        Pages::new(self.get(&[&"jobs", &job, &"runs"]), "runs")
    }

    pub fn run(&self, job: impl Display, run: impl Display) -> Call<Run> {
        self.get(&[&"jobs", &job, &"runs", &run])
    }

    pub fn delete_run(&self, job: impl Display, run: impl Display) -> Call<Done> {
        self.delete(&[&"jobs", &job, &"runs", &run])
    }

    /// The tasks of the latest run. Filter: `status`.
    pub fn results(&self, job: impl Display) -> Pages<Task> {
        Pages::new(self.get(&[&"jobs", &job, &"results"]), "results")
    }

    /// The tasks of a run. Filter: `status`.
    pub fn results_of_run(&self, job: impl Display, run: impl Display) -> Pages<Task> {
        Pages::new(self.get(&[&"jobs", &job, &"runs", &run, &"results"]), "results")
    }

    /// The body of a task of the latest run.
    pub fn content(&self, job: impl Display, task: impl Display) -> Download {
        self.download_of(&[&"jobs", &job, &"tasks", &task, &"content"])
    }

    pub fn content_of_run(&self, job: impl Display, run: impl Display, task: impl Display) -> Download {
        self.download_of(&[&"jobs", &job, &"runs", &run, &"tasks", &task, &"content"])
    }

    /// The attempts at a task of the latest run.
    pub fn history(&self, job: impl Display, task: impl Display) -> Call<History> {
        self.get(&[&"jobs", &job, &"tasks", &task, &"history"])
    }

    pub fn history_of_run(&self, job: impl Display, run: impl Display, task: impl Display) -> Call<History> {
        self.get(&[&"jobs", &job, &"runs", &run, &"tasks", &task, &"history"])
    }

    /// How far the list of a run is. A run without a list has none.
    pub fn ingest(&self, job: impl Display, run: impl Display) -> Call<Ingest> {
        self.get(&[&"jobs", &job, &"runs", &run, &"ingest"])
    }

    /// The rows that were rejected. Parameter: `format`, `jsonl` or `csv`.
    pub fn rejected(&self, job: impl Display, run: impl Display) -> Download {
        self.download_of(&[&"jobs", &job, &"runs", &run, &"ingest", &"rejected"])
    }

    /// Starts an export. Sent twice, it makes one too many, which expires.
    pub fn start_export(
        &self,
        job: impl Display,
        run: impl Display,
        format: ExportFormat,
    ) -> Call<StartedExport> {
        let format = StartExport { format: Some(format) };
        self.post(&[&"jobs", &job, &"runs", &run, &"exports"]).json(&format).harmless()
    }

    pub fn exports(&self, job: impl Display, run: impl Display) -> Pages<Export> {
        Pages::new(self.get(&[&"jobs", &job, &"runs", &run, &"exports"]), "exports")
    }

    pub fn export(&self, job: impl Display, run: impl Display, export: impl Display) -> Call<Export> {
        self.get(&[&"jobs", &job, &"runs", &run, &"exports", &export])
    }

    pub fn delete_export(&self, job: impl Display, run: impl Display, export: impl Display) -> Call<Done> {
        self.delete(&[&"jobs", &job, &"runs", &run, &"exports", &export])
    }

    /// Counts everything that is stored of a run and compares it.
    pub fn audit(&self, job: impl Display, run: impl Display) -> Call<Audit> {
        self.get(&[&"jobs", &job, &"runs", &run, &"audit"])
    }

    /// Reads and verifies a page of bodies. Parameter: `cursor`, from the page before.
    pub fn audit_bodies(&self, job: impl Display, run: impl Display) -> Call<BodiesAudit> {
        self.get(&[&"jobs", &job, &"runs", &run, &"audit", &"bodies"])
    }
}

/// Uploads. [`Client::upload`] does all of it.
impl Client {
    /// Makes a slot. Sent twice, it makes one too many, which expires.
    pub fn create_input(&self, list: &CreateInput) -> Call<Input> {
        self.post(&[&"job_inputs"]).json(list).harmless()
    }

    pub fn inputs(&self) -> Pages<Input> {
        Pages::new(self.get(&[&"job_inputs"]), "job_inputs")
    }

    pub fn input(&self, upload: impl Display) -> Call<Input> {
        self.get(&[&"job_inputs", &upload])
    }

    pub fn abort_input(&self, upload: impl Display) -> Call<Done> {
        self.delete(&[&"job_inputs", &upload])
    }

    pub fn sign_parts(&self, upload: impl Display, parts: &SignParts) -> Call<PartTargets> {
        self.post(&[&"job_inputs", &upload, &"parts"]).json(parts).harmless()
    }

    pub fn complete_input(&self, upload: impl Display, parts: &CompleteParts) -> Call<Input> {
        self.post(&[&"job_inputs", &upload, &"complete"]).json(parts).harmless()
    }
}

/// Events and webhooks.
impl Client {
    /// What happened to a job. [`Client::follow`] also tells what is happening.
    pub fn events(&self, job: impl Display) -> Pages<Event> {
        Pages::new(self.get(&[&"jobs", &job, &"events"]), "events")
    }

    pub fn deliveries(&self, job: impl Display) -> Pages<Delivery> {
        Pages::new(self.get(&[&"jobs", &job, &"deliveries"]), "deliveries")
    }

    pub fn delivery(&self, job: impl Display, event: impl Display) -> Call<Delivery> {
        self.get(&[&"jobs", &job, &"deliveries", &event])
    }

    /// Sends a notification again, under the same id.
    pub fn replay(&self, job: impl Display, event: impl Display) -> Call<Delivery> {
        self.post(&[&"jobs", &job, &"deliveries", &event, &"replay"])
    }

    pub fn webhook(&self, job: impl Display) -> Call<Webhook> {
        self.get(&[&"jobs", &job, &"webhook"])
    }

    pub fn put_webhook(&self, job: impl Display, webhook: &PutWebhook) -> Call<Webhook> {
        self.put(&[&"jobs", &job, &"webhook"]).json(webhook)
    }

    pub fn delete_webhook(&self, job: impl Display) -> Call<Done> {
        self.delete(&[&"jobs", &job, &"webhook"])
    }

    /// Sends a test event to a webhook.
    pub fn test_webhook(&self, webhook: &WebhookBody) -> Call<TestSent> {
        self.post(&[&"webhook", &"test"]).json(webhook)
    }

    /// The keys that webhooks are signed with.
    pub fn hmac_keys(&self) -> Call<HmacKeys> {
        self.get(&[&"hmac", &"keys"])
    }

    pub fn rotate_hmac_key(&self) -> Call<HmacKeyCreated> {
        self.post(&[&"hmac", &"keys", &"rotate"])
    }

    pub fn finalize_hmac_key(&self) -> Call<HmacKeyFinalized> {
        self.post(&[&"hmac", &"keys", &"rotate", &"finalize"])
    }

    pub fn cancel_hmac_key(&self) -> Call<Done> {
        self.delete(&[&"hmac", &"keys", &"rotate"])
    }
}

/// What an operator's key opens.
impl Client {
    /// Finds and repairs what is wrong with stored data. Repaired twice, it is right all the same.
    pub fn reconcile(&self, what: &ReconcileRequest) -> Call<Reconciled> {
        self.post(&[&"admin", &"reconcile"]).json(what).harmless()
    }

    pub fn clock(&self) -> Call<Clock> {
        self.get(&[&"admin", &"clock"])
    }

    pub fn confirm_clock(&self) -> Call<Clock> {
        self.post(&[&"admin", &"clock", &"confirm"]).harmless()
    }

    /// Makes an API key. It is in this answer and nowhere else; a repeat would make another one.
    pub fn create_key(&self, key: &CreateKey) -> Call<ApiKey> {
        self.post(&[&"admin", &"keys"]).json(key)
    }

    pub fn keys(&self) -> Pages<ApiKey> {
        Pages::new(self.get(&[&"admin", &"keys"]), "keys")
    }

    pub fn revoke_key(&self, key: impl Display) -> Call<Done> {
        self.delete(&[&"admin", &"keys", &key])
    }

    /// What a caller may have, and has.
    pub fn caller(&self, caller: impl Display) -> Call<Caller> {
        self.get(&[&"admin", &"callers", &caller])
    }

    pub fn change_quotas(&self, caller: impl Display, quotas: QuotasBody) -> Call<Caller> {
        self.patch(&[&"admin", &"callers", &caller]).json(&ChangeQuotas(quotas))
    }

    /// Filters: `job_id`, `run_id`, `error`.
    pub fn dead_letters(&self) -> Pages<Letter> {
        Pages::new(self.get(&[&"admin", &"dead_letters"]), "dead_letters")
    }

    pub fn dead_letter(&self, letter: impl Display) -> Call<Letter> {
        self.get(&[&"admin", &"dead_letters", &letter])
    }

    /// Sends a dead letter again. Sent twice, it has one redrive less.
    pub fn redrive(&self, letter: impl Display) -> Call<Became> {
        self.post(&[&"admin", &"dead_letters", &letter, &"redrive"])
    }

    /// Sends a page of dead letters again.
    pub fn redrive_many(&self, which: &RedriveLetters) -> Call<Redriven> {
        self.post(&[&"admin", &"dead_letters", &"redrive"]).json(which)
    }

    pub fn purge(&self, letter: impl Display) -> Call<Became> {
        self.delete(&[&"admin", &"dead_letters", &letter])
    }
}
