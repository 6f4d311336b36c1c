//! Whoever delivers may end at any point, and there may be several.

use crate::receiver::{Receiver, Reply};
use crate::world::World;
use conveyor_domain::{DeliveryState, limits};

/// What is left of a deliverer that sent, and did not live to write down what came of it.
#[tokio::test]
async fn a_crash_after_sending_sends_again_under_the_same_id() {
    let (world, receiver) = (World::new(), Receiver::new([Reply::Never]).await);
    let key = world.completed(&receiver.url, false).await;
    let notifier = world.notifier.clone();
    let ended = tokio::spawn(async move { notifier.deliver_due().await });
    receiver.came().await;
    ended.abort();
    assert!(ended.await.unwrap_err().is_cancelled());
    assert_eq!(world.deliver().await, 0, "it may still be under way");
    world.pass(limits::DELIVERY_LEASE);
    assert_eq!(world.deliver().await, 1);
    let delivery = world.delivery(key).await;
    assert_eq!((delivery.state, delivery.attempts_made), (DeliveryState::Delivered, 2));
    assert_eq!(delivery.attempts[0].ended, None, "nobody knows what came of it");
    let heard = receiver.heard();
    assert_eq!(heard[0].headers["webhook-id"], heard[1].headers["webhook-id"]);
    assert_eq!(heard[0].body, heard[1].body);
}

#[tokio::test]
async fn two_who_find_the_same_send_it_once() {
    let (world, receiver) = (World::new(), Receiver::new([]).await);
    let key = world.completed(&receiver.url, false).await;
    let record = world.records(key).await.remove(0);
    let (first, second) =
        tokio::join!(world.notifier.deliver(record.clone()), world.notifier.deliver(record));
    first.unwrap();
    second.unwrap();
    assert_eq!(receiver.heard().len(), 1);
    assert_eq!(world.delivery(key).await.attempts_made, 1);
}

#[tokio::test]
async fn a_record_that_nobody_can_read_is_left_alone() {
    use conveyor_domain::RecordWrite;
    use conveyor_domain::job::record::Expected;
    let (world, receiver) = (World::new(), Receiver::new([]).await);
    let key = world.completed(&receiver.url, false).await;
    let mut record = world.records(key).await.remove(0);
    record.doc = "{}".to_owned();
    assert!(world.backend.store.write_record(RecordWrite::put(record, Expected::Anything)).await.unwrap());
    assert_eq!(world.deliver().await, 1);
    assert_eq!(world.deliver().await, 0, "it is in nobody's way");
}
