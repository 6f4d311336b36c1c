//! Several processes on the same queues, each with its own memory of where they are.

use crate::queue::world::{NOW, OnSqs, run_queue};
use aws_sdk_sqs::types::QueueAttributeName;
use conveyor_aws::Settings;
use conveyor_aws::queue::Queues;
use conveyor_domain::{QueueName, Timestamp};
use conveyor_store::Queue;
use conveyor_store::port::{Depth, Emptiness, Reader};
use std::time::Duration;

crate::queue::on_each_server!(
    a_queue_of_a_run_is_made_by_the_first_message,
    processes_that_send_first_at_once_share_the_queue,
    a_queue_that_another_process_removed_is_empty,
    a_queue_is_called_empty_once_it_was_so_for_a_while,
);

const LONG: Duration = Duration::from_secs(120);

fn messages(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("m{i}")).collect()
}

async fn a_queue_of_a_run_is_made_by_the_first_message(world: OnSqs) {
    let queue = run_queue();
    world.queues().send(queue, messages(1), NOW).await.unwrap();
    let found = world.attributes(queue).await;
    assert_eq!(found[&QueueAttributeName::MessageRetentionPeriod], "1209600");
    assert_eq!(found[&QueueAttributeName::VisibilityTimeout], "60");
    let tags = world.sqs.list_queue_tags().queue_url(world.url(queue).await).send().await.unwrap();
    let QueueName::Run(run) = queue else { panic!("{queue}") };
    assert_eq!(tags.tags.unwrap()["conveyor:run"], run.to_string());
}

async fn processes_that_send_first_at_once_share_the_queue(world: OnSqs) {
    let (queue, processes) = (run_queue(), [(); 6].map(|()| world.queues()));
    let sends = processes.iter().map(|queues| queues.send(queue, messages(25), NOW));
    for sent in futures::future::join_all(sends).await {
        sent.unwrap();
    }
    assert_eq!(
        world.queues().depth(queue, Reader::Role, NOW).await.unwrap(),
        Depth { visible: 150, hidden: 0, at_least: false }
    );
}

async fn a_queue_that_another_process_removed_is_empty(world: OnSqs) {
    let (queue, here, there) = (run_queue(), world.queues(), world.queues());
    here.send(queue, messages(3), NOW).await.unwrap();
    let held = here.receive(queue, 1, LONG, NOW).await.unwrap().remove(0).receipt;
    assert!(there.remove(queue, 1).await.unwrap());
    assert!(here.receive(queue, 9, LONG, NOW).await.unwrap().is_empty());
    // Each of them as the first to notice.
    let knowing = async || {
        let queues = world.queues();
        queues.send(queue, messages(1), NOW).await.unwrap();
        assert!(there.remove(queue, 1).await.unwrap());
        queues
    };
    knowing().await.ack(queue, vec![held.clone()]).await.unwrap();
    knowing().await.release(queue, vec![(held.clone(), LONG)], NOW).await.unwrap();
    assert_eq!(knowing().await.extend(queue, vec![held], LONG, NOW).await.unwrap(), [None]);
    assert_eq!(knowing().await.depth(queue, Reader::Role, NOW).await.unwrap(), Depth::default());
    assert!(knowing().await.remove(queue, 1).await.unwrap());
    // These servers let a name be used again at once.
    knowing().await.send(queue, messages(25), NOW).await.unwrap();
    assert_eq!(
        there.depth(queue, Reader::Role, NOW).await.unwrap(),
        Depth { visible: 25, hidden: 0, at_least: false }
    );
}

async fn a_queue_is_called_empty_once_it_was_so_for_a_while(world: OnSqs) {
    let (queue, queues) = (run_queue(), world.queues());
    let after = |s: i64| Timestamp(NOW.0 + s * 1_000);
    for (s, empty) in [(0, false), (30, false), (60, true)] {
        assert_eq!(
            queues.emptiness(queue, after(s)).await.unwrap() == Emptiness::Empty,
            empty,
            "there is no such queue: {s}"
        );
    }
    queues.send(queue, messages(1), NOW).await.unwrap();
    assert_ne!(queues.emptiness(queue, after(61)).await.unwrap(), Emptiness::Empty);
    let held = queues.receive(queue, 1, LONG, NOW).await.unwrap().remove(0).receipt;
    assert_ne!(queues.emptiness(queue, after(121)).await.unwrap(), Emptiness::Empty, "what is hidden counts");
    queues.ack(queue, vec![held]).await.unwrap();
    for (s, empty) in [(130, false), (170, false), (190, true)] {
        assert_eq!(queues.emptiness(queue, after(s)).await.unwrap() == Emptiness::Empty, empty, "{s}");
    }
    let settings = Settings { queue_empty_after: Duration::ZERO, ..world.settings.clone() };
    let exact = Queues::new(world.sqs.clone(), &settings);
    assert_eq!(exact.emptiness(queue, NOW).await.unwrap(), Emptiness::Empty);
}
