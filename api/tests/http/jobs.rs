use crate::world::{KEY, SECRET, World, config, golden};
use conveyor_domain::{AccountFault, Command, Format, Purpose, QueueName, Secret};
use conveyor_store::port::{Mark, Reader, Removal, RunKey};
use serde_json::json;

#[tokio::test]
async fn a_submit_makes_a_job_with_work_in_its_queue() {
    let world = World::new().await;
    let body = json!({"tasks": [{"url": "https://a.example"}, {"url": "https://b.example"}]});
    let answer = world.post("/v1/jobs", body).await;
    assert_eq!(answer.status, 201);
    golden("submit", &answer.json());
    let job = answer.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), format!("/v1/jobs/{job}"));
    let run = answer.json()["latest_run"]["run_id"].as_str().unwrap().parse().unwrap();
    let depth = world.backend.queue.depth(QueueName::Run(run), Reader::Role, world.now()).await.unwrap();
    assert_eq!(depth.visible, 2);
}

#[tokio::test]
async fn a_job_shows_what_was_submitted() {
    let world = World::new().await;
    let body = json!({
        "type": "regular", "status": "open", "name": "Näme", "external_id": "order-7", "max_inflight": 3,
        "metadata": {"team": "a"}, "zenrows_params": {"response_type": "markdown", "wait": 5},
        "tasks": [{"url": "https://a.example"}],
    });
    let RunKey { job, .. } = world.submitted(body).await;
    let answer = world.get(&format!("/v1/jobs/{job}")).await;
    assert_eq!(answer.status, 200);
    golden("job", &answer.json());
}

#[tokio::test]
async fn an_open_job_may_start_empty() {
    let world = World::new().await;
    let RunKey { job, run } = world.submitted(json!({"status": "open"})).await;
    let shown = world.get(&format!("/v1/jobs/{job}")).await.json();
    assert_eq!(
        (shown["status"].as_str(), shown["latest_run"]["status"].as_str()),
        (Some("open"), Some("pending"))
    );
    let closed = world.act(&format!("/v1/jobs/{job}/close")).await;
    assert_eq!(closed.status, 200);
    assert_eq!(closed.json()["status"], "closed");
    assert_eq!(closed.json()["latest_run"]["run_id"], run.to_string());
    assert_eq!(closed.json()["latest_run"]["status"], "completed");
    assert_eq!(world.act(&format!("/v1/jobs/{job}/close")).await.json(), closed.json(), "closing twice");
}

#[tokio::test]
async fn the_callers_key_is_sealed_into_the_job_only_if_it_is_to_be_forwarded() {
    for forward_keys in [true, false] {
        let mut config = config();
        config.forward_keys = forward_keys;
        let world = World::with(config).await;
        let RunKey { job, .. } = world.submit("closed", 1).await;
        let active = world.backend.store.changed_runs(None, world.now()).await.unwrap().active;
        let sealed = active[0].job.spec.credential.clone();
        let opened =
            sealed.map(|s| Secret::new(SECRET).open(Purpose::Credential, &job.to_string(), &s).unwrap());
        assert_eq!(opened.as_deref(), forward_keys.then_some(KEY.as_bytes()));
        let shown = world.get(&format!("/v1/jobs/{job}")).await;
        assert!(!String::from_utf8_lossy(&shown.body).contains("credential"));
    }
}

#[tokio::test]
async fn jobs_are_listed_newest_first_in_pages() {
    let world = World::new().await;
    let mut ids = Vec::new();
    for status in ["closed", "open", "closed", "open", "closed"] {
        world.pass_ms(1);
        ids.push(world.submit(status, 1).await.job.to_string());
    }
    ids.reverse();
    let names = |page: &serde_json::Value| -> Vec<String> {
        page["jobs"].as_array().unwrap().iter().map(|j| j["job_id"].as_str().unwrap().to_owned()).collect()
    };
    let first = world.get("/v1/jobs?limit=2").await.json();
    golden("jobs", &first);
    assert_eq!(names(&first), ids[..2]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&format!("/v1/jobs?limit=3&cursor={cursor}")).await.json();
    assert_eq!(names(&rest), ids[2..], "another page size goes on from the same place");
    assert!(rest.get("next_cursor").is_none(), "a full last page is the last page");

    let open = world.get("/v1/jobs?status=open&type=regular").await.json();
    assert_eq!(names(&open), [ids[1].clone(), ids[3].clone()]);
    assert_eq!(world.get("/v1/jobs?type=scheduled").await.json(), json!({"jobs": []}));
    let elsewhere = world.get(&format!("/v1/jobs?status=open&cursor={cursor}")).await;
    elsewhere.refused(400, "invalid_cursor");
}

#[tokio::test]
async fn stop_ends_the_run_and_repeats() {
    let world = World::new().await;
    for verb in ["stop", "cancel"] {
        let RunKey { job, run } = world.submit("open", 2).await;
        world.succeed(RunKey { job, run }, 0, Format::Html, b"x").await;
        let stopped = world.act(&format!("/v1/jobs/{job}/{verb}")).await;
        assert_eq!(stopped.status, 200);
        assert_eq!(stopped.json()["status"], "stopped");
        assert_eq!(
            stopped.json()["stats"],
            json!({"total": 2, "completed": 1, "successful": 1, "failed": 0})
        );
        assert_eq!(world.act(&format!("/v1/jobs/{job}/{verb}")).await.json(), stopped.json());
        let shown = world.get(&format!("/v1/jobs/{job}")).await.json();
        assert_eq!(shown["status"], "closed");
    }
    let RunKey { job, run } = world.submit("closed", 1).await;
    world.succeed(RunKey { job, run }, 0, Format::Html, b"").await;
    world.apply(job, Command::Drained).await;
    world.act(&format!("/v1/jobs/{job}/stop")).await.refused(409, "run_not_stoppable");
}

#[tokio::test]
async fn a_deleted_job_answers_until_it_is_gone() {
    let world = World::new().await;
    let RunKey { job, run } = world.submit("open", 1).await;
    let path = format!("/v1/jobs/{job}");
    for _ in 0..2 {
        let deleted = world.call("DELETE", &path, Some(KEY), None).await;
        assert_eq!(deleted.status, 202);
        assert_eq!(deleted.json()["status"], "deleted");
        assert_eq!(deleted.json()["latest_run"]["status"], "deleted");
    }
    assert_eq!(world.get(&path).await.json()["status"], "deleted");
    assert_eq!(world.get("/v1/jobs?status=deleted").await.json()["jobs"][0]["job_id"], job.to_string());
    world.act(&format!("{path}/close")).await.refused(404, "not_found");
    let tasks = json!({"tasks": [{"url": "https://a.example"}]});
    world.post(&format!("{path}/tasks"), tasks).await.refused(404, "not_found");

    // What the sweeper does, in its order.
    let store = &world.backend.store;
    while !world.backend.queue.remove(QueueName::Run(run), 100).await.unwrap() {}
    store.mark(RunKey { job, run }, Mark::QueueGone).await.unwrap();
    while store.remove_rows(Removal::Job(job), 100).await.unwrap() > 0 {}
    store.forget_job(job, world.now()).await.unwrap();
    world.get(&path).await.refused(404, "not_found");
    world.call("DELETE", &path, Some(KEY), None).await.refused(404, "not_found");
}

#[tokio::test]

async fn a_half_removed_job_breaks_no_list() {
    let world = World::new().await;
    let RunKey { job, run } = world.submit("closed", 1).await;
    world.pass_ms(1);
    let kept = world.submit("closed", 1).await.job;
    world.apply(job, Command::Delete).await;
    while !world.backend.queue.remove(QueueName::Run(run), 100).await.unwrap() {}
    world.backend.store.mark(RunKey { job, run }, Mark::QueueGone).await.unwrap();
    while world.backend.store.remove_rows(Removal::Job(job), 100).await.unwrap() > 0 {}
    let listed = world.get("/v1/jobs").await;
    assert_eq!(listed.status, 200);
    assert_eq!(listed.json()["jobs"][0]["job_id"], kept.to_string());
    let shown = world.get(&format!("/v1/jobs/{job}")).await.status.as_u16();
    assert!(matches!(shown, 200 | 404), "{shown}");
}

#[tokio::test]
async fn runs_are_listed_and_shown() {
    let world = World::new().await;
    let RunKey { job, run } = world.submit("closed", 3).await;
    world.succeed(RunKey { job, run }, 0, Format::Html, b"x").await;
    world.fail(RunKey { job, run }, 1).await;
    let shown = world.get(&format!("/v1/jobs/{job}/runs/{run}")).await;
    golden("run", &shown.json());
    let listed = world.get(&format!("/v1/jobs/{job}/runs?limit=1")).await.json();
    assert_eq!(listed, json!({"runs": [shown.json()]}));

    let command =
        Command::FailRun { run, reason: AccountFault::InsufficientCredits, detail: "No credit.".into() };
    world.apply(job, command).await;
    golden("run_failed", &world.get(&format!("/v1/jobs/{job}/runs/{run}")).await.json());
}
