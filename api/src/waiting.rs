//! Why nothing of a job is started right now (SPEC 10). Decided by what one look saw; the first reason that fits is told.

use conveyor_domain::{BudgetView, DomainWait, Job, RunStatus, Timestamp};
use conveyor_store::port::{Depth, RunView};
use conveyor_wire::{IngestState as ListState, WaitingReason as Reason};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub reason: Reason,
    pub until: Option<Timestamp>,
    /// A sentence for a person.
    pub detail: String,
}

impl Waiting {
    fn new(reason: Reason, detail: impl Into<String>) -> Waiting {
        Waiting { reason, until: None, detail: detail.into() }
    }

    fn until(reason: Reason, until: Timestamp, detail: impl Into<String>) -> Waiting {
        Waiting { reason, until: Some(until), detail: detail.into() }
    }

    fn for_domain(DomainWait { domain, until }: &DomainWait) -> Waiting {
        let detail = format!("Tasks wait for {domain}: its limits are used up until {until}.");
        Waiting::until(Reason::DomainBudget, *until, detail)
    }

    /// `depth` is that of the queue of the latest run, `list` how far its list is, if it is looked at.
    pub fn of(
        (job, latest): (&Job, &RunView),
        depth: Depth,
        budget: &BudgetView,
        list: Option<ListState>,
        now: Timestamp,
    ) -> Waiting {
        let run = &latest.run;
        if run.status.is_terminal() {
            return Waiting::new(Reason::Ended, format!("The run has ended: it is {}.", run.status.as_str()));
        }
        if run.paused {
            let detail = "The run is paused: nothing is started until it is resumed.";
            return Waiting::new(Reason::Paused, detail);
        }
        if run.status == RunStatus::Pending {
            return Waiting::new(Reason::Idle, "Every task so far is done; the job is open for more.");
        }
        let domain = budget.domain_wait.as_ref().filter(|wait| wait.until > now);
        // Tasks that wait for a domain are not visible in the queue: workers have parked their messages.
        let parked = domain.filter(|_| depth.visible == 0 && depth.hidden > 0);
        if depth.visible == 0 && parked.is_none() {
            let detail = nothing_queued(depth.hidden, depth.at_least, list);
            return Waiting::new(Reason::NothingQueued, detail);
        }
        if let Some(until) = budget.held_until.filter(|until| *until > now) {
            let detail =
                format!("The gateway is left alone until {until}: it asked for that, or did not answer.");
            return Waiting::until(Reason::GatewayBackoff, until, detail);
        }
        if let Some(wait) = parked {
            return Waiting::for_domain(wait);
        }
        if let (Some(rate), Some(0), Some(next)) = (budget.limits.rate, budget.tokens, budget.next_start) {
            let detail = format!("The rate of {} a second is used up until {next}.", rate.per_second());
            return Waiting::until(Reason::RateLimited, next, detail);
        }
        let (held, max_inflight) = (budget.held(), job.spec.max_inflight);
        if held >= max_inflight {
            let detail = format!("Workers hold {held} permits, and `max_inflight` is {max_inflight}.");
            return Waiting::new(Reason::Capped, detail);
        }
        if let Some(wait) = domain {
            return Waiting::for_domain(wait);
        }
        match held {
            0 => {
                let queued = tasks(depth.visible, depth.at_least);
                let detail = format!("{queued} queued, and no worker has taken permits for more.");
                Waiting::new(Reason::NoWorker, detail)
            }
            _ => Waiting::new(Reason::Working, "Workers are at it."),
        }
    }
}

fn nothing_queued(hidden: u64, at_least: bool, list: Option<ListState>) -> String {
    match (hidden, list) {
        (0, Some(ListState::Waiting)) => "Nothing is queued yet: nobody has opened the list.".to_owned(),
        (0, Some(ListState::Reading)) => "Nothing is queued yet: the list is being read.".to_owned(),
        (0, Some(ListState::Stalled)) => {
            "Nothing is queued: the list is stalled. Its message is a dead letter, which an operator can send again."
                .to_owned()
        }
        (0, Some(ListState::Done | ListState::Cut | ListState::Failed) | None) => "Nothing is queued.".to_owned(),
        (hidden, _) => {
            let hidden = tasks(hidden, at_least);
            format!("Nothing more is queued: {hidden} in flight, or wait for a retry.")
        }
    }
}

fn tasks(count: u64, at_least: bool) -> String {
    match (count, at_least) {
        (_, true) => format!("at least {count} tasks are"),
        (1, false) => "1 task is".to_owned(),
        (_, false) => format!("{count} tasks are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::dispatch::grant::{Holding, Limits};
    use conveyor_domain::job::lifecycle::Decision;
    use conveyor_domain::{CallerId, JobId, JobSpec, Rate, RunId, RunStats, WorkerId, lifecycle};
    use conveyor_store::port::RunView;

    const NOW: Timestamp = Timestamp(1_000_000);
    const LATER: Timestamp = Timestamp(1_000_500);

    /// Everything that could hold a job up at once; each test takes away what comes before its own reason.
    struct Look {
        job: Job,
        latest: RunView,
        depth: Depth,
        budget: BudgetView,
        list: Option<ListState>,
    }

    impl Look {
        fn new() -> Look {
            let spec = JobSpec { max_inflight: 2, ..JobSpec::default() };
            let (job, run) = (JobId::from_bytes([1; 16]), RunId::from_bytes([2; 16]));
            let caller = CallerId::from_bytes([3; 16]);
            let Decision { job, mut run } = lifecycle::submit(job, run, caller, spec, true, 5, NOW);
            run.paused = true;
            let stats = RunStats { total: run.total, ..RunStats::default() };
            let holding = Holding { permits: 2, expires: LATER };
            Look {
                job,
                latest: RunView { run, stats },
                depth: Depth { visible: 0, hidden: 3, at_least: false },
                list: None,
                budget: BudgetView {
                    limits: Limits { rate: Some(Rate::new(5.0, None).unwrap()), ..Limits::default() },
                    holders: vec![(WorkerId::from_bytes([4; 16]), holding)],
                    tokens: Some(0),
                    next_start: Some(LATER),
                    held_until: Some(LATER),
                    domain_wait: Some(DomainWait { domain: "example.com".to_owned(), until: LATER }),
                },
            }
        }

        fn waiting(&self) -> Waiting {
            Waiting::of((&self.job, &self.latest), self.depth, &self.budget, self.list, NOW)
        }

        #[track_caller]
        fn says(&self, reason: Reason, until: Option<Timestamp>, word: &str) {
            let waiting = self.waiting();
            assert_eq!((waiting.reason, waiting.until), (reason, until), "{waiting:?}");
            assert!(waiting.detail.contains(word) && waiting.detail.ends_with('.'), "{waiting:?}");
        }
    }

    #[test]
    fn the_first_reason_that_fits_is_told() {
        let mut look = Look::new();
        look.latest.run.status = RunStatus::Stopped;
        look.says(Reason::Ended, None, "stopped");
        look.latest.run.status = RunStatus::Pending;
        look.says(Reason::Paused, None, "resumed");
        look.latest.run.paused = false;
        look.says(Reason::Idle, None, "open for more");
        look.latest.run.status = RunStatus::Running;
        let wait = look.budget.domain_wait.take();
        look.says(Reason::NothingQueued, None, "3 tasks are in flight");
        look.budget.domain_wait = wait;
        look.depth.visible = 4;
        look.says(Reason::GatewayBackoff, Some(LATER), &LATER.to_string());
        look.budget.held_until = None;
        look.says(Reason::RateLimited, Some(LATER), "5 a second");
        look.budget.tokens = Some(1);
        look.says(Reason::Capped, None, "`max_inflight` is 2");
        look.budget.holders[0].1.permits = 1;
        look.says(Reason::DomainBudget, Some(LATER), "example.com");
        look.budget.domain_wait = None;
        look.says(Reason::Working, None, "Workers");
        look.budget.holders.clear();
        look.says(Reason::NoWorker, None, "4 tasks are queued");
    }

    #[test]
    fn what_has_passed_is_no_reason() {
        let mut look = Look::new();
        look.latest.run.paused = false;
        look.depth.visible = 1;
        look.budget.holders[0].1.permits = 1;
        look.budget.tokens = None;
        look.budget.held_until = Some(NOW);
        look.budget.domain_wait = Some(DomainWait { domain: "example.com".to_owned(), until: NOW });
        look.says(Reason::Working, None, "Workers");
    }

    #[test]
    fn an_empty_queue_says_where_its_tasks_are() {
        let mut look = Look::new();
        look.latest.run.paused = false;
        look.says(Reason::GatewayBackoff, Some(LATER), &LATER.to_string());
        look.budget.held_until = None;
        look.says(Reason::DomainBudget, Some(LATER), "example.com");
        look.budget.domain_wait = None;
        look.depth.hidden = 1;
        look.says(Reason::NothingQueued, None, "1 task is in flight, or wait for a retry");
        look.depth.hidden = 0;
        look.says(Reason::NothingQueued, None, "Nothing is queued.");
        for (list, word) in [
            (ListState::Waiting, "nobody has opened the list"),
            (ListState::Reading, "the list is being read"),
            (ListState::Stalled, "the list is stalled"),
        ] {
            look.list = Some(list);
            look.says(Reason::NothingQueued, None, word);
        }
    }
}
