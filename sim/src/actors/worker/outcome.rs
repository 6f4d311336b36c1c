//! How the work on a task ends: what a gateway would have answered, drawn.

use super::CLAIMS_MAX;
use crate::world::World;
use conveyor_domain::{FailureClass, Outcome, Problem, ResultRef, RetryPolicy};
use conveyor_store::port::ClaimedTask;

#[derive(Clone, Copy, Debug)]
pub enum End {
    Success {
        with_body: bool,
    },
    Failure,
    /// Worth another attempt, if there are any left.
    Trouble,
    Release,
    /// The account cannot pay: not this task's fault.
    Account,
    /// Too many workers died on it.
    Abandoned,
}

pub fn draw(world: &World, exhausted: bool) -> End {
    if exhausted {
        return End::Abandoned;
    }
    // The account is not emptied while the simulation waits for everything to end well.
    let account = u32::from(!world.weather.is_calm());
    let ends = [
        (120, End::Success { with_body: false }),
        (40, End::Success { with_body: true }),
        (30, End::Failure),
        (40, End::Trouble),
        (15, End::Release),
        (account, End::Account),
    ];
    world.dice.weighted(&ends).unwrap_or(End::Release)
}

pub fn of(world: &World, claimed: &ClaimedTask, end: End, result: ResultRef) -> Outcome {
    let class = world.dice.pick(&FailureClass::ALL).copied().unwrap_or(FailureClass::Other);
    // The auditors read the class off the row, to compare it with the one that was counted.
    let problem = Problem::new(500, class.as_str(), "Simulated");
    match end {
        End::Success { .. } => Outcome::Successful(result),
        End::Failure => Outcome::Failed { class, problem },
        End::Trouble => {
            let policy = RetryPolicy::default();
            match policy.next_attempt(claimed.attempt, None, world.now(), world.dice.entropy()) {
                Some(not_before) => Outcome::Retry { problem, not_before },
                None => Outcome::Failed { class, problem },
            }
        }
        End::Release | End::Account => Outcome::Release,
        End::Abandoned => {
            let problem = Problem::new(500, "task_abandoned", "The task was given up")
                .with_detail(format!("It was started {CLAIMS_MAX} times."));
            Outcome::Failed { class: FailureClass::Other, problem }
        }
    }
}
