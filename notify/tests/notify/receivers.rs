//! What receivers answer, and what follows.

use crate::receiver::{Receiver, Reply};
use crate::world::{CALLER, World};
use conveyor_domain::delivery::signing_keys::signature_headers;
use conveyor_domain::{Clock, Command, DeliveryState, Secret, UrlFault};
use conveyor_notify::Receivers;
use conveyor_testkit::DEADLINE;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const MINUTE: Duration = Duration::from_secs(60);

fn errors(delivery: &conveyor_domain::Delivery) -> Vec<Option<String>> {
    delivery.attempts.iter().map(|attempt| attempt.ended.as_ref().unwrap().error.clone()).collect()
}

#[tokio::test]
async fn a_completed_run_is_told_once() {
    let (world, receiver) = (World::new(), Receiver::new([]).await);
    let key = world.completed(&receiver.url, false).await;
    assert_eq!(world.deliver().await, 1);
    assert_eq!(world.deliver().await, 0);
    let delivery = world.delivery(key).await;
    assert_eq!(delivery.state, DeliveryState::Delivered);
    let [heard] = &receiver.heard()[..] else { panic!("heard once") };
    assert_eq!(heard.body, delivery.body);
    let header = |name: &str| heard.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(header("x-zenrows-event-id"), Some(delivery.event.to_string()));
    assert_eq!(header("webhook-id"), Some(delivery.event.to_string()));
    assert_eq!(header("webhook-timestamp").unwrap(), "1767225600");
    assert_eq!(header("content-type").unwrap(), "application/json");
    assert_eq!((header("x-signature"), header("webhook-signature")), (None, None), "not asked for");
}

#[tokio::test]
async fn what_is_signed_is_what_is_sent() {
    let (world, receiver) = (World::new(), Receiver::new([]).await);
    let key = world.completed(&receiver.url, true).await;
    // Without a key it waits for one, and is never sent unsigned.
    world.deliver().await;
    assert!(receiver.heard().is_empty());
    let (kid, signing) = world.signing_key().await;
    world.pass(MINUTE);
    world.deliver().await;
    let [heard] = &receiver.heard()[..] else { panic!("heard once") };
    let event = world.delivery(key).await.event;
    let now = conveyor_domain::Clock::now(world.clock.as_ref());
    for (name, value) in signature_headers(&signing, kid, event, now, &heard.body) {
        assert_eq!(heard.headers[name].to_str().unwrap(), value);
    }
}

#[tokio::test]
async fn a_failure_is_tried_again_later() {
    let (world, receiver) = (World::new(), Receiver::new([Reply::Status(500), Reply::Status(404)]).await);
    let key = world.completed(&receiver.url, false).await;
    world.deliver().await;
    assert_eq!(world.deliver().await, 0, "not at once");
    world.pass(MINUTE);
    world.deliver().await;
    world.pass(MINUTE);
    world.deliver().await;
    let delivery = world.delivery(key).await;
    assert_eq!(delivery.state, DeliveryState::Delivered);
    let error = |text: &str| Some(text.to_owned());
    assert_eq!(errors(&delivery), [error("http_5xx:500"), error("http_4xx:404"), None]);
    let heard = receiver.heard();
    assert!(heard.iter().all(|one| one.headers["webhook-id"] == heard[0].headers["webhook-id"]));
}

#[tokio::test]
async fn a_time_in_doubt_gives_no_notification_up() {
    let (world, receiver) = (World::new(), Receiver::new([Reply::Status(500), Reply::Status(500)]).await);
    let key = world.completed(&receiver.url, false).await;
    let store = world.backend.store.as_ref();
    conveyor_store::clock_watch::observe(store, world.clock.now()).await.unwrap();
    world.pass(Duration::from_secs(60 * 24 * 3600));
    world.deliver().await;
    assert_eq!(world.delivery(key).await.state, DeliveryState::Pending, "60 days are past its time");
    world.pass(MINUTE);
    world.deliver().await;
    world.pass(MINUTE);
    world.deliver().await;
    assert_eq!(world.delivery(key).await.state, DeliveryState::Delivered);
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_not_followed() {
    let elsewhere = Receiver::new([]).await;
    let (world, receiver) = (World::new(), Receiver::new([Reply::Redirect(elsewhere.url.clone())]).await);
    let key = world.completed(&receiver.url, false).await;
    world.deliver().await;
    assert_eq!(errors(&world.delivery(key).await), [Some("http_3xx:307".to_owned())]);
    assert!(elsewhere.heard().is_empty());
}

#[tokio::test]
async fn gone_is_the_end_of_the_webhook() {
    let (world, receiver) = (World::new(), Receiver::new([Reply::Status(410)]).await);
    let key = world.completed(&receiver.url, false).await;
    world.deliver().await;
    assert_eq!(world.delivery(key).await.state, DeliveryState::Failed);
    let job = world.backend.store.job(None, key.job).await.unwrap().unwrap().job;
    assert!(job.spec.webhook.as_ref().unwrap().disabled.is_some());
    world.pass(MINUTE);
    assert_eq!(world.deliver().await, 0);
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_times_out() {
    let (world, receiver) = (World::impatient(), Receiver::new([Reply::Never]).await);
    let key = world.completed(&receiver.url, false).await;
    world.deliver().await;
    assert_eq!(errors(&world.delivery(key).await), [Some("timeout".to_owned())]);
}

#[tokio::test]
async fn nobody_there_is_a_transport_error() {
    let world = World::new();
    let key = world.completed("http://127.0.0.1:1/hook", false).await;
    world.deliver().await;
    let error = errors(&world.delivery(key).await).remove(0).unwrap();
    assert!(error.starts_with("transport_error:"), "{error}");
    assert!(!error.contains("127.0.0.1"), "{error}");
}

/// What a job was given when that was allowed, or what a name means by now.
#[tokio::test]
async fn an_address_that_is_not_allowed_is_never_reached() {
    let receiver = Receiver::new([]).await;
    let world = World::with(Receivers::new(false).unwrap());
    let plain = world.completed(&receiver.url, false).await;
    let secure = world.completed(&receiver.url.replace("http:", "https:"), false).await;
    let named = receiver.url.replace("http:", "https:").replace("127.0.0.1", "localhost");
    let named = world.completed(&named, false).await;
    world.deliver().await;
    assert!(receiver.heard().is_empty());
    for (key, why) in [(plain, "not https"), (secure, "address not allowed"), (named, "address not allowed")]
    {
        let error = errors(&world.delivery(key).await).remove(0).unwrap();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn urls_are_judged_before_they_are_taken() {
    let open = Receivers::new(true).unwrap();
    let strict = Receivers::new(false).unwrap();
    assert_eq!(open.check(CALLER, "http://127.0.0.1:1/x").await, Ok(()));
    assert_eq!(open.check(CALLER, "http://localhost/x").await, Ok(()));
    assert_eq!(open.check(CALLER, "https://[::1]/x").await, Ok(()));
    assert_eq!(open.check(CALLER, "http://192.168.1.1/x").await, Err(UrlFault::NotHttps));
    assert_eq!(strict.check(CALLER, "http://127.0.0.1/x").await, Err(UrlFault::NotHttps));
    assert_eq!(strict.check(CALLER, "https://127.0.0.1/x").await, Err(UrlFault::AddressNotAllowed));
    assert_eq!(strict.check(CALLER, "https://localhost/x").await, Err(UrlFault::AddressNotAllowed));
    assert_eq!(strict.check(CALLER, "https://1.1.1.1/x").await, Ok(()));
    assert_eq!(strict.check(CALLER, "https://nope.invalid/x").await, Err(UrlFault::Unresolvable));
    assert_eq!(strict.check(CALLER, "nope").await, Err(UrlFault::Malformed));
}

#[tokio::test]
async fn the_job_says_where_it_goes_now() {
    let (world, first, second) =
        (World::new(), Receiver::new([Reply::Status(500)]).await, Receiver::new([]).await);
    let key = world.completed(&first.url, false).await;
    world.deliver().await;
    let moved = conveyor_domain::WebhookConfig::new(second.url.clone(), false);
    world.apply(key, Command::Webhook(Some(moved))).await;
    world.pass(MINUTE);
    world.deliver().await;
    assert_eq!((first.heard().len(), second.heard().len()), (1, 1));
    assert_eq!(first.heard()[0].body, second.heard()[0].body);
}

#[tokio::test]
async fn a_job_that_is_gone_tells_nobody() {
    let (world, receiver) = (World::new(), Receiver::new([]).await);
    let (hookless, deleted) =
        (world.completed(&receiver.url, false).await, world.completed(&receiver.url, false).await);
    world.apply(hookless, Command::Webhook(None)).await;
    world.apply(deleted, Command::Delete).await;
    world.deliver().await;
    assert!(receiver.heard().is_empty());
    for key in [hookless, deleted] {
        assert_eq!(world.delivery(key).await.state, DeliveryState::Cancelled);
    }
}

#[tokio::test]
async fn the_loop_delivers_and_finishes_what_is_under_way() {
    let (world, receiver) = (World::new(), Receiver::new([]).await);
    let stop = CancellationToken::new();
    let running = tokio::spawn(conveyor_notify::run(world.notifier.clone(), stop.clone()));
    let key = world.completed(&receiver.url, false).await;
    tokio::time::timeout(DEADLINE, receiver.came()).await.unwrap();
    stop.cancel();
    tokio::time::timeout(DEADLINE, running).await.unwrap().unwrap();
    assert_eq!(world.delivery(key).await.state, DeliveryState::Delivered);
}

/// Under another secret it is tried again like anything that may pass, and not every minute for as long as it is kept.
#[tokio::test]
async fn a_signing_key_of_another_secret_is_waited_for() {
    let (mut world, receiver) = (World::new(), Receiver::new([]).await);
    world.signing_key().await;
    let key = world.completed(&receiver.url, true).await;
    let right = world.notifier.secret.clone();
    Arc::get_mut(&mut world.notifier).unwrap().secret = Secret::new([8; 32]);
    world.deliver().await;
    let delivery = world.delivery(key).await;
    assert!(receiver.heard().is_empty() && delivery.state == DeliveryState::Pending);
    assert!(delivery.attempts[0].ended.is_some(), "{delivery:?}");
    Arc::get_mut(&mut world.notifier).unwrap().secret = right;
    world.pass(MINUTE);
    world.deliver().await;
    assert_eq!(receiver.heard().len(), 1);
}
