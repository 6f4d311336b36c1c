//! Jobs with a schedule (SPEC 6.20): what callers see of them before and between their runs.

use crate::world::{KEY, OTHER_KEY, World, golden};
use conveyor_domain::{JobId, QueueName};
use conveyor_store::port::{Reader, RunKey};
use serde_json::{Value, json};

const HOUR_MS: i64 = 3_600_000;

fn body(schedule: &Value) -> Value {
    let tasks = json!([{"url": "https://a.example/0"}, {"url": "https://a.example/1"}]);
    json!({"type": "scheduled", "schedule": schedule, "tasks": tasks})
}

fn hourly() -> Value {
    json!({"rate": {"every": 1, "unit": "hour"}})
}

async fn scheduled(world: &World, schedule: &Value) -> JobId {
    let answer = world.post("/v1/jobs", body(schedule)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["job_id"].as_str().unwrap().parse().unwrap()
}

/// Where its tasks are kept.
async fn template(world: &World, job: JobId) -> RunKey {
    RunKey { job, run: world.backend.store.job(None, job).await.unwrap().unwrap().job.latest_run }
}

#[tokio::test]
async fn a_scheduled_job_has_no_run_until_it_fires() {
    let world = World::new().await;
    let answer = world.post("/v1/jobs", body(&hourly())).await;
    assert_eq!(answer.status, 201);
    golden("submit_scheduled", &answer.json());
    let job: JobId = answer.json()["job_id"].as_str().unwrap().parse().unwrap();
    let shown = world.get(&format!("/v1/jobs/{job}")).await;
    golden("job_scheduled", &shown.json());
    assert_eq!(world.get(&format!("/v1/jobs/{job}/runs")).await.json(), json!({"runs": []}));
    world.get(&format!("/v1/jobs/{job}/results")).await.refused(404, "not_found");

    let hidden = template(&world, job).await;
    for path in ["", "/results", "/ingest", "/audit"] {
        world.get(&format!("/v1/jobs/{job}/runs/{}{path}", hidden.run)).await.refused(404, "not_found");
    }
    let delete = format!("/v1/jobs/{job}/runs/{}", hidden.run);
    world.call("DELETE", &delete, Some(crate::world::KEY), None).await.refused(404, "not_found");
    let depth =
        world.backend.queue.depth(QueueName::Run(hidden.run), Reader::Role, world.now()).await.unwrap();
    assert_eq!(depth.visible, 0, "nobody is to work on it");
    let events = world.get(&format!("/v1/jobs/{job}/events")).await.json();
    assert_eq!(events["events"][0]["type"], "job.submitted");
    assert!(!events.to_string().contains(&hidden.run.to_string()), "{events}");
}

#[tokio::test]
async fn what_a_scheduled_job_does_not_have_cannot_be_steered() {
    let world = World::new().await;
    let job = scheduled(&world, &hourly()).await;
    let stop = world.act(&format!("/v1/jobs/{job}/stop")).await.refused(409, "run_not_stoppable");
    let pause = world.act(&format!("/v1/jobs/{job}/pause")).await.refused(409, "run_not_pausable");
    for detail in [stop, pause] {
        assert!(
            detail.starts_with("The schedule has not fired yet") && !detail.contains("ended"),
            "{detail}"
        );
    }
    world.act(&format!("/v1/jobs/{job}/close")).await.refused(409, "job_not_open");
    let tasks = json!({"tasks": [{"url": "https://b.example"}]});
    world.post(&format!("/v1/jobs/{job}/tasks"), tasks).await.refused(409, "job_not_open");
    let regular = world.submit("closed", 1).await.job;
    world.put_schedule(regular, hourly()).await.refused(409, "job_not_scheduled");
    let deleted = world.call("DELETE", &format!("/v1/jobs/{job}"), Some(KEY), None).await.json();
    assert_eq!(deleted["status"], "deleted");
    assert!(
        deleted.get("schedule_state").is_none() && deleted.get("next_scheduled_run").is_none(),
        "{deleted}"
    );
    assert!(deleted["schedule"].is_object(), "what it was is still told");
    let state = json!({"schedule_state": "paused"});
    world.turn(regular, state).await.refused(409, "job_not_scheduled");
}

#[tokio::test]
async fn a_schedule_is_replaced_paused_and_resumed() {
    let world = World::new().await;
    let job = scheduled(&world, &hourly()).await;
    let at = |answer: &Value| answer["next_scheduled_run"].as_str().unwrap().to_owned();
    world.pass_ms(HOUR_MS / 2);
    let berlin = json!({
        "calendar": {"times_of_day": ["09:00"], "cadence": {"weekly": {"days": ["mon", "wed"]}}},
        "timezone": "Europe/Berlin",
    });
    let replaced = world.put_schedule(job, berlin.clone()).await;
    assert_eq!(replaced.status, 200, "{}", replaced.text());
    assert_eq!(replaced.json()["schedule"], berlin);
    // The clock of the tests stands on Thursday, 1 January 2026.
    assert_eq!(at(&replaced.json()), "2026-01-05T08:00:00.000Z");

    let paused = world.turn(job, json!({"schedule_state": "paused"})).await.json();
    assert_eq!(paused["schedule_state"], "paused");
    assert_eq!(at(&paused), "2026-01-05T08:00:00.000Z", "what would be next if it went on");
    world.pass_days(5);
    let later = world.get(&format!("/v1/jobs/{job}")).await.json();
    assert_eq!(at(&later), "2026-01-07T08:00:00.000Z");
    let resumed = world.turn(job, json!({"schedule_state": "active"})).await.json();
    assert_eq!(
        (at(&resumed).as_str(), &resumed["schedule_state"]),
        ("2026-01-07T08:00:00.000Z", &json!("active"))
    );
    assert_eq!(world.turn(job, json!({"schedule_state": "active"})).await.json(), resumed, "once more");
    let events = world.get(&format!("/v1/jobs/{job}/events")).await.json();
    golden("schedule_events", &events);
}

#[tokio::test]
async fn a_schedule_that_can_never_fire_is_refused() {
    let world = World::new().await;
    let past = json!({"at": "2025-12-31T23:00:00", "timezone": "UTC"});
    let detail = world.post("/v1/jobs", body(&past)).await.refused(400, "invalid_argument");
    assert!(detail.contains("has passed"), "{detail}");
    let job = scheduled(&world, &json!({"at": "2026-01-01T12:00:00", "timezone": "UTC"})).await;
    world.put_schedule(job, past).await.refused(400, "invalid_argument");
    world.put_schedule(job, json!({})).await.refused(400, "invalid_argument");
    world.turn(job, json!({})).await.refused(400, "invalid_argument");
    world.turn(job, json!({"schedule_state": "stopped"})).await.refused(400, "invalid_argument");
}

#[tokio::test]
async fn jobs_are_listed_by_type() {
    let world = World::new().await;
    let job = scheduled(&world, &hourly()).await;
    world.pass_ms(1);
    let regular = world.submit("closed", 1).await.job;
    let listed = async |kind: &str| {
        let jobs = world.get(&format!("/v1/jobs{kind}")).await.json();
        let ids =
            jobs["jobs"].as_array().unwrap().iter().map(|job| job["job_id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed("?type=scheduled").await, [job.to_string()]);
    assert_eq!(listed("?type=regular").await, [regular.to_string()]);
    assert_eq!(listed("").await, [regular.to_string(), job.to_string()]);
}

#[tokio::test]
async fn a_list_of_a_scheduled_job_is_pinned_and_kept_for_its_runs() {
    let world = World::new().await;
    let id = world.staged(json!({"type": "lines"}), "https://a.example/0\nhttps://a.example/1\n").await;
    let submit = json!({"type": "scheduled", "schedule": hourly(), "file_input_id": id});
    let answer = world.post("/v1/jobs", submit).await;
    assert_eq!((answer.status.as_u16(), answer.json()["accepted_tasks"].as_u64()), (201, Some(2)));
    assert!(answer.json().get("latest_run").is_none());
    let job: JobId = answer.json()["job_id"].as_str().unwrap().parse().unwrap();
    let view = world.backend.store.job(None, job).await.unwrap().unwrap();
    let source = view.job.spec.list_of_runs().unwrap();
    assert_eq!(source.upload.to_string(), id);
    let slot = world.get(&format!("/v1/job_inputs/{id}")).await.json();
    assert_eq!(slot["status"], "claimed", "{slot}");
    let bad = world.staged(json!({"type": "lines"}), "=1+1\n").await;
    let submit = json!({"type": "scheduled", "schedule": hourly(), "file_input_id": bad});
    world.post("/v1/jobs", submit).await.refused(400, "no_valid_rows");
}

#[tokio::test]
async fn a_schedule_of_another_caller_is_not_there() {
    let world = World::new().await;
    let job = scheduled(&world, &hourly()).await;
    for (method, path, body) in [
        ("PUT", "schedule", json!({"nonsense": 1})),
        ("POST", "schedule/state", json!({"schedule_state": "paused"})),
    ] {
        let path = format!("/v1/jobs/{job}/{path}");
        world.call(method, &path, Some(OTHER_KEY), Some(body)).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn a_rerun_of_a_job_that_never_fired_is_a_fire_by_hand() {
    let world = World::new().await;
    let job = scheduled(&world, &hourly()).await;
    let partial = world.act(&format!("/v1/jobs/{job}/rerun?status=failed")).await;
    partial.refused(409, "no_prior_run");
    let fired = world.act(&format!("/v1/jobs/{job}/rerun")).await;
    assert_eq!(fired.status, 202, "{}", fired.text());
    let (answer, run) = (fired.json(), fired.json()["latest_run"].clone());
    assert!(answer.get("rerun_of").is_none_or(Value::is_null), "{answer}");
    assert_eq!((&run["run_sequence"], &run["trigger"]), (&json!(1), &json!("manual")));
    assert_eq!((&answer["retried_tasks"], &answer["inherited_tasks"]), (&json!(2), &json!(0)));
    world.act(&format!("/v1/jobs/{job}/rerun")).await.refused(409, "run_not_terminal");
    let shown = world.get(&format!("/v1/jobs/{job}")).await.json();
    assert_eq!(shown["latest_run"]["run_id"], run["run_id"]);
    assert_eq!(shown["next_scheduled_run"], "2026-01-01T01:00:00.000Z", "its schedule is as it was");
}

#[tokio::test]
async fn a_run_that_a_schedule_made_says_so() {
    let world = World::new().await;
    let job = scheduled(&world, &hourly()).await;
    world.pass_ms(HOUR_MS);
    let reconciled = world.operate("POST", "reconcile", Some(json!({"job_id": job.to_string()}))).await;
    assert_eq!(reconciled.status, 200, "{}", reconciled.text());
    let runs = world.get(&format!("/v1/jobs/{job}/runs")).await.json();
    let runs = runs["runs"].as_array().unwrap().clone();
    assert_eq!(runs.len(), 1);
    assert_eq!((&runs[0]["trigger"], &runs[0]["run_sequence"]), (&json!("scheduled"), &json!(1)));
    let shown = world.get(&format!("/v1/jobs/{job}")).await.json();
    assert_eq!(shown["next_scheduled_run"], "2026-01-01T02:00:00.000Z");
    let events = world.get(&format!("/v1/jobs/{job}/events")).await.json();
    let fired = events["events"].as_array().unwrap().iter().find(|event| event["type"] == "schedule.fired");
    assert_eq!(fired.unwrap()["data"]["scheduled_for"], "2026-01-01T01:00:00.000Z");
    // What it is made of is nobody's to see, wherever one looks.
    let hidden = world.backend.store.job(None, job).await.unwrap().unwrap().job.spec.template_id().unwrap();
    let run = runs[0]["run_id"].as_str().unwrap();
    for path in [format!("/v1/jobs/{job}/events"), format!("/v1/jobs/{job}/runs/{run}/ingest")] {
        let answer = world.get(&path).await;
        assert_eq!(answer.status, 200);
        assert!(!answer.text().contains(&hidden.to_string()), "{path}: {}", answer.text());
    }
}

impl World {
    pub async fn put_schedule(&self, job: JobId, schedule: Value) -> crate::world::Answer {
        self.call("PUT", &format!("/v1/jobs/{job}/schedule"), Some(crate::world::KEY), Some(schedule)).await
    }

    async fn turn(&self, job: JobId, state: Value) -> crate::world::Answer {
        self.post(&format!("/v1/jobs/{job}/schedule/state"), state).await
    }
}
