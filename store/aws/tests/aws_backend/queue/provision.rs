//! What is made before anything runs.

use crate::queue::world::{NOW, OnSqs};
use aws_sdk_sqs::types::QueueAttributeName;
use conveyor_aws::Settings;
use conveyor_aws::queue::provision;
use conveyor_domain::QueueName;
use conveyor_store::port::Reader;
use conveyor_store::{Error, Queue};
use std::collections::HashMap;
use std::time::Duration;

crate::queue::on_each_server!(
    queues_are_made_once_and_set_right,
    several_provision_at_once,
    what_was_not_provisioned_says_so,
);

async fn check(world: &OnSqs) {
    for queue in [QueueName::Control, QueueName::ControlDead] {
        let found = world.attributes(queue).await;
        assert_eq!(found[&QueueAttributeName::MessageRetentionPeriod], "1209600");
        assert_eq!(found[&QueueAttributeName::VisibilityTimeout], "60");
    }
    let dead = world.attributes(QueueName::ControlDead).await;
    assert!(!dead.contains_key(&QueueAttributeName::RedrivePolicy));
    let policy = &world.attributes(QueueName::Control).await[&QueueAttributeName::RedrivePolicy];
    let policy: serde_json::Value = serde_json::from_str(policy).unwrap();
    assert_eq!(policy["deadLetterTargetArn"], dead[&QueueAttributeName::QueueArn].as_str());
    assert_eq!(policy["maxReceiveCount"].to_string().trim_matches('"'), "5");
}

async fn queues_are_made_once_and_set_right(world: OnSqs) {
    // As an operator made it, by hand.
    let other = HashMap::from([(QueueAttributeName::VisibilityTimeout, "7".to_owned())]);
    let create = world.sqs.create_queue().queue_name(world.name(QueueName::Control));
    create.set_attributes(Some(other)).send().await.unwrap();
    world.queues().send(QueueName::Control, vec!["m".to_owned()], NOW).await.unwrap();
    assert!(provision(&world.sqs, &world.settings).await.unwrap());
    check(&world).await;
    assert!(!provision(&world.sqs, &world.settings).await.unwrap(), "nothing was missing");
    check(&world).await;
    let kept = world.queues().receive(QueueName::Control, 9, Duration::from_secs(9), NOW).await.unwrap();
    assert_eq!(kept.len(), 1, "messages stay");
    world.queues().emptiness(QueueName::Control, NOW).await.unwrap();
}

async fn several_provision_at_once(world: OnSqs) {
    let provisions = (0..5).map(|_| provision(&world.sqs, &world.settings));
    for provisioned in futures::future::join_all(provisions).await {
        provisioned.unwrap();
    }
    check(&world).await;
}

async fn what_was_not_provisioned_says_so(world: OnSqs) {
    let (queues, control) = (world.queues(), QueueName::Control);
    let answers = [
        queues.emptiness(control, NOW).await.map(drop),
        queues.send(control, vec!["m".to_owned()], NOW).await,
        queues.receive(control, 1, Duration::from_secs(9), NOW).await.map(|_| ()),
        queues.depth(control, Reader::Role, NOW).await.map(|_| ()),
    ];
    for answer in answers {
        let Err(Error::Missing(why)) = answer else { panic!("{answer:?}") };
        assert!(why.contains("conveyor provision") && why.contains(&world.name(control)), "{why}");
    }
    // And by somebody who knew it when it was there.
    provision(&world.sqs, &world.settings).await.unwrap();
    queues.emptiness(control, NOW).await.unwrap();
    world.sqs.delete_queue().queue_url(world.url(control).await).send().await.unwrap();
    let Err(Error::Missing(why)) = queues.emptiness(control, NOW).await else { panic!("it is gone") };
    assert!(why.contains("conveyor provision"), "{why}");
}

#[tokio::test]
async fn a_prefix_that_would_be_refused_later_is_refused_now() {
    let settings = Settings { queue_prefix: "no dots.".to_owned(), ..crate::queue::world::settings() };
    let sqs =
        crate::queue::world::client(&settings, |config| config.endpoint_url("http://127.0.0.1:9")).await;
    assert!(matches!(provision(&sqs, &settings).await, Err(Error::Conflict(_))));
}
