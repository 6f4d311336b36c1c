//! Today's binary takes over what earlier versions stored. The fixtures in `tests/fixtures` are crash images of a version,
//! with live jobs of every kind in them; `tests/fixtures/README.md` says how they were made.
//!
//! Images age, and so much of Conveyor depends on the time that an old image would prove little. So every time in an image
//! is moved before it is taken over: once to five minutes ago, a crash and a restart, and once to 400 days ago, when
//! everything that expires has expired.

mod aws;
mod caller;
mod checks;
mod documents;
mod dump;
mod embedded;
mod extras;
mod fixture;
mod outside;
mod times;

use fixture::{Age, Fixture};
use outside::Outside;

/// What the tests work on: a fixture, the servers that took it over, and what these talk to.
#[derive(Debug)]
pub struct Taken {
    pub fixture: Fixture,
    pub age: Age,
    pub outside: Outside,
    /// Of the API.
    pub url: String,
}

async fn everything_is_there(taken: &Taken) {
    checks::callers_are_separate(taken).await;
    checks::every_job(taken).await;
    match taken.age {
        Age::Fresh => extras::of_a_fresh_image(taken).await,
        Age::Old => extras::of_an_old_image(taken).await,
    }
    checks::only_what_was_unfinished_was_fetched(taken);
}
