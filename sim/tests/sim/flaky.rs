//! In calm weather the faulty backend is the backend: it passes the same rules.

use async_trait::async_trait;
use conveyor_sim::clock::BEGIN;
use conveyor_sim::dice::Dice;
use conveyor_sim::disk::Disk;
use conveyor_sim::faults::Weather;
use conveyor_sim::flaky::flaky;
use conveyor_sim::settings::Faults;
use conveyor_sim::trace::Trace;
use conveyor_store::Backend;
use conveyor_store::conformance::Harness;
use std::sync::Arc;

struct Calm(Disk);

#[async_trait]
impl Harness for Calm {
    fn backend(&self) -> Backend {
        let weather = Weather::new(Faults::NONE, Arc::new(Dice::new(0)), Trace::new(BEGIN, false));
        flaky(self.0.backend(), Arc::new(weather))
    }

    async fn crash(&self) -> Box<dyn Harness> {
        Box::new(Calm(self.0.killed_and_started_again(BEGIN).unwrap()))
    }
}

conveyor_store::conformance_suite!(Calm(Disk::new(BEGIN).unwrap()));
