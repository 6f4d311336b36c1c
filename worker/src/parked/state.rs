//! What is parked: messages by run and by the domains that they draw on, and how many there may be.

use crate::Worker;
use crate::budgets::{Need, Share};
use crate::context::RunContext;
use crate::prediction::Sites;
use conveyor_domain::dispatch::grant::Scope;
use conveyor_domain::{CallerId, RunId, Timestamp, limits};
use conveyor_store::port::{Delivery, Receipt};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

#[derive(Debug)]
pub struct Parked {
    pub delivery: Delivery,
    pub since: Instant,
    /// Its queue hides it at least until then.
    pub hidden_until: Instant,
    /// Names the extension that is under way and may change its receipt: meanwhile it counts, and is not touched.
    pub extension: Option<u64>,
}

/// Messages of a run, each under the name of its extension.
type ToExtend = (Arc<RunContext>, Vec<(u64, Receipt)>);

/// What became of the extension of one message.
#[derive(Debug)]
pub enum Extended {
    Until(Instant, Receipt),
    /// It is not hidden any more.
    Gone,
    /// It stays: a claim decides, also if it has come back meanwhile.
    Unknown,
}

/// Messages of a run that draw on the same domains.
#[derive(Debug)]
pub struct Group {
    pub sites: Sites,
    pub shares: Vec<Arc<Share>>,
    pub messages: VecDeque<Parked>,
}

#[derive(Debug)]
pub struct OfRun {
    pub context: Arc<RunContext>,
    /// The first one is served first, then moves to the end.
    pub groups: VecDeque<Group>,
    /// Its job has no room: its messages are in nobody's way.
    pub stalled: bool,
}

#[derive(Debug, Default)]
pub struct State {
    pub runs: HashMap<RunId, OfRun>,
    by_caller: HashMap<CallerId, u32>,
    by_site: HashMap<Scope, HashMap<RunId, u32>>,
    /// Callers that had no room left: they get some when a quarter is free, so that receives bring more than one message.
    full: HashSet<CallerId>,
    count: u32,
    extensions: u64,
}

impl Group {
    /// Those that may be touched.
    fn waiting(&self) -> u32 {
        let waiting = self.messages.iter().filter(|parked| parked.extension.is_none()).count();
        u32::try_from(waiting).unwrap_or(u32::MAX)
    }

    /// The place of the first one that may be touched.
    pub fn next(&self) -> Option<usize> {
        self.messages.iter().position(|parked| parked.extension.is_none())
    }

    /// How many of its messages could start now.
    pub fn room(&self, now: Timestamp) -> u32 {
        let rooms = self.shares.iter().zip(&self.sites).map(|(share, (_, limits))| {
            share.learn(*limits);
            share.room(now)
        });
        rooms.fold(self.waiting(), u32::min)
    }

    /// Asks for more starts if there could be, for at most so many messages. Returns how many the answers may bring.
    /// `meet` is the job's next start if its rate is strict: a start of a strict rate has to be at about that moment, or
    /// both are lost, and so are those after them. So it is asked for only then, when its bucket is full.
    pub fn ask(&self, worker: &Arc<Worker>, tasks: &TaskTracker, most: u32, meet: Option<Instant>) -> u32 {
        let wanted = self.waiting().min(most);
        let asked = self.shares.iter().filter(|share| {
            if let Some(meet) = meet.filter(|_| share.is_strict()) {
                if !share.may_start_by(meet + limits::START_LATE_MIN) {
                    return false;
                }
                if Instant::now() + limits::START_LATE_MIN < meet {
                    return true;
                }
            }
            let most = share.used().saturating_add(wanted);
            share.want_more(worker, tasks, Need { most, waiting: wanted, ahead: false });
            share.is_asking()
        });
        // All of them: what one has no start for needs none of the others, but that is known only by its answer.
        asked.map(|share| share.answer_max().min(wanted)).max().unwrap_or(0)
    }
}

impl State {
    fn of(&self, caller: CallerId) -> u32 {
        self.by_caller.get(&caller).copied().unwrap_or(0)
    }

    /// How many more a caller may park. Dynamic threshold (SPEC 6.28): only while it has fewer than are free.
    pub fn room(&mut self, caller: CallerId) -> u32 {
        let (own, free) = (self.of(caller), limits::PARKED_MAX.saturating_sub(self.count));
        // Each one that is parked is one more here, and one less there.
        let by_threshold = free.saturating_sub(own).div_ceil(2);
        let room = limits::PARKED_CALLER_MAX.saturating_sub(own).min(by_threshold);
        if room == 0 {
            self.full.insert(caller);
        } else if room >= own.saturating_add(room) / 4 {
            self.full.remove(&caller);
        }
        if self.full.contains(&caller) { 0 } else { room }
    }

    /// Whether one more may be parked: what is on its way when the room ends still fits.
    pub fn has_room(&self, caller: CallerId) -> bool {
        let (own, most) = (self.of(caller), |max: u32| max + max / 4);
        own < most(limits::PARKED_CALLER_MAX) && own < most(limits::PARKED_MAX).saturating_sub(self.count)
    }

    /// All that wait for a site.
    pub fn waiting_for(&self, scope: &Scope) -> u32 {
        self.by_site.get(scope).map_or(0, |runs| runs.values().sum())
    }

    /// Those that wait for a site, and for nothing else.
    pub fn ahead_at(&self, scope: &Scope) -> u32 {
        let runs = self.by_site.get(scope).into_iter().flatten();
        let stalled = |run: &RunId| self.runs.get(run).is_some_and(|of_run| of_run.stalled);
        runs.filter(|(run, _)| !stalled(run)).map(|(_, count)| *count).sum()
    }

    fn count(&mut self, run: &RunContext, sites: &Sites) {
        self.count += 1;
        *self.by_caller.entry(run.job.caller).or_default() += 1;
        for (scope, _) in sites {
            *self.by_site.entry(scope.clone()).or_default().entry(run.key.run).or_default() += 1;
        }
        metrics::gauge!("conveyor_messages_parked").increment(1.0);
    }

    pub fn uncount(&mut self, run: &RunContext, sites: &Sites) {
        fn less<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
            let left = counts.get_mut(key).map_or(0, |count| {
                *count -= 1;
                *count
            });
            if left == 0 {
                counts.remove(key);
            }
        }
        self.count -= 1;
        less(&mut self.by_caller, &run.job.caller);
        for (scope, _) in sites {
            let Some(runs) = self.by_site.get_mut(scope) else { continue };
            less(runs, &run.key.run);
            if runs.is_empty() {
                self.by_site.remove(scope);
            }
        }
        metrics::gauge!("conveyor_messages_parked").decrement(1.0);
    }

    /// Parks messages of a run. If it is known under another job by now, or was forgotten and found again, their next
    /// claims find out where they go.
    pub fn add(&mut self, run: &Arc<RunContext>, sites: Sites, shares: Vec<Arc<Share>>, parked: Parked) {
        let of_run = self.runs.entry(run.key.run).or_insert_with(|| OfRun {
            context: run.clone(),
            groups: VecDeque::new(),
            stalled: false,
        });
        let (sites, shares) = match Arc::ptr_eq(&of_run.context, run) {
            true => (sites, shares),
            false => (Sites::new(), Vec::new()),
        };
        of_run.context.take_over(run, 1);
        let place = of_run.groups.iter().position(|group| group.sites == sites).unwrap_or_else(|| {
            of_run.groups.push_back(Group { sites: sites.clone(), shares, messages: VecDeque::new() });
            of_run.groups.len() - 1
        });
        of_run.groups[place].messages.push_back(parked);
        self.count(run, &sites);
    }

    /// The run as it is known now. If that is news, the next claims of its messages find out where they go. True if it has
    /// any.
    pub fn renew(&mut self, run: &Arc<RunContext>) -> bool {
        let Some(known) = self.runs.get(&run.key.run) else { return false };
        if !Arc::ptr_eq(&known.context, run)
            && let Some(OfRun { context, groups, .. }) = self.runs.remove(&run.key.run)
        {
            for Group { sites, messages, .. } in groups {
                for parked in messages {
                    self.uncount(run, &sites);
                    run.take_over(&context, 1);
                    self.add(run, Sites::new(), Vec::new(), parked);
                }
            }
        }
        true
    }

    /// Begins to extend those messages of a run that its queue would show again before this.
    pub fn extend(&mut self, run: RunId, soon: Instant) -> Option<ToExtend> {
        let of_run = self.runs.get_mut(&run)?;
        let messages = of_run.groups.iter_mut().flat_map(|group| &mut group.messages);
        let due = messages.filter(|parked| parked.extension.is_none() && parked.hidden_until < soon);
        let due = due.map(|parked| {
            self.extensions += 1;
            parked.extension = Some(self.extensions);
            (self.extensions, parked.delivery.receipt.clone())
        });
        let due: Vec<(u64, Receipt)> = due.collect();
        (!due.is_empty()).then(|| (of_run.context.clone(), due))
    }

    pub fn forget_extensions(&mut self) {
        let groups = self.runs.values_mut().flat_map(|of_run| &mut of_run.groups);
        groups.flat_map(|group| &mut group.messages).for_each(|parked| parked.extension = None);
    }

    pub fn extended(&mut self, run: RunId, mut answers: HashMap<u64, Extended>) {
        let Some(of_run) = self.runs.get_mut(&run) else { return };
        let (context, mut gone) = (of_run.context.clone(), Vec::new());
        for Group { sites, messages, .. } in &mut of_run.groups {
            messages.retain_mut(|parked| {
                let Some(answer) = parked.extension.and_then(|name| answers.remove(&name)) else {
                    return true;
                };
                parked.extension = None;
                match answer {
                    Extended::Until(at, receipt) => {
                        (parked.hidden_until, parked.delivery.receipt) = (at, receipt);
                    }
                    Extended::Unknown => {}
                    Extended::Gone => {
                        gone.push(sites.clone());
                        return false;
                    }
                }
                true
            });
        }
        context.let_go(u32::try_from(gone.len()).unwrap_or(u32::MAX));
        gone.iter().for_each(|sites| self.uncount(&context, sites));
        self.tidy(run);
    }

    /// Takes out those that fit, by run.
    pub fn leave(&mut self, fits: impl Fn(RunId, &Parked) -> bool) -> Vec<(Arc<RunContext>, Vec<Receipt>)> {
        let (mut left, mut counted) = (Vec::new(), Vec::new());
        for (run, of_run) in &mut self.runs {
            let mut receipts = Vec::new();
            for Group { sites, messages, .. } in &mut of_run.groups {
                messages.retain(|parked| {
                    let stays = !fits(*run, parked);
                    if !stays {
                        receipts.push(parked.delivery.receipt.clone());
                        counted.push((of_run.context.clone(), sites.clone()));
                    }
                    stays
                });
            }
            if !receipts.is_empty() {
                left.push((of_run.context.clone(), receipts));
            }
        }
        counted.iter().for_each(|(run, sites)| self.uncount(run, sites));
        left.iter().for_each(|(run, _)| self.tidy(run.key.run));
        left
    }

    /// Drops groups that have nothing left, and with them their hold on a share.
    pub fn tidy(&mut self, run: RunId) {
        let Some(of_run) = self.runs.get_mut(&run) else { return };
        of_run.groups.retain(|group| !group.messages.is_empty());
        if of_run.groups.is_empty() {
            self.runs.remove(&run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::dispatch::grant::Limits;
    use conveyor_domain::{JobId, JobSpec, lifecycle};

    fn caller(n: u8) -> CallerId {
        CallerId::from_bytes([n; 16])
    }

    fn context(caller: CallerId, n: u8) -> Arc<RunContext> {
        let (job, run) = (JobId::from_bytes([n; 16]), RunId::from_bytes([n; 16]));
        let rows = lifecycle::submit(job, run, caller, JobSpec::default(), false, 0, Timestamp(0));
        Arc::new(RunContext::of(rows.job, run))
    }

    /// Of a caller that has one.
    fn run_of(n: u8) -> Arc<RunContext> {
        context(caller(n), n)
    }

    #[test]
    fn a_caller_that_is_full_gets_room_again_when_a_quarter_is_free() {
        let (mut state, sites) = (State::default(), Sites::new());
        let (max, quarter) = (limits::PARKED_CALLER_MAX, limits::PARKED_CALLER_MAX / 4);
        (0..max - 1).for_each(|_| state.count(&run_of(1), &sites));
        assert_eq!((state.room(caller(1)), state.room(caller(2))), (1, max));
        state.count(&run_of(1), &sites);
        assert_eq!(state.room(caller(1)), 0);
        (1..quarter).for_each(|_| state.uncount(&run_of(1), &sites));
        assert_eq!(state.room(caller(1)), 0, "receives would bring one message each");
        state.uncount(&run_of(1), &sites);
        assert_eq!(state.room(caller(1)), quarter);
    }

    #[test]
    fn callers_that_park_all_they_may_leave_room_for_the_next() {
        let (mut state, sites) = (State::default(), Sites::new());
        for n in 1..=12 {
            let room = state.room(caller(n));
            assert!(room > 0, "caller {n} finds {} parked", state.count);
            (0..room.min(1_000)).for_each(|_| state.count(&run_of(n), &sites));
            assert!(state.count <= limits::PARKED_MAX && state.has_room(caller(n + 1)));
        }
        assert_eq!(state.room(caller(1)), 0, "it has more than are free");
    }

    fn parked(state: &mut State, run: &Arc<RunContext>, sites: &Sites, receipt: &str) {
        let now = Instant::now();
        let delivery = Delivery { body: String::new(), receipt: Receipt(receipt.to_owned()), receives: 1 };
        run.hold(1);
        let parked = Parked { delivery, since: now, hidden_until: now, extension: None };
        state.add(run, sites.clone(), Vec::new(), parked);
    }

    fn slow() -> Sites {
        let limits = Limits { max_inflight: Some(1), ..Limits::default() };
        vec![(Scope::Domain(caller(1), "slow.example".to_owned()), limits)]
    }

    fn sites_of(state: &State, run: &RunContext) -> Vec<(Sites, usize)> {
        let groups = state.runs[&run.key.run].groups.iter();
        groups.map(|group| (group.sites.clone(), group.messages.len())).collect()
    }

    /// Whatever is parked, extended or on its way to be parked when the job changes.
    #[tokio::test(start_paused = true)]
    async fn no_message_keeps_the_limits_of_a_job_that_has_changed() {
        let (mut state, before) = (State::default(), run_of(1));
        parked(&mut state, &before, &slow(), "a");
        parked(&mut state, &before, &slow(), "b");
        assert_eq!(sites_of(&state, &before), [(slow(), 2)]);
        let soon = Instant::now() + limits::VISIBILITY;
        let (_, extending) = state.extend(before.key.run, soon).unwrap();
        let after = Arc::new(before.with_job(before.job.clone()));
        assert!(state.renew(&after));
        parked(&mut state, &before, &slow(), "late");
        let answers = extending.into_iter().map(|(name, receipt)| (name, Extended::Until(soon, receipt)));
        state.extended(before.key.run, answers.collect());
        assert_eq!(sites_of(&state, &before), [(Sites::new(), 3)]);
        assert_eq!((state.by_site.len(), state.of(caller(1))), (0, 3));
        // The last that the worker heard of the job counts, also if nothing was parked at that moment.
        state.leave(|_, _| true);
        parked(&mut state, &before, &slow(), "later");
        assert!(state.renew(&after));
        assert_eq!(sites_of(&state, &before), [(Sites::new(), 1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_extended_counts_and_is_not_touched() {
        let (mut state, run) = (State::default(), run_of(1));
        for receipt in ["a", "b", "c"] {
            parked(&mut state, &run, &slow(), receipt);
        }
        let soon = Instant::now() + limits::VISIBILITY;
        let (_, extending) = state.extend(run.key.run, soon).unwrap();
        assert_eq!(extending.len(), 3);
        assert!(state.extend(run.key.run, soon).is_none(), "it is under way");
        parked(&mut state, &run, &slow(), "d");
        assert_eq!((state.of(caller(1)), state.waiting_for(&slow()[0].0)), (4, 4));
        let group = &state.runs[&run.key.run].groups[0];
        assert_eq!((group.next(), group.waiting()), (Some(3), 1), "a fresh one may go");
        let answer = |receipt: Receipt| match receipt.0.as_str() {
            "a" => Extended::Until(soon, Receipt("new".to_owned())),
            "b" => Extended::Gone,
            _ => Extended::Unknown,
        };
        let answers = extending.into_iter().map(|(name, receipt)| (name, answer(receipt)));
        state.extended(run.key.run, answers.collect());
        assert_eq!((state.of(caller(1)), state.waiting_for(&slow()[0].0)), (3, 3));
        let left = state.leave(|_, parked| parked.extension.is_none());
        let receipts: Vec<&str> = left[0].1.iter().map(|receipt| receipt.0.as_str()).collect();
        assert_eq!(receipts, ["new", "c", "d"]);
        run.let_go(3);
        assert!(!run.holds_any() && state.runs.is_empty());
    }

    /// It is forgotten and found again while its messages are here.
    #[tokio::test(start_paused = true)]
    async fn whoever_knows_a_run_holds_its_messages() {
        let (mut state, forgotten, found) = (State::default(), run_of(1), run_of(1));
        parked(&mut state, &forgotten, &slow(), "a");
        assert!(state.renew(&found));
        parked(&mut state, &forgotten, &slow(), "b");
        assert!(!forgotten.holds_any());
        found.let_go(1);
        assert!(found.holds_any());
        found.let_go(1);
        assert!(!found.holds_any());
    }

    #[tokio::test(start_paused = true)]
    async fn messages_whose_job_has_no_room_are_in_nobodys_way() {
        let (mut state, one, other) = (State::default(), context(caller(1), 1), context(caller(1), 2));
        let site = &slow()[0].0;
        parked(&mut state, &one, &slow(), "a");
        parked(&mut state, &other, &slow(), "b");
        state.runs.get_mut(&one.key.run).unwrap().stalled = true;
        assert_eq!((state.waiting_for(site), state.ahead_at(site)), (2, 1));
        state.leave(|run, _| run == other.key.run);
        assert_eq!((state.waiting_for(site), state.ahead_at(site)), (1, 0));
        state.runs.get_mut(&one.key.run).unwrap().stalled = false;
        assert_eq!(state.ahead_at(site), 1);
    }
}
