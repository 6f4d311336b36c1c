use super::*;
use crate::job::lifecycle::Decision;
use crate::{
    AccountFault, Command, Counts, FailureReason, JobSpec, ListFault, RunFailure, RunStatus, Spend,
    WebhookConfig, lifecycle,
};

const DAY_MS: i64 = 24 * 3600 * 1000;

fn submitted(spec: JobSpec) -> Decision {
    let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
    lifecycle::submit(job, run, CallerId::from_bytes([3; 16]), spec, false, 1, Timestamp(0))
}

fn hooked() -> JobSpec {
    let webhook = Some(WebhookConfig::new("https://hook.example/".to_owned(), true));
    JobSpec { webhook, external_id: Some("mine".to_owned()), ..JobSpec::default() }
}

fn stats(counts: Counts) -> RunStats {
    RunStats { total: 1, counts, spend: Spend { credits: 25, cost_nanos: 1_500_000_000 } }
}

fn told(spec: JobSpec, command: Command) -> Vec<Delivery> {
    let made = submitted(spec);
    let counts = Counts { successful: 1, ..Counts::default() };
    let ended = lifecycle::decide(&made.job, &made.run, &counts, &command, Timestamp(7)).unwrap();
    of_ended_run(&ended.job, &ended.run, stats(counts))
}

fn delivery() -> Delivery {
    told(hooked(), Command::Drained).remove(0)
}

fn fault() -> Command {
    let run = RunId::from_bytes([2; 16]);
    Command::FailRun { run, reason: AccountFault::InsufficientCredits, detail: "no credits".to_owned() }
}

#[test]
fn a_webhook_hears_of_an_end_that_nobody_asked_for() {
    let done = delivery();
    assert_eq!(
        (done.kind, done.target, done.occurred),
        (EventType::RunCompleted, Target::Webhook, Timestamp(7))
    );
    let body: serde_json::Value = serde_json::from_str(&done.body).unwrap();
    assert_eq!(
        body["stats"],
        serde_json::json!({
            "total": 1, "completed": 1, "successful": 1, "failed": 0,
            "spend": {"credits": 25, "cost": 1.5},
        })
    );
    assert_eq!((&body["event_id"], &body["external_id"]), (&serde_json::json!(done.event), &"mine".into()));
    let failed = &told(hooked(), fault())[0];
    let body: serde_json::Value = serde_json::from_str(&failed.body).unwrap();
    assert_eq!(
        (body["event_type"].as_str(), body["failure_detail"].as_str()),
        (Some("run.failed"), Some("no credits"))
    );
    let mut list = submitted(hooked());
    let reason = FailureReason::List(ListFault::SourceTruncated);
    list.run.status = RunStatus::Failed;
    list.run.failure = Some(RunFailure { reason, detail: "it ends early".to_owned() });
    let failed = &of_ended_run(&list.job, &list.run, stats(Counts::default()))[0];
    let body: serde_json::Value = serde_json::from_str(&failed.body).unwrap();
    assert_eq!(body["failure_reason"], "ingest_failed", "the word that clients know");
    assert_eq!(body["failure_detail"], "source_truncated: it ends early");
    for silent in [Command::Stop, Command::Delete] {
        assert!(told(hooked(), silent).is_empty());
    }
    assert!(told(JobSpec::default(), Command::Drained).is_empty());
    let off = hooked().without_receiver("https://hook.example/", "gone", Timestamp(1));
    assert!(told(off, Command::Drained).is_empty());
}

#[test]
fn a_state_machine_hears_of_every_end_of_the_first_run() {
    let spec = JobSpec { sfn_task_token: Some(Sealed("sealed".to_owned())), ..JobSpec::default() };
    for command in [Command::Drained, fault(), Command::Stop, Command::Delete] {
        let told = told(spec.clone(), command);
        assert!(matches!(&told[..], [Delivery { target: Target::StepFunctions, token: Some(_), .. }]));
    }
    let mut later = submitted(spec);
    later.run.status = RunStatus::Completed;
    later.run.sequence = 2;
    assert!(of_ended_run(&later.job, &later.run, RunStats::default()).is_empty());
}

#[test]
fn what_is_missed_is_recent_and_was_to_be_told() {
    let made = submitted(JobSpec::default().with_webhook(hooked().webhook, Timestamp(5)));
    let ended_at = |at| {
        let counts = Counts { successful: 1, ..Counts::default() };
        let ended =
            lifecycle::decide(&made.job, &made.run, &counts, &Command::Drained, Timestamp(at)).unwrap();
        move |now| missed(&ended.job, &ended.run, stats(counts), Timestamp(now)).len()
    };
    assert_eq!(ended_at(7)(8), 1);
    assert_eq!(ended_at(7)(7 + 3 * DAY_MS), 0, "nobody would try it any more");
    assert_eq!(ended_at(4)(8), 0, "it had no webhook then");
}

#[test]
fn each_target_has_an_id_of_its_own_that_is_always_the_same() {
    let run = RunId::from_bytes([2; 16]);
    assert_ne!(Target::Webhook.event_of(run), Target::StepFunctions.event_of(run));
    assert_eq!(delivery().event, delivery().event);
    assert_ne!(Target::Webhook.event_of(run), Target::Webhook.event_of(RunId::from_bytes([3; 16])));
}

#[test]
fn it_is_tried_for_three_days_and_not_longer() {
    let entropy = Entropy::from_number(4);
    let (mut delivery, mut now, mut tries) = (delivery(), Timestamp(7), 0);
    let mut last_pause = 0;
    loop {
        delivery.start(now);
        tries += 1;
        match delivery.settle(&Answer::Status(500), 3, now, now, &entropy) {
            Some(due) => {
                assert!(due > now);
                last_pause = due.0 - now.0;
                now = due;
            }
            None => break,
        }
    }
    assert_eq!(delivery.state, DeliveryState::Failed);
    assert_eq!(now, Timestamp(7 + 3 * DAY_MS), "the last try is at the end");
    assert!((10..30).contains(&tries), "{tries}");
    assert!(last_pause <= DAY_MS);
    assert_eq!(
        delivery.attempts.last().unwrap().ended.as_ref().unwrap().error.as_deref(),
        Some("http_5xx:500")
    );
    delivery.replay(now);
    delivery.start(now);
    assert!(delivery.settle(&Answer::Timeout, 3, now, now, &entropy).is_some(), "a replay has as long again");
    assert_eq!(delivery.attempts_made, tries + 1);
}

#[test]
fn answers_end_it_or_not() {
    let entropy = Entropy::from_number(4);
    let after = |answer: Answer| {
        let mut delivery = delivery();
        delivery.start(Timestamp(8));
        let again = delivery.settle(&answer, 3, Timestamp(9), Timestamp(9), &entropy).is_some();
        (delivery.state.as_str(), again, answer.error())
    };
    let error = |text: &str| Some(text.to_owned());
    assert_eq!(after(Answer::Status(204)), ("delivered", false, None));
    assert_eq!(after(Answer::Status(302)), ("pending", true, error("http_3xx:302")));
    assert_eq!(after(Answer::Status(404)), ("pending", true, error("http_4xx:404")));
    assert_eq!(after(Answer::Status(410)), ("failed", false, error("http_4xx:410")));
    assert_eq!(after(Answer::Timeout), ("pending", true, error("timeout")));
    assert_eq!(
        after(Answer::Transport("reset".to_owned())),
        ("pending", true, error("transport_error:reset"))
    );
    assert_eq!(after(Answer::Refused("InvalidToken".to_owned())), ("failed", false, error("InvalidToken")));
}

#[test]
fn a_try_that_nobody_saw_the_end_of_stays_open() {
    let mut delivery = delivery();
    delivery.start(Timestamp(8));
    assert!(delivery.is_open());
    delivery.start(Timestamp(9));
    delivery.settle(&Answer::Status(200), 3, Timestamp(9), Timestamp(9), &Entropy::from_number(4));
    assert!(!delivery.is_open());
    assert_eq!(delivery.attempts[0].ended, None);
}

#[test]
fn only_the_latest_tries_are_kept() {
    let mut delivery = delivery();
    for n in 0..100 {
        delivery.start(Timestamp(n));
    }
    assert_eq!(delivery.attempts.len(), limits::DELIVERY_ATTEMPTS_KEPT);
    assert_eq!((delivery.attempts_made, delivery.attempts.last().unwrap().started), (100, Timestamp(99)));
}

#[test]
fn what_is_stored_reads() {
    let delivery = delivery();
    let record = delivery.record(RecordVersion::from_stored(1), Some(Timestamp(8)));
    assert_eq!(record.parse::<Delivery>(), Ok(delivery));
}

#[test]
fn a_time_that_is_in_doubt_gives_nothing_up() {
    let (entropy, day) = (Entropy::from_number(4), 24 * 3_600_000);
    let mut delivery = delivery();
    let (seen, jumped) = (Timestamp(delivery.since.0 + 9), Timestamp(delivery.since.0 + 60 * day));
    delivery.start(jumped);
    let due = delivery.settle(&Answer::Timeout, 3, jumped, seen, &entropy).expect("it is tried again");
    assert!((4_000..=6_000).contains(&(due.0 - jumped.0)), "{due}");
    delivery.start(jumped);
    assert_eq!(delivery.settle(&Answer::Timeout, 3, jumped, jumped, &entropy), None, "it was believed");
}
