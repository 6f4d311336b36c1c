//! What SQS answers when things go wrong, and the servers here never do.

use crate::queue::script::Script;
use crate::queue::world::{NOW, run_queue};
use conveyor_domain::QueueName;
use conveyor_store::port::{Reader, Receipt};
use conveyor_store::{Error, Queue};
use serde_json::{Value, json};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn failed(entries: &[(usize, &str, bool)]) -> Value {
    let entry = |(id, code, fault): &(usize, &str, bool)| json!({ "Id": id.to_string(), "Code": code, "SenderFault": fault, "Message": "no" });
    json!({ "Successful": [], "Failed": entries.iter().map(entry).collect::<Vec<_>>() })
}

fn done() -> Value {
    failed(&[])
}

fn ids(asked: &Value) -> Vec<&str> {
    asked["Entries"].as_array().unwrap().iter().map(|entry| entry["Id"].as_str().unwrap()).collect()
}

fn bodies(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("m{i}")).collect()
}

fn receipts(count: usize) -> Vec<Receipt> {
    (0..count).map(|i| Receipt(format!("r{i}"))).collect()
}

#[tokio::test]
async fn only_what_failed_is_sent_again() {
    let script = Script::found()
        .then("SendMessageBatch", failed(&[(1, "InternalError", false), (2, "ThrottlingException", true)]))
        .then("SendMessageBatch", failed(&[(2, "InternalError", false)]))
        .then("SendMessageBatch", done());
    script.queues().await.send(run_queue(), bodies(3), NOW).await.unwrap();
    let asked = script.asked();
    assert_eq!(ids(&asked[1]), ["0", "1", "2"]);
    assert_eq!(ids(&asked[2]), ["1", "2"]);
    assert_eq!(ids(&asked[3]), ["2"]);
}

#[tokio::test]
async fn what_fails_again_and_again_is_unavailable() {
    let always = failed(&[(0, "InternalError", false)]);
    let script = (0..5).fold(Script::found(), |script, _| script.then("SendMessageBatch", always.clone()));
    let sent = script.queues().await.send(run_queue(), bodies(1), NOW).await;
    let Err(Error::Unavailable(why)) = sent else { panic!("{sent:?}") };
    assert!(why.contains("InternalError"), "{why}");
    script.asked();
}

#[tokio::test]
async fn a_message_that_is_refused_is_not_sent_again() {
    let script = Script::found().then("SendMessageBatch", failed(&[(0, "InvalidMessageContents", true)]));
    let sent = script.queues().await.send(run_queue(), bodies(1), NOW).await;
    assert!(matches!(sent, Err(Error::Unavailable(_))), "{sent:?}");
    script.asked();
}

#[tokio::test]
async fn a_new_queue_that_is_not_known_everywhere_is_waited_for() {
    let url = json!({ "QueueUrl": "http://queues/1/q" });
    let script = Script::missing()
        .then("CreateQueue", url.clone())
        .then_refuses("SendMessageBatch", "QueueDoesNotExist")
        .then("CreateQueue", url)
        .then("SendMessageBatch", done());
    script.queues().await.send(run_queue(), bodies(1), NOW).await.unwrap();
    script.asked();
}

#[tokio::test]
async fn a_queue_of_another_make_is_used_as_it_is() {
    let script = Script::missing()
        .then_refuses("CreateQueue", "QueueNameExists")
        .then("GetQueueUrl", json!({ "QueueUrl": "http://queues/1/q" }))
        .then("SendMessageBatch", done());
    script.queues().await.send(run_queue(), bodies(1), NOW).await.unwrap();
    script.asked();
}

#[tokio::test]
async fn a_name_that_was_just_given_up_is_not_to_be_had() {
    let script = Script::missing().then_refuses("CreateQueue", "QueueDeletedRecently");
    let sent = script.queues().await.send(run_queue(), bodies(1), NOW).await;
    let Err(Error::Unavailable(why)) = sent else { panic!("{sent:?}") };
    assert!(why.contains("QueueDeletedRecently"), "{why}");
    script.asked();
}

#[tokio::test]
async fn too_many_in_flight_is_like_none_to_receive() {
    let script = Script::found().then_refuses("ReceiveMessage", "OverLimit");
    assert_eq!(script.queues().await.receive(run_queue(), 50, SECOND, NOW).await, Ok(Vec::new()));
    let asked = script.asked();
    assert_eq!((&asked[1]["MaxNumberOfMessages"], &asked[1]["WaitTimeSeconds"]), (&json!(10), &json!(0)));
}

#[tokio::test]
async fn stale_receipts_are_no_errors() {
    let stale = failed(&[(0, "ReceiptHandleIsInvalid", true), (1, "ReceiptHandleIsInvalid", false)]);
    let script = Script::found().then("DeleteMessageBatch", stale);
    script.queues().await.ack(run_queue(), receipts(2)).await.unwrap();
    script.asked();
}

#[tokio::test]
async fn an_acknowledgement_that_failed_is_sent_again() {
    let script = Script::found()
        .then("DeleteMessageBatch", failed(&[(1, "InternalError", false)]))
        .then("DeleteMessageBatch", done());
    script.queues().await.ack(run_queue(), receipts(2)).await.unwrap();
    assert_eq!(ids(&script.asked()[2]), ["1"]);
}

#[tokio::test]
async fn an_extension_names_the_receipts_that_are_lost() {
    let script = Script::found()
        .then(
            "ChangeMessageVisibilityBatch",
            failed(&[(0, "InternalError", false), (1, "AWS.SimpleQueueService.MessageNotInflight", true)]),
        )
        .then("ChangeMessageVisibilityBatch", done());
    let kept = script.queues().await.extend(run_queue(), receipts(3), SECOND, NOW).await.unwrap();
    assert_eq!(kept, [Some(Receipt("r0".to_owned())), None, Some(Receipt("r2".to_owned()))]);
    script.asked();
}

/// Counted from the receive, SQS hides nothing for longer than 12 hours.
#[tokio::test]
async fn no_message_is_given_back_for_longer_than_it_can_be_hidden() {
    let held_too_long = failed(&[(1, "InvalidParameterValue", true)]);
    let script = Script::found().then("ChangeMessageVisibilityBatch", held_too_long);
    let delays = [Duration::from_millis(1_500), Duration::from_secs(24 * 3600), Duration::ZERO];
    let back = receipts(3).into_iter().zip(delays).collect();
    script.queues().await.release(run_queue(), back, NOW).await.unwrap();
    let entries = &script.asked()[1]["Entries"];
    let timeouts: Vec<_> = (0..3).map(|i| entries[i]["VisibilityTimeout"].as_i64()).collect();
    assert_eq!(timeouts, [Some(2), Some(11 * 3600), Some(0)]);
}

#[tokio::test]
async fn counts_that_are_not_there_are_not_zero() {
    let script = Script::found().then("GetQueueAttributes", json!({ "Attributes": {} }));
    let depth = script.queues().await.depth(QueueName::Control, Reader::Role, NOW).await;
    assert!(matches!(depth, Err(Error::Unavailable(_))), "{depth:?}");
}
