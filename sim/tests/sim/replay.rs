//! One seed is one history: nothing but the seed and the settings decides what happens.

use conveyor_sim::{Settings, Simulation};

async fn trace_of(seed: u64) -> (Vec<String>, u64) {
    let settings = Settings { keep_trace: true, ..Settings::new(300) };
    let mut simulation = Simulation::new(seed, settings).unwrap();
    simulation.run().await.unwrap_or_else(|failure| panic!("{failure}"));
    (simulation.world.trace.lines(), simulation.summary().trace_hash)
}

#[tokio::test]
async fn a_seed_replays_exactly() {
    let (first, first_hash) = trace_of(11).await;
    let (second, second_hash) = trace_of(11).await;
    // Line by line before the hash: the first line that differs says where chance came in from outside.
    for (a, b) in first.iter().zip(&second) {
        assert_eq!(a, b);
    }
    assert_eq!((first.len(), first_hash), (second.len(), second_hash));
    assert!(first.len() > 300);
}

#[tokio::test]
async fn another_seed_is_another_history() {
    assert_ne!(trace_of(1).await.1, trace_of(2).await.1);
}
