//! Callers take turns, and receivers that answer never wait for those that hang.

use crate::receiver::Receiver;
use crate::world::{CALLER, World};
use conveyor_domain::CallerId;
use conveyor_notify::Receivers;
use conveyor_store::port::RunKey;
use conveyor_testkit::until;
use futures::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const OTHER: CallerId = CallerId::from_bytes([4; 16]);
const HANGING: usize = 200;
const HEALTHY: usize = 5;

/// Takes connections, and says nothing.
struct Silence {
    address: String,
    connections: Arc<AtomicUsize>,
}

impl Silence {
    async fn new() -> Silence {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, connections) =
            (listener.local_addr().unwrap().to_string(), Arc::<AtomicUsize>::default());
        let counted = connections.clone();
        tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                held.push(connection);
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Silence { address, connections }
    }

    /// Notifications of one caller, each to a receiver of its own.
    async fn hang(&self, world: &World, from: usize) -> Vec<RunKey> {
        let urls = (from..from + HANGING).map(|n| format!("http://{}/{n}", self.address));
        join_all(urls.map(async |url| world.completed(&url, false).await)).await
    }
}

async fn healthy(world: &World, caller: CallerId, receiver: &Receiver) {
    join_all((0..HEALTHY).map(|_| world.completed_of(caller, &receiver.url, false))).await;
}

/// 64 places for everybody made the last of them wait for the timeouts of all that hung before it.
#[tokio::test]
async fn receivers_that_answer_do_not_wait_for_those_that_hang() {
    // Longer than the test: what hangs, hangs.
    let world = World::with(Receivers::new(true).unwrap().within(Duration::from_secs(3_600)));
    let (silence, own, others) = (Silence::new().await, Receiver::new([]).await, Receiver::new([]).await);
    let mut hanging = silence.hang(&world, 0).await;
    healthy(&world, CALLER, &own).await;
    let running = tokio::spawn(conveyor_notify::run(world.notifier.clone(), CancellationToken::new()));
    until("the caller's own receiver has heard all", async || own.heard().len() == HEALTHY).await;
    until("all that can hang do", async || silence.connections.load(Ordering::SeqCst) == HANGING).await;

    // More than one caller has places for.
    hanging.extend(silence.hang(&world, HANGING).await);
    until("the caller has no place left", async || silence.connections.load(Ordering::SeqCst) > HANGING)
        .await;
    healthy(&world, OTHER, &others).await;
    until("another caller's receiver has heard all", async || others.heard().len() == HEALTHY).await;
    for key in hanging {
        let ended = world.delivery(key).await.attempts.iter().any(|attempt| attempt.ended.is_some());
        assert!(!ended, "it was never waited for");
    }
    running.abort();
}

/// A backlog that is longer than what one look reads must not hide what others have.
#[tokio::test]
async fn a_backlog_of_one_caller_does_not_hide_the_others() {
    let world = World::with(Receivers::new(true).unwrap().within(Duration::from_secs(3_600)));
    let (silence, others) = (Silence::new().await, Receiver::new([]).await);
    // One receiver: most of these wait.
    let url = format!("http://{}/hook", silence.address);
    join_all((0..4 * HANGING).map(|_| world.completed(&url, false))).await;
    healthy(&world, OTHER, &others).await;
    let running = tokio::spawn(conveyor_notify::run(world.notifier.clone(), CancellationToken::new()));
    until("another caller's receiver has heard all", async || others.heard().len() == HEALTHY).await;
    let tried = silence.connections.load(Ordering::SeqCst);
    assert!(
        tried <= conveyor_domain::limits::DELIVERIES_OF_NEW_RECEIVER_MAX,
        "{tried} at once to one receiver"
    );
    running.abort();
}
