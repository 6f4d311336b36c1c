//! Limits of a job: submitted, changed while it runs, and looked at; and runs that are paused.

use crate::world::{KEY, OTHER_KEY, World, config, golden};
use async_trait::async_trait;
use conveyor_domain::dispatch::grant::{Ask, Change, Limits, Scope};
use conveyor_domain::{
    CallerId, Command, DomainWait, FailureClass, Format, Grant, JobId, Outcome, QueueName, Rate, Spend,
    TaskId, Timestamp, WorkerId, limits,
};
use conveyor_store::port::{Around, Claim, Over, OverCoordinator, RunKey};
use conveyor_store::{Backend, Error};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use std::sync::Arc;

impl World {
    async fn patch(&self, job: JobId, body: Value) -> crate::world::Answer {
        self.call("PATCH", &format!("/v1/jobs/{job}"), Some(KEY), Some(body)).await
    }

    async fn limits(&self, job: JobId) -> Value {
        let answer = self.get(&format!("/v1/jobs/{job}/limits")).await;
        assert_eq!(answer.status, 200, "{:?}", answer.body);
        answer.json()
    }

    async fn reason(&self, job: JobId) -> Value {
        self.limits(job).await["waiting"]["reason"].clone()
    }

    /// What a worker does before it receives.
    async fn ask(&self, scope: &Scope, worker: WorkerId, want: u32, starts: u32, limits: Limits) -> Grant {
        let ask = Ask { worker, in_use: 0, want, starts, startable: 0, limits };
        self.backend.coordinator.ask(scope, ask, self.now()).await.unwrap()
    }

    /// Asks for permits of a job by what the job itself says.
    async fn ask_for(&self, job: JobId, worker: WorkerId, want: u32, starts: u32) -> Grant {
        let active = self.backend.store.changed_runs(None, self.now()).await.unwrap().active;
        let limits = active.iter().find(|active| active.job.id == job).unwrap().job.spec.limits();
        self.ask(&Scope::Job(job), worker, want, starts, limits).await
    }

    fn worker(&self) -> WorkerId {
        WorkerId::new(self.now(), &self.entropy)
    }

    async fn caller(&self) -> CallerId {
        self.backend.store.changed_runs(None, self.now()).await.unwrap().active[0].job.caller
    }
}

fn tasks(count: usize) -> Vec<Value> {
    (0..count).map(|n| json!({"url": format!("https://site.example/{n}")})).collect()
}

#[tokio::test]
async fn a_run_that_is_paused_by_its_breaker_says_why_until_it_is_resumed() {
    let world = World::new().await;
    let body = json!({"tasks": tasks(30), "max_failure_ratio": 0.25});
    let key = world.submitted(body).await;
    let RunKey { job, run } = key;
    let of_job = format!("/v1/jobs/{job}");
    assert_eq!(world.get(&of_job).await.json()["max_failure_ratio"], 0.25);
    for (value, fits) in [(json!(0), false), (json!(1.5), false), (json!("0.5"), false), (json!(1), true)] {
        let answer = world.patch(job, json!({"max_failure_ratio": value})).await;
        assert_eq!(answer.status.as_u16(), if fits { 200 } else { 400 }, "{value}");
    }
    let lifted = world.patch(job, json!({"max_failure_ratio": null})).await.json();
    assert_eq!(lifted.get("max_failure_ratio"), None);
    world.patch(job, json!({"max_failure_ratio": 0.5})).await;
    for index in 0..20 {
        world.fail(key, index).await;
    }
    world.apply(job, Command::Trip { run }).await;
    let reason = json!({"code": "failure_ratio", "detail": "20 of 20 tasks failed, more than 0.5 of them."});
    let shown = world.get(&of_job).await.json()["latest_run"].clone();
    assert_eq!((&shown["pause_state"], &shown["pause_reason"]), (&json!("paused"), &reason));
    let events = world.get(&format!("{of_job}/events")).await.json();
    let paused = events["events"].as_array().unwrap().iter().find(|e| e["type"] == "run.paused").unwrap();
    assert_eq!(paused["data"], json!({"pause_reason": reason}));
    let resumed = world.act(&format!("{of_job}/resume")).await.json();
    assert_eq!((resumed.get("pause_state"), resumed.get("pause_reason")), (None, None));
}

#[tokio::test]
async fn what_was_spent_is_shown_of_a_run_and_of_each_attempt() {
    let world = World::new().await;
    let key = world.submit("closed", 2).await;
    let (job, run) = (key.job, key.run);
    assert_eq!(world.get(&format!("/v1/jobs/{job}")).await.json()["latest_run"]["stats"].get("spend"), None);
    let problem = crate::world::problem();
    let retry = Outcome::Retry { problem: problem.clone(), not_before: world.now() };
    world.settle_at(key, 0, retry, Spend { credits: 1, cost_nanos: 100_000_000 }).await;
    let failed = Outcome::Failed { class: FailureClass::BadTarget, problem };
    world.settle_at(key, 0, failed, Spend { credits: 0, cost_nanos: 200_000_000 }).await;
    let stats = world.get(&format!("/v1/jobs/{job}/runs/{run}")).await.json()["stats"].clone();
    assert_eq!(stats["spend"], json!({"credits": 1, "cost": 0.3}));
    let task = TaskId::of(run, 0);
    let history = world.get(&format!("/v1/jobs/{job}/tasks/{task}/history")).await.json();
    assert_eq!(history["events"][0]["spend"], json!({"credits": 1, "cost": 0.1}));
    assert_eq!(history["events"][1]["spend"], json!({"credits": 0, "cost": 0.2}));
}

#[tokio::test]
async fn a_job_shows_the_limits_that_it_was_submitted_with() {
    let world = World::new().await;
    let body = json!({
        "tasks": tasks(1), "max_inflight": 3, "rate_limit": {"per_second": 2.5},
        "retry": {"attempts_max": 2, "base_ms": 50},
        "domain_limits": {"Example.com": {"per_second": 1, "burst": 2}, "*": {"max_inflight": 4}},
    });
    let RunKey { job, .. } = world.submitted(body).await;
    golden("job_limits", &world.get(&format!("/v1/jobs/{job}")).await.json());
    for (field, value, named) in [
        ("rate_limit", json!({"per_second": 0}), "`rate_limit.per_second`"),
        ("retry", json!({"attempts": 2}), "`retry.attempts`"),
        ("domain_limits", json!({"example.com": {"burst": 2}}), "`domain_limits.example.com.burst`"),
    ] {
        let mut body = json!({ "tasks": tasks(1) });
        body[field] = value;
        let detail = world.post("/v1/jobs?strict=true", body).await.refused(400, "invalid_argument");
        assert!(detail.contains(named), "{detail}");
    }
}

#[tokio::test]
async fn a_job_that_is_too_large_to_be_stored_is_refused_however_it_grows() {
    let world = World::new().await;
    // Names that are nearly as long as they may be.
    let name = |n: usize| format!("{n:0>3}.{}", ["x".repeat(61), "y".repeat(61)].join(".").repeat(2));
    let domains =
        |count: usize| -> Value { (0..count).map(|n| (name(n), json!({"max_inflight": 1}))).collect() };
    let too_large = |answer: crate::world::Answer| {
        let detail = answer.refused(400, "invalid_argument");
        assert!(detail.contains("`job_document_max_bytes`"), "{detail}");
    };
    let body = |count: usize| {
        json!({"tasks": tasks(1), "type": "scheduled", "schedule": {"rate": {"every": 1, "unit": "hour"}},
               "domain_limits": domains(count)})
    };
    too_large(world.post("/v1/jobs", body(limits::DOMAIN_LIMITS_MAX)).await);
    too_large(world.post("/v1/jobs?dry_run=true", body(limits::DOMAIN_LIMITS_MAX)).await);
    // The most names that fit: what is left is less than one of them takes.
    let one = serde_json::to_string(&domains(1)).unwrap().len() - 1;
    let job = async |count: usize| {
        let answer = world.post("/v1/jobs", body(count)).await;
        (answer.status == 201).then(|| answer.json()["job_id"].as_str().unwrap().parse::<JobId>().unwrap())
    };
    let mut count = limits::JOB_DOCUMENT_MAX_BYTES / one;
    let job = loop {
        match job(count).await {
            Some(job) => break job,
            None => count -= 1,
        }
    };
    too_large(world.patch(job, json!({"domain_limits": domains(count + 5)})).await);
    let hook = format!("https://127.0.0.1:9/{}", "x".repeat(limits::URL_MAX_BYTES - 20));
    too_large(world.put_webhook(job, json!({"url": hook, "signature": false})).await);
    let days: Vec<u32> = (1..=31).collect();
    let times: Vec<String> = (0..24).map(|hour| format!("{hour:02}:00")).collect();
    let calendar = json!({"times_of_day": times, "cadence": {"monthly": {"days": days}}});
    too_large(world.put_schedule(job, json!({"calendar": calendar, "timezone": "Europe/Berlin"})).await);
    assert_eq!(world.patch(job, json!({"domain_limits": domains(count - 20)})).await.status, 200);
    assert_eq!(world.put_webhook(job, json!({"url": hook, "signature": false})).await.status, 200);
}

#[tokio::test]
async fn a_change_keeps_what_it_does_not_name() {
    let world = World::new().await;
    let RunKey { job, .. } = world.submit("closed", 1).await;
    world.pass_ms(1);
    let changed = world.patch(job, json!({"max_inflight": 7})).await;
    assert_eq!(changed.status, 200);
    assert_eq!(changed.json()["updated_at"], "2026-01-01T00:00:00.001Z");
    let rate = json!({"per_second": 5.0, "burst": 10});
    world.patch(job, json!({"rate_limit": rate, "retry": {"attempts_max": 9}})).await;
    let domains = json!({"a.example": {"max_inflight": 1}});
    world.patch(job, json!({ "domain_limits": domains })).await;
    let shown = world.get(&format!("/v1/jobs/{job}")).await.json();
    assert_eq!(shown["max_inflight"], 7);
    assert_eq!(shown["rate_limit"], rate);
    assert_eq!(shown["retry"], json!({"attempts_max": 9}));
    assert_eq!(shown["domain_limits"], domains);

    let nothing = json!({"rate_limit": null, "retry": null, "domain_limits": null});
    let cleared = world.patch(job, nothing).await.json();
    for field in ["rate_limit", "retry", "domain_limits"] {
        assert!(cleared.get(field).is_none(), "{cleared}");
    }
    assert_eq!(cleared["max_inflight"], 7);

    let events = world.get(&format!("/v1/jobs/{job}/events")).await.json();
    let of_limits: Vec<&Value> =
        events["events"].as_array().unwrap().iter().filter(|e| e["type"] == "limits.changed").collect();
    assert_eq!(of_limits.len(), 4);
    assert_eq!(of_limits[0]["data"], json!({"max_inflight": 7}));
    assert_eq!(of_limits[1]["data"], json!({"max_inflight": 7, "rate_limit": rate}));
}

#[tokio::test]
async fn a_change_that_is_none_is_refused() {
    let world = World::new().await;
    let RunKey { job, .. } = world.submit("closed", 1).await;
    for (body, named) in [
        (json!({}), "`max_inflight`"),
        (json!({"max_inflight": null}), "`max_inflight`"),
        (json!({"max_inflight": 0}), "`max_inflight`"),
        (json!({"name": "other"}), "`max_inflight`"),
        (json!({"rate_limit": {"per_second": 1, "burst": 0}}), "`rate_limit.burst`"),
    ] {
        let detail = world.patch(job, body).await.refused(400, "invalid_argument");
        assert!(detail.contains(named), "{detail}");
    }
    world.patch(job, json!([])).await.refused(400, "invalid_argument");
    let path = format!("/v1/jobs/{job}");
    world.call("PATCH", &path, Some(KEY), None).await.refused(400, "malformed_json");
    assert_eq!(world.get(&path).await.json()["max_inflight"], limits::MAX_INFLIGHT_DEFAULT);

    world.call("DELETE", &path, Some(KEY), None).await;
    world.patch(job, json!({"max_inflight": 7})).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_change_binds_a_worker_that_has_not_heard_of_it() {
    let world = World::new().await;
    let RunKey { job, .. } = world.submitted(json!({"tasks": tasks(9), "max_inflight": 5})).await;
    let (scope, worker) = (Scope::Job(job), world.worker());
    let before =
        world.backend.store.changed_runs(None, world.now()).await.unwrap().active[0].job.spec.limits();
    assert_eq!(world.ask(&scope, worker, 9, 0, before).await.permits, 5);
    world.patch(job, json!({"max_inflight": 2, "rate_limit": {"per_second": 1, "burst": 1}})).await;
    let grant = world.ask(&scope, worker, 9, 9, before).await;
    assert_eq!((grant.permits, grant.starts.len()), (2, 1));
    assert_eq!(world.limits(job).await["max_inflight"], 2);
}

/// A coordinator that cannot be told anything.
struct Deaf(Backend);

impl Around for Deaf {
    fn behind(&self) -> &Backend {
        &self.0
    }
}

#[async_trait]
impl OverCoordinator for Deaf {
    async fn change(&self, _: &Scope, _: Change, _: Timestamp) -> Result<(), Error> {
        Err(Error::Unavailable("it does not listen".into()))
    }
}

#[tokio::test]
async fn a_change_holds_though_the_coordinator_does_not_answer() {
    let deaf = |backend: Backend| Backend {
        coordinator: Arc::new(Over(Arc::new(Deaf(backend.clone())))),
        ..backend
    };
    let world = World::over(deaf, Timestamp(1_767_225_600_000), config(), Arc::new(String::new)).await;
    let RunKey { job, .. } = world.submit("closed", 1).await;
    let changed = world.patch(job, json!({"max_inflight": 7, "rate_limit": {"per_second": 3}})).await;
    assert_eq!((changed.status.as_u16(), &changed.json()["max_inflight"]), (200, &json!(7)));
    let shown = world.limits(job).await;
    assert_eq!(shown["rate_limit"]["per_second"], 3.0, "what the job says is shown: {shown}");
    let grant = world.ask_for(job, world.worker(), 9, 0).await;
    assert_eq!(grant.permits, 7, "a worker that has seen the job brings its limits along");
}

#[tokio::test]
async fn a_run_is_paused_and_resumed() {
    let world = World::new().await;
    let key @ RunKey { job, run } = world.submit("closed", 2).await;
    for _ in 0..2 {
        let paused = world.act(&format!("/v1/jobs/{job}/pause")).await;
        assert_eq!(paused.status, 200);
        golden("run_paused", &paused.json());
    }
    assert_eq!(world.get(&format!("/v1/jobs/{job}")).await.json()["latest_run"]["pause_state"], "paused");
    assert!(matches!(world.try_claim(key, 0).await, Claim::Paused));
    for _ in 0..2 {
        let resumed = world.act(&format!("/v1/jobs/{job}/resume")).await;
        assert_eq!((resumed.status.as_u16(), &resumed.json()["run_id"]), (200, &json!(run.to_string())));
        assert!(resumed.json().get("pause_state").is_none(), "left out unless it is paused");
    }
    let events = world.get(&format!("/v1/jobs/{job}/events")).await.json();
    let kinds: Vec<&str> =
        events["events"].as_array().unwrap().iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["job.submitted", "run.paused", "run.unpaused"], "once each");

    world.act(&format!("/v1/jobs/{job}/pause")).await;
    world.act(&format!("/v1/jobs/{job}/stop")).await;
    for verb in ["pause", "resume"] {
        world.act(&format!("/v1/jobs/{job}/{verb}")).await.refused(409, "run_not_pausable");
    }
    let shown = world.get(&format!("/v1/jobs/{job}/runs/{run}")).await.json();
    assert!(shown.get("pause_state").is_none(), "a run that has ended waits for nobody: {shown}");
}

#[tokio::test]
async fn limits_show_who_holds_what_and_how_much_is_left() {
    let world = World::new().await;
    let body = json!({
        "tasks": tasks(9), "name": "a list", "max_inflight": 5, "rate_limit": {"per_second": 10, "burst": 4},
        "retry": {"cap_ms": 9_000}, "domain_limits": {"site.example": {"max_inflight": 2}},
    });
    let RunKey { job, run } = world.submitted(body).await;
    let fresh = world.limits(job).await;
    assert_eq!(fresh["rate_limit"]["tokens"], 4, "a full bucket has the whole burst");
    assert_eq!(fresh["holders"], json!([]));

    let queue = QueueName::Run(run);
    world.backend.queue.receive(queue, 3, limits::VISIBILITY, world.now()).await.unwrap();
    world.ask_for(job, world.worker(), 3, 1).await;
    world.pass_ms(10);
    world.ask_for(job, world.worker(), 1, 0).await;
    let site = Scope::Domain(world.caller().await, "site.example".to_owned());
    let rate = Some(Rate::new(1.0, None).unwrap());
    let of_site = Limits { revision: 0, max_inflight: Some(2), rate };
    world.ask(&site, world.worker(), 2, 1, of_site).await;
    let until = Timestamp(world.now().0 + 700);
    world.backend.coordinator.change(&site, Change::HoldUntil(until), world.now()).await.unwrap();
    golden("limits", &world.limits(job).await);

    world.pass_ms(limits::GRANT_TTL.as_millis() as i64);
    let lapsed = world.limits(job).await;
    assert_eq!((&lapsed["in_flight"], &lapsed["holders"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn a_long_queue_is_counted_so_far_and_says_so() {
    let world = World::new().await;
    let RunKey { job, run } = world.submitted(json!({"tasks": tasks(1)})).await;
    assert_eq!(world.limits(job).await["queue"], json!({"visible": 1, "hidden": 0}));
    let messages = (0..limits::SHOWN_DEPTH_MAX).map(|n| format!("1:{n}")).collect();
    world.backend.queue.send(QueueName::Run(run), messages, world.now()).await.unwrap();
    let shown = world.limits(job).await;
    assert_eq!(shown["queue"], json!({"visible": limits::SHOWN_DEPTH_MAX, "hidden": 0, "at_least": true}));
    let detail = shown["waiting"]["detail"].as_str().unwrap();
    assert!(detail.starts_with("at least 10000 tasks are queued"), "{detail}");
    let receive = world.backend.queue.receive(QueueName::Run(run), 2, limits::VISIBILITY, world.now());
    assert_eq!(receive.await.unwrap().len(), 2);
    let shown = world.limits(job).await;
    assert_eq!(shown["queue"], json!({"visible": limits::SHOWN_DEPTH_MAX - 1, "hidden": 2}));
}

#[tokio::test]
async fn a_job_says_why_it_waits() {
    let world = World::new().await;
    let body = json!({"status": "open", "tasks": tasks(2), "max_inflight": 2});
    let key @ RunKey { job, run } = world.submitted(body).await;
    assert_eq!(world.reason(job).await, "no_worker");
    let (scope, worker) = (Scope::Job(job), world.worker());
    world.ask_for(job, worker, 1, 0).await;
    assert_eq!(world.reason(job).await, "working");

    let until = Timestamp(world.now().0 + 500);
    let coordinator = &world.backend.coordinator;
    let wait = DomainWait { domain: "site.example".to_owned(), until };
    coordinator.change(&scope, Change::DomainWait(wait), world.now()).await.unwrap();
    let waiting = world.limits(job).await["waiting"].clone();
    assert_eq!((&waiting["reason"], &waiting["until"]), (&json!("domain_budget"), &json!(until.to_string())));
    assert!(waiting["detail"].as_str().unwrap().contains("site.example"), "{waiting}");
    world.ask_for(job, worker, 2, 0).await;
    assert_eq!(world.reason(job).await, "capped");
    world.patch(job, json!({"rate_limit": {"per_second": 1, "burst": 1}})).await;
    world.ask_for(job, worker, 2, 1).await;
    assert_eq!(world.reason(job).await, "rate_limited");
    coordinator.change(&scope, Change::HoldUntil(until), world.now()).await.unwrap();
    assert_eq!(world.reason(job).await, "gateway_backoff");

    let deliveries = world.backend.queue.receive(QueueName::Run(run), 2, limits::VISIBILITY, world.now());
    let receipts = deliveries.await.unwrap().into_iter().map(|delivery| delivery.receipt).collect();
    assert_eq!(world.reason(job).await, "gateway_backoff");
    world.pass_ms(500);
    let until = Timestamp(world.now().0 + 500);
    let wait = DomainWait { domain: "site.example".to_owned(), until };
    coordinator.change(&scope, Change::DomainWait(wait), world.now()).await.unwrap();
    let waiting = world.limits(job).await["waiting"].clone();
    assert_eq!((&waiting["reason"], &waiting["until"]), (&json!("domain_budget"), &json!(until.to_string())));
    assert!(waiting["detail"].as_str().unwrap().contains("site.example"), "{waiting}");
    world.pass_ms(500);
    let waiting = world.limits(job).await["waiting"].clone();
    assert_eq!(waiting["reason"], "nothing_queued");
    assert!(waiting["detail"].as_str().unwrap().contains("2 tasks are in flight"), "{waiting}");
    for index in 0..2 {
        world.succeed(key, index, Format::Html, b"x").await;
    }
    world.backend.queue.ack(QueueName::Run(run), receipts).await.unwrap();
    world.apply(job, Command::Drained).await;
    assert_eq!(world.reason(job).await, "idle");
    world.act(&format!("/v1/jobs/{job}/pause")).await;
    assert_eq!(world.reason(job).await, "paused");
    world.act(&format!("/v1/jobs/{job}/stop")).await;
    assert_eq!(world.reason(job).await, "ended");
}

#[tokio::test]
async fn domain_budgets_are_the_callers_own() {
    let world = World::new().await;
    let RunKey { job, .. } = world.submit("closed", 1).await;
    let mine = Scope::Domain(world.caller().await, "mine.example".to_owned());
    let other = Scope::Domain(CallerId::new(world.now(), &world.entropy), "theirs.example".to_owned());
    let limits = Limits { max_inflight: Some(3), ..Limits::default() };
    for scope in [&mine, &other] {
        world.ask(scope, world.worker(), 1, 0, limits).await;
    }
    let shown = world.limits(job).await;
    assert_eq!(shown["domains"], json!([{"domain": "mine.example", "held": 1, "max_inflight": 3}]));
}

#[tokio::test]
async fn leases_are_those_of_live_runs_newest_first() {
    let world = World::new().await;
    let mut live = Vec::new();
    for n in 0..5 {
        world.pass_ms(1);
        let RunKey { job, .. } =
            world.submitted(json!({"tasks": tasks(1), "name": format!("job {n}")})).await;
        if n % 2 == 0 {
            live.push(job);
        } else {
            world.apply(job, Command::Stop).await;
        }
    }
    world.ask_for(live[2], world.worker(), 7, 0).await;
    live.reverse();
    let page = world.get("/v1/leases?limit=2").await.json();
    golden("leases", &page);
    let ids = |page: &Value| -> Vec<String> {
        page["leases"].as_array().unwrap().iter().map(|l| l["job_id"].as_str().unwrap().to_owned()).collect()
    };
    let expected: Vec<String> = live.iter().map(JobId::to_string).collect();
    assert_eq!(ids(&page), expected[..2]);
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = world.get(&format!("/v1/leases?cursor={cursor}")).await.json();
    assert_eq!(ids(&rest), expected[2..]);
    assert!(rest.get("next_cursor").is_none());
    let theirs = world.call("GET", "/v1/leases", Some(OTHER_KEY), None).await;
    assert_eq!(theirs.json(), json!({"leases": []}));
    let path = format!("/v1/leases?cursor={cursor}");
    world.call("GET", &path, Some(OTHER_KEY), None).await.refused(400, "invalid_cursor");
    world.get(&format!("/v1/jobs?cursor={cursor}")).await.refused(400, "invalid_cursor");
    world.get("/v1/leases?limit=0").await.refused(400, "invalid_argument");
    world.get("/v1/leases?status=open").await.refused(400, "invalid_argument");
}

#[tokio::test]
async fn leases_look_at_so_many_jobs_a_page_and_no_further() {
    let world = World::new().await;
    let RunKey { job: oldest, .. } = world.submit("closed", 1).await;
    world.pass_ms(1);
    let ended = (0..limits::LEASES_LOOK_MAX + 1).map(|_| async {
        let RunKey { job, .. } = world.submitted(json!({"status": "open"})).await;
        world.apply(job, Command::Stop).await;
    });
    stream::iter(ended).buffer_unordered(64).collect::<Vec<()>>().await;
    let mut page = world.get("/v1/leases").await.json();
    assert_eq!(page["leases"], json!([]), "the one that is live is further back");
    let cursor = page["next_cursor"].take();
    let next = world.get(&format!("/v1/leases?cursor={}", cursor.as_str().unwrap())).await.json();
    assert_eq!(next["leases"][0]["job_id"], oldest.to_string());
    assert!(next.get("next_cursor").is_none());
}
