//! Many seeds at once. Each is played alone on its own thread, runtime and directory; only the order in which they end is
//! left to the machine.

use crate::driver::play;
use crate::settings::Settings;
use crate::tally::Summary;
use crate::violation::Failure;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// Plays every seed and hands each outcome over as it comes.
pub fn play_many(
    seeds: Range<u64>,
    threads: u64,
    settings: Settings,
    mut done: impl FnMut(Result<Summary, Box<Failure>>),
) {
    let next = AtomicU64::new(seeds.start);
    std::thread::scope(|scope| {
        let (outcomes, played) = mpsc::channel();
        for _ in 0..threads.max(1) {
            let (outcomes, next) = (outcomes.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || outcomes.send(play(seed, settings)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(outcomes);
        played.iter().for_each(&mut done);
    });
}
