//! What must be true of every job after a takeover.

use super::Taken;
use super::caller::Caller;
use super::documents::{self, digest};
use super::fixture::Age;
use super::outside::{is_missing, page};
use crate::support;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

impl Taken {
    pub fn caller(&self, name: &str) -> Caller {
        Caller::new(&self.url, self.fixture.text(&format!("/keys/{name}")))
    }

    pub fn operator(&self) -> Caller {
        Caller::new(&self.url, self.fixture.text("/operator_key"))
    }

    fn owner(&self, facts: &Value) -> Caller {
        self.caller(facts["caller"].as_str().unwrap())
    }

    /// How a job must end: what `old` or `fresh` says, or else what holds at any time. `None`: it must not change.
    fn end<'a>(&self, facts: &'a Value) -> Option<&'a Value> {
        let of_this_age = match self.age {
            Age::Fresh => &facts["fresh"],
            Age::Old => &facts["old"],
        };
        [of_this_age, &facts["end"]].into_iter().find(|end| !end.is_null())
    }
}

/// A caller sees its own jobs, all of them, and nobody else's; a revoked key opens nothing.
pub async fn callers_are_separate(taken: &Taken) {
    for name in ["alice", "bob"] {
        let caller = taken.caller(name);
        let listed = caller.pages("/v1/jobs", "jobs").await;
        let listed: BTreeSet<_> = listed.iter().map(|job| job["job_id"].as_str().unwrap()).collect();
        for (job, facts) in taken.fixture.jobs() {
            let (id, own) = (facts["job_id"].as_str().unwrap(), facts["caller"] == name);
            let there = own && facts["gone"] != true;
            // What is being deleted may still be there for a moment.
            if own || facts["gone"] != true {
                assert!(!there || listed.contains(id), "{name} does not see {job}");
            }
            if !own {
                assert!(!listed.contains(id), "{name} sees {job}");
                assert_eq!(caller.try_get(&format!("/v1/jobs/{id}")).await.status, 404, "{name} reads {job}");
            }
        }
    }
    assert_eq!(taken.caller("revoked").try_get("/v1/jobs").await.status, 401);
    let operator = Caller::new(&taken.url, taken.fixture.text("/more/operator_key"));
    for operator in [operator, taken.operator()] {
        assert_eq!(operator.try_get("/v1/admin/keys").await.status, 200);
        assert_eq!(operator.try_get("/v1/jobs").await.status, 401, "an operator is no caller");
    }
    let bob = taken.operator().get(&format!("/v1/admin/callers/{}", taken.fixture.text("/more/bob"))).await;
    assert_eq!((&bob["quotas"]["active_jobs"], &bob["quotas"]["queued_tasks"]), (&json!(3), &json!(1000)));
}

pub async fn every_job(taken: &Taken) {
    let letters = taken.operator().pages("/v1/admin/dead_letters", "dead_letters").await;
    for (name, facts) in taken.fixture.jobs() {
        for step in facts["steps"].as_array().into_iter().flatten() {
            take_step(taken, name, facts, step.as_str().unwrap(), &letters).await;
        }
    }
    for (name, facts) in taken.fixture.jobs() {
        if facts["gone"] == true {
            let path = format!("/v1/jobs/{}", facts["job_id"].as_str().unwrap());
            let caller = taken.owner(facts);
            support::until(name, async || caller.try_get(&path).await.status == 404).await;
        } else if let Some(end) = taken.end(facts) {
            ends(taken, name, facts, end).await;
        } else {
            is_unchanged(taken, name, facts).await;
        }
    }
}

async fn take_step(taken: &Taken, name: &str, facts: &Value, step: &str, letters: &[Value]) {
    let job = facts["job_id"].as_str().unwrap();
    match step {
        "redrive" if taken.age == Age::Fresh => {
            let letter = letters.iter().find(|letter| letter["job_id"] == job);
            let letter =
                letter.unwrap_or_else(|| panic!("{name} has no dead letter"))["letter_id"].as_str().unwrap();
            let sent =
                taken.operator().post(&format!("/v1/admin/dead_letters/{letter}/redrive"), &json!({})).await;
            assert!(sent.to_string().contains("sent"), "{sent}");
        }
        "redrive" => {}
        step => {
            taken.owner(facts).call(reqwest::Method::POST, &format!("/v1/jobs/{job}/{step}"), None).await;
        }
    }
}

/// The run goes on to its end with exact counts, and nothing that was settled before is touched.
async fn ends(taken: &Taken, name: &str, facts: &Value, end: &Value) {
    let (caller, job) = (taken.owner(facts), facts["job_id"].as_str().unwrap());
    support::until(name, async || {
        let run = caller.get(&format!("/v1/jobs/{job}")).await["latest_run"].take();
        run["status"] == end["status"]
            && agrees(&run["run_sequence"], &end["run_sequence"])
            && ["total", "successful", "failed"].iter().all(|count| agrees(&run["stats"][count], &end[count]))
    })
    .await;
    let before = &taken.fixture.documents["jobs"][name];
    let after = documents::read(&caller, job).await;
    begins_with(name, &after["events"], &before["events"]);
    let (was, is) = (runs(before), runs(&after));
    for (id, was) in &was {
        let is = is.get(id).unwrap_or_else(|| panic!("{name} has lost its run {id}"));
        let live = ["running", "pending"].iter().any(|status| was["run"]["status"] == *status);
        match (live, taken.age) {
            (false, Age::Fresh) => same_run(name, was, is),
            (false, Age::Old) => same(name, &was["run"], &is["run"]),
            (true, _) if is["run"]["status"] == "completed" => live_run(name, taken.age, was, is),
            (true, _) => {}
        }
    }
    // A run that failed because its source is past its time may point to results that are gone.
    if taken.age == Age::Fresh || end["status"] == "completed" {
        audited(taken, facts, end["results_expire"] == true).await;
    }
}

/// A count that is not in the manifest may be anything.
fn agrees(count: &Value, expected: &Value) -> bool {
    expected.is_null() || count == expected
}

fn runs(document: &Value) -> BTreeMap<&str, &Value> {
    let runs = document["runs"].as_array().unwrap().iter();
    runs.map(|run| (run["run"]["run_id"].as_str().unwrap(), run)).collect()
}

fn tasks(run: &Value) -> BTreeMap<&str, &Value> {
    let tasks = run["results"].as_array().into_iter().flatten();
    tasks.map(|task| (task["task_id"].as_str().unwrap(), task)).collect()
}

fn is_settled(task: &Value) -> bool {
    task["status"] == "successful" || task["status"] == "failed"
}

fn live_run(name: &str, age: Age, was: &Value, is: &Value) {
    let (before, after) = (tasks(was), tasks(is));
    let mut new = 0;
    for (id, task) in &before {
        if is_settled(task) && age == Age::Fresh {
            same(name, task, after.get(id).unwrap_or_else(|| panic!("{name} has lost task {id}")));
        }
        assert!(is_settled(task) || after.contains_key(id), "{name} has lost task {id}");
    }
    for (id, task) in &after {
        if before.get(id).is_some_and(|before| is_settled(before)) {
            // Rows of an old image are past their time, unless somebody settled them again.
            assert_eq!(age, Age::Fresh, "{name}: a task that ended long ago is new again: {task}");
            continue;
        }
        // What a rerun hands down was done by an earlier run.
        let inherited = task.get("source_run_id").is_some();
        let url = task["url"].as_str().unwrap();
        if is_missing(url) {
            assert_eq!(
                (&task["status"], &task["error"]["status"]),
                (&json!("failed"), &json!(404)),
                "{name}: {task}"
            );
        } else {
            new += u64::from(!inherited);
            assert_eq!(task["status"], "successful", "{name}: {task}");
            assert_eq!(task["content"], digest(&page(url)), "{name}: {task}");
        }
    }
    let credits = |run: &Value| run["run"]["stats"]["spend"]["credits"].as_u64().unwrap_or(0);
    assert_eq!(credits(is), credits(was) + new, "{name}: every new page costs one credit");
}

/// Everything that can be read is what it was.
async fn is_unchanged(taken: &Taken, name: &str, facts: &Value) {
    let (caller, job) = (taken.owner(facts), facts["job_id"].as_str().unwrap());
    let before = &taken.fixture.documents["jobs"][name];
    let after = documents::read(&caller, job).await;
    same(name, &without_next(&before["job"]), &without_next(&after["job"]));
    begins_with(name, &after["events"], &before["events"]);
    same(name, &before["webhook"], &after["webhook"]);
    let (was, is) = (runs(before), runs(&after));
    assert_eq!(was.keys().collect::<Vec<_>>(), is.keys().collect::<Vec<_>>(), "{name}");
    for (id, was) in &was {
        match taken.age {
            Age::Fresh => same_run(name, was, is[id]),
            Age::Old => {
                same(name, &was["run"], &is[id]["run"]);
                let results = caller.try_get(&format!("/v1/jobs/{job}/runs/{id}/results")).await;
                assert_eq!(
                    (results.status, &results.json()["code"]),
                    (410, &json!("result_expired")),
                    "{name}"
                );
            }
        }
    }
    if taken.age == Age::Fresh {
        let over = |document: &Value| {
            let all = document["deliveries"].as_array().unwrap().iter();
            all.filter(|delivery| delivery["state"] != "pending").cloned().collect::<Value>()
        };
        begins_with(name, &over(&after), &over(before));
        if !was.is_empty() {
            audited(taken, facts, false).await;
        }
    }
}

/// When a schedule fires next depends on when one looks.
fn without_next(job: &Value) -> Value {
    let mut job = job.clone();
    job.as_object_mut().unwrap().remove("next_scheduled_run");
    job
}

/// Exports are the one thing that may be added to a run that has ended.
fn same_run(name: &str, was: &Value, is: &Value) {
    for part in ["run", "results", "ingest", "rejected"] {
        same(name, &was[part], &is[part]);
    }
    for export in
        was["exports"].as_array().into_iter().flatten().filter(|export| export["status"] == "completed")
    {
        assert!(is["exports"].as_array().unwrap().contains(export), "{name}: {export}");
    }
}

#[track_caller]
fn same(name: &str, before: &Value, after: &Value) {
    assert_eq!(before, after, "{name} has changed");
}

#[track_caller]
fn begins_with(name: &str, after: &Value, before: &Value) {
    let (after, before) = (after.as_array().unwrap(), before.as_array().unwrap());
    assert!(after.starts_with(before), "{name}: {after:?} does not begin with {before:?}");
}

/// `conveyor audit` finds nothing, except perhaps that inherited results are past their time.
async fn audited(taken: &Taken, facts: &Value, results_expire: bool) {
    let (job, caller) = (facts["job_id"].as_str().unwrap().to_owned(), taken.owner(facts));
    let mut command = support::conveyor();
    command
        .args(["audit", &job, "--json"])
        .env("CONVEYOR_SERVER", &taken.url)
        .env("CONVEYOR_API_KEY", &caller.key);
    let output = tokio::task::spawn_blocking(|| support::run(command)).await.unwrap();
    let audit: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let expired =
        |what: &Value| results_expire && what.to_string().contains("results name objects that are not there");
    let wrong: Vec<_> =
        audit["disagreements"].as_array().unwrap().iter().filter(|what| !expired(what)).collect();
    assert!(wrong.is_empty(), "{job}: {audit}");
    assert_eq!(output.status.success(), audit["agrees"] == true, "{job}: {audit}");
}

/// What was settled is never fetched again, with whatever key; what was not is, with the key of its caller.
pub fn only_what_was_unfinished_was_fetched(taken: &Taken) {
    let mut settled = BTreeMap::new();
    for (name, document) in taken.fixture.documents["jobs"].as_object().unwrap() {
        for (task, latest) in
            runs(document).values().flat_map(|run| tasks(run).into_values().map(move |t| (t, run)))
        {
            let live = ["running", "pending"].iter().any(|status| latest["run"]["status"] == *status);
            let url = task["url"].as_str().unwrap();
            // A rerun does again what an earlier run has settled.
            let unfinished = live && !is_settled(task);
            *settled.entry((name.clone(), url.to_owned())).or_insert(true) &= !unfinished;
        }
    }
    let settled: BTreeSet<String> =
        settled.into_iter().filter(|(_, settled)| *settled).map(|((_, url), _)| url).collect();
    let again: BTreeSet<&str> = ["bulk", "scheduled-fired"].into();
    for call in taken.outside.calls() {
        let host = call.url.split('/').nth(2).unwrap().trim_end_matches(".example");
        // These have a run to come that reads the tasks of an earlier one.
        assert!(again.contains(host) || !settled.contains(&call.url), "{} was fetched again", call.url);
        assert!(host != "bulk" || is_missing(&call.url), "a rerun of failed tasks fetched {}", call.url);
        let name = if host.starts_with("bob") { "bob" } else { "alice" };
        assert_eq!(call.key, taken.fixture.text(&format!("/keys/{name}")), "{}", call.url);
        let sealed = matches!(host, "drain" | "completed").then_some("sealed-header-value");
        assert_eq!(call.canary.as_deref(), sealed, "{}", call.url);
    }
}
