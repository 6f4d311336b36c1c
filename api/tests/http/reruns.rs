//! Another run of a job (SPEC 6.19).

use crate::world::{Answer, KEY, World, golden};
use conveyor_domain::{Command, Format, TaskId};
use conveyor_store::port::RunKey;
use serde_json::{Value, json};

impl World {
    async fn rerun(&self, key: RunKey, query: &str) -> Answer {
        self.call("POST", &format!("/v1/jobs/{}/rerun{query}", key.job), Some(KEY), None).await
    }

    /// A job of four tasks: one works, two fail, one is left when it is stopped.
    async fn stopped(&self) -> RunKey {
        let key = self.submit("closed", 4).await;
        self.succeed(key, 0, Format::Html, b"first").await;
        self.fail(key, 1).await;
        self.fail(key, 2).await;
        self.apply(key.job, Command::Stop).await;
        key
    }

    async fn rows(&self, job: RunKey, run: &Value) -> Vec<Value> {
        let path = format!("/v1/jobs/{}/runs/{}/results", job.job, run.as_str().unwrap());
        self.get(&path).await.json()["results"].as_array().unwrap().clone()
    }
}

/// The answer but for the run that was replayed, which it has to name.
fn without_source(answer: &Answer, key: RunKey) -> Value {
    let mut body = answer.json();
    assert_eq!(body["rerun_of"].take(), json!(key.run));
    assert_eq!(body["latest_run"].as_object_mut().unwrap().remove("rerun_of"), Some(json!(key.run)));
    body
}

#[tokio::test]
async fn a_full_rerun_does_everything_again() {
    let world = World::new().await;
    let key = world.stopped().await;
    world.pass_ms(1_000);
    let answer = world.rerun(key, "").await;
    assert_eq!(answer.status, 201);
    golden("rerun_full", &without_source(&answer, key));
    let body = answer.json();
    let rows = world.rows(key, &body["latest_run"]["run_id"]).await;
    let earlier = world.rows(key, &json!(key.run)).await;
    let ids = |rows: &[Value]| rows.iter().map(|row| row["task_id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&rows), ids(&earlier));
    assert!(rows.iter().all(|row| row["status"] == "pending" && row.get("source_run_id").is_none()));
    world.rerun(key, "").await.refused(409, "run_not_terminal");
}

#[tokio::test]
async fn a_partial_rerun_keeps_what_it_does_not_do_again() {
    let world = World::new().await;
    let key = world.stopped().await;
    world.pass_ms(1_000);
    let answer = world.rerun(key, "?status=failed,pending").await;
    assert_eq!(answer.status, 201);
    golden("rerun_partial", &without_source(&answer, key));
    let run = answer.json()["latest_run"]["run_id"].clone();
    let rows = world.rows(key, &run).await;
    assert_eq!((&rows[0]["status"], &rows[0]["source_run_id"]), (&json!("successful"), &json!(key.run)));
    assert!(rows[1..].iter().all(|row| row["status"] == "pending"));
    let task = TaskId::of(key.run, 0);
    let content =
        world.get(&format!("/v1/jobs/{}/runs/{}/tasks/{task}/content", key.job, run.as_str().unwrap())).await;
    assert_eq!(content.text(), "first", "the body is where it was");
    let url = rows[0]["result_url"].as_str().unwrap().strip_prefix("http://api.test:8080").unwrap();
    assert_eq!(world.call("GET", url, None, None).await.text(), "first");
    let history = format!("/v1/jobs/{}/tasks/{task}/history", key.job);
    assert_eq!(world.get(&history).await.json()["events"].as_array().unwrap().len(), 1);
    let delete = format!("/v1/jobs/{}/runs/{}", key.job, key.run);
    world.call("DELETE", &delete, Some(KEY), None).await.refused(409, "run_has_descendants");
}

#[tokio::test]
async fn tasks_are_picked_by_what_went_wrong_and_where() {
    for (query, retried) in [
        ("?error_class=gateway_error,timeout,blocked,other,bad_target,rate_limited,auth_failed", 2),
        ("?http_status=404", 2),
        ("?http_status=503", 0),
        ("?domain=example", 4),
        ("?domain=example&status=failed", 2),
        ("?domain=other.example", 0),
        ("?status=successful", 1),
    ] {
        let world = World::new().await;
        let key = world.stopped().await;
        let answer = world.rerun(key, query).await;
        match retried {
            0 => drop(answer.refused(409, "no_matching_tasks")),
            n => {
                assert_eq!(answer.status, 201, "{query}: {}", answer.text());
                let body = answer.json();
                assert_eq!(
                    (&body["retried_tasks"], &body["inherited_tasks"]),
                    (&json!(n), &json!(4 - n)),
                    "{query}"
                );
            }
        }
    }
}

#[tokio::test]
async fn other_parameters_are_the_runs_own() {
    let world = World::new().await;
    let key = world.stopped().await;
    let path = format!("/v1/jobs/{}/rerun", key.job);
    world
        .post(&path, json!({"zenrows_params": {"no_such_param": "1"}}))
        .await
        .refused(400, "invalid_argument");
    world.post(&format!("{path}?strict=true"), json!({"params": {}})).await.refused(400, "invalid_argument");
    let answer = world.post(&path, json!({"zenrows_params": {"js_render": true}})).await;
    assert_eq!(answer.status, 201);
    let view = world.backend.store.job(None, key.job).await.unwrap().unwrap();
    assert_eq!(
        view.latest.as_ref().unwrap().run.doc.overrides.get("js_render").map(String::as_str),
        Some("true")
    );
    assert!(view.job.spec.params.is_empty(), "the job keeps its own");
    let shown = &answer.json()["latest_run"];
    assert_eq!(
        (&shown["rerun_of"], &shown["zenrows_params"]),
        (&json!(key.run), &json!({"js_render": "true"}))
    );
}

#[tokio::test]
async fn parameters_that_make_no_sense_for_a_task_are_refused_and_name_it() {
    let world = World::new().await;
    let tasks = json!([{"url": "https://a.example/"}, {"url": "https://b.example/", "method": "POST", "body": {"a": "b"}}]);
    let submitted = world.post("/v1/jobs", json!({"tasks": tasks})).await.json();
    let job = submitted["job_id"].as_str().unwrap().parse().unwrap();
    world.apply(job, Command::Stop).await;
    let path = format!("/v1/jobs/{job}/rerun");
    let overrides = json!({"zenrows_params": {"js_render": true}});
    let refused = world.post(&path, overrides.clone()).await;
    assert_eq!(refused.json()["invalid_tasks"][0]["index"], 1, "{}", refused.text());
    assert_eq!(refused.json()["invalid_tasks"][0]["reason"], "method_param_conflict");
    refused.refused(400, "invalid_argument");
    let one = world.post(&format!("{path}?domain=a.example"), overrides).await;
    assert_eq!(one.status, 201, "the other is not done again: {}", one.text());
}

#[tokio::test]
async fn what_cannot_be_run_again_says_why() {
    let world = World::new().await;
    let key = world.stopped().await;
    for bad in ["?status=expired", "?status=", "?error_class=x", "?http_status=9", "?domain=", "?limit=1"] {
        world.rerun(key, bad).await.refused(400, "invalid_argument");
    }
    let live = world.submit("closed", 1).await;
    world.rerun(live, "?status=failed").await.refused(409, "run_not_terminal");
    world.pass_days(10);
    world.rerun(key, "?status=failed").await.refused(409, "partial_rerun_window_expired");
    assert_eq!(world.rerun(key, "").await.status, 201, "a full one still works");
    let gone = world.stopped().await;
    world.pass_days(31);
    world.rerun(gone, "").await.refused(410, "result_expired");
    let deleted_job = world.stopped().await;
    assert_eq!(
        world.call("DELETE", &format!("/v1/jobs/{}", deleted_job.job), Some(KEY), None).await.status,
        202
    );
    for what in ["rerun", "stop", "cancel", "pause", "resume"] {
        world.act(&format!("/v1/jobs/{}/{what}", deleted_job.job)).await.refused(404, "not_found");
    }
    let deleted = world.stopped().await;
    let path = format!("/v1/jobs/{}/runs/{}", deleted.job, deleted.run);
    world.call("DELETE", &path, Some(KEY), None).await;
    world.rerun(deleted, "").await.refused(409, "no_prior_run");
}

/// The latest run is deleted: the one before is the latest for readers, and what a rerun replays.
#[tokio::test]
async fn the_run_before_a_deleted_one_is_the_latest_again() {
    let world = World::new().await;
    let key = world.stopped().await;
    let second = world.rerun(key, "?status=failed,pending").await.json()["latest_run"]["run_id"].clone();
    world.apply(key.job, Command::Stop).await;
    let path = format!("/v1/jobs/{}/runs/{}", key.job, second.as_str().unwrap());
    assert_eq!(world.call("DELETE", &path, Some(KEY), None).await.status, 202);
    for path in ["", "?limit=1"] {
        let job = match path {
            "" => world.get(&format!("/v1/jobs/{}", key.job)).await.json(),
            page => world.get(&format!("/v1/jobs{page}")).await.json()["jobs"][0].clone(),
        };
        assert_eq!(job["latest_run"]["run_id"], json!(key.run));
        assert_eq!(job["latest_run"]["stats"]["successful"], 1);
    }
    let results = world.get(&format!("/v1/jobs/{}/results", key.job)).await.json();
    assert_eq!(results["results"][0]["run_id"], json!(key.run));
    let deleted = RunKey { run: second.as_str().unwrap().parse().unwrap(), ..key };
    for removed in [false, true] {
        if removed {
            world.remove_run(deleted).await;
        }
        let job = format!("/v1/jobs/{}", key.job);
        let changed = json!({"max_inflight": 5 + u32::from(removed)});
        let closed = world.act(&format!("{job}/close")).await;
        for answer in [closed, world.call("PATCH", &job, Some(KEY), Some(changed)).await] {
            assert_eq!(
                (answer.status.as_u16(), &answer.json()["latest_run"]["run_id"]),
                (200, &json!(key.run))
            );
        }
    }
    let third = world.rerun(key, "?status=failed").await;
    assert_eq!(third.status, 201, "{}", third.text());
    let third = third.json();
    assert_eq!((&third["rerun_of"], &third["retried_tasks"]), (&json!(key.run), &json!(2)));
    assert_eq!(third["latest_run"]["run_sequence"], 3, "no number is given out twice");
}

/// The same where a schedule is changed.
#[tokio::test]
async fn a_change_of_a_schedule_shows_the_latest_run_that_was_not_deleted() {
    let world = World::new().await;
    let schedule = json!({"rate": {"every": 1, "unit": "hour"}});
    let tasks = json!([{"url": "https://a.example/"}]);
    let body = json!({"type": "scheduled", "schedule": schedule, "tasks": tasks});
    let job = world.post("/v1/jobs", body).await.json()["job_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/jobs/{job}");
    let again = async || {
        let answer = world.act(&format!("{path}/rerun")).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let key = answer.run_key();
        world.apply(key.job, Command::Stop).await;
        world.ingest(key, &[crate::ingest::cut(0)]).await;
        key
    };
    let (first, second) = (again().await, again().await);
    assert_eq!(world.delete_run(second).await.status, 202);
    for removed in [false, true] {
        if removed {
            world.remove_run(second).await;
        }
        let paused = world.post(&format!("{path}/schedule/state"), json!({"schedule_state": "paused"})).await;
        let rule = Some(schedule.clone());
        for answer in [paused, world.call("PUT", &format!("{path}/schedule"), Some(KEY), rule).await] {
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(answer.json()["latest_run"]["run_id"], json!(first.run));
        }
    }
}

#[tokio::test]
async fn a_run_goes_if_a_later_one_inherited_nothing_of_it() {
    let world = World::new().await;
    let key = world.stopped().await;
    let all = world.rerun(key, "?status=failed,pending,successful").await;
    assert_eq!((all.status.as_u16(), &all.json()["inherited_tasks"]), (201, &json!(0)));
    let delete = format!("/v1/jobs/{}/runs/{}", key.job, key.run);
    assert_eq!(world.call("DELETE", &delete, Some(KEY), None).await.status, 202);
}
