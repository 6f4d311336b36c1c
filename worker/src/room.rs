//! How much of a run could begin now, by every budget that it draws on (SPEC 6.7, 8).

use crate::batch::{Room, Shared};
use crate::budgets::{Need, Use};
use crate::runs::KnownRun;
use crate::slot::{Slots, most_of_caller};
use conveyor_domain::{Timestamp, limits};

/// What a run could begin now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// Messages that wait here and whose domains have room.
    pub parked: u32,
    /// Those whose domains were asked: what is received is not to take their place.
    pub asked: u32,
    /// Messages to receive.
    pub fresh: u32,
}

/// Whatever a job's queue may have. Not only for the slots that are free now: more will be by the time of the answer.
fn any(shared: &Shared) -> Need {
    Need { most: most_of_caller(shared.worker.config.slots), waiting: 0, ahead: true }
}

/// How many parked messages of a run could start now, at most `most`.
pub fn parked_room(shared: &Shared, known: &KnownRun, most: u32, now: Timestamp) -> Plan {
    let run = &known.context;
    if !shared.parking.has_any(run) {
        return Plan::default();
    }
    let share = shared.budgets.share(&run.scope(), run.job.spec.limits());
    let room = share.room(now).min(most);
    // Then a start of a domain would be of no use.
    let stalled = room == 0 && !share.may_have_room(any(shared), now);
    shared.parking.stall(run.key.run, stalled);
    if stalled {
        return Plan::default();
    }
    // The job is asked only once one of them could start: a run that only waits costs no write.
    let (of_worker, most) = ((&shared.worker, &shared.tasks), (room.max(1), share.strict_start()));
    let (startable, asked) = shared.parking.startable(of_worker, run.key.run, most, now);
    if startable > 0 {
        share.want_more(&shared.worker, &shared.tasks, any(shared));
    }
    Plan { parked: startable.min(room), asked: asked.min(room), fresh: 0 }
}

/// Whether a run has room, or could be granted some if it asked.
pub fn may_have_room(shared: &Shared, known: &KnownRun) -> bool {
    let Some(share) = shared.budgets.find(&known.context.scope()) else { return true };
    share.learn(known.context.job.spec.limits());
    share.may_have_room(any(shared), shared.worker.clock.now()) || !shared.worker.config.gate
}

/// How many messages of a run could start now; asks for more where there could be.
pub fn room_of(shared: &Shared, known: &mut KnownRun, free: u32, now: Timestamp) -> u32 {
    let run = &known.context;
    let share = shared.budgets.share(&run.scope(), run.job.spec.limits());
    share.want_more(&shared.worker, &shared.tasks, any(shared));
    if !shared.worker.config.gate {
        return free;
    }
    let mut room = share.room(now).min(free);
    let has_sites = !shared.worker.config.domain_limits.is_empty() || !run.job.spec.domain_limits.is_empty();
    if room == 0 || !has_sites {
        return room;
    }
    let mut elsewhere = shared.parking.room(run.job.caller);
    for (scope, limits) in known.prediction.sites() {
        let site = shared.budgets.share(scope, *limits);
        let most = site.used().saturating_add(room);
        site.want_more(&shared.worker, &shared.tasks, Need { most, waiting: 0, ahead: true });
        // Those that wait here already go first.
        let ahead = shared.parking.ahead_at(scope);
        elsewhere = elsewhere.min(if ahead > 0 { 0 } else { site.room(now) });
    }
    room = room.min(elsewhere);
    if known.prediction.doubts(room > 0) { 1 } else { room }
}

/// Whether a receive should wait for more room to bring more at once.
pub fn lingers(shared: &Shared, known: &KnownRun, room: u32) -> bool {
    // Where a receive has its price however little it brings, calls that are over at once are worth waiting for.
    (1..shared.worker.backend.capabilities.receive_batch).contains(&(room as usize))
        && known.context.holds_any()
        && known.context.usual_call() < limits::RECEIVE_LINGER
        && !known.receives.waited_for_more()
}

pub fn take_room(shared: &Shared, slots: &Slots, known: &mut KnownRun, now: Timestamp) -> Option<Room> {
    let slot = slots.take(known.context.job.caller)?;
    if !shared.worker.config.gate {
        return Some(Room { slot, permit: None, sites: Vec::new() });
    }
    let permit = shared.budgets.find(&known.context.scope())?.take(now)?;
    let sites = known.prediction.sites().iter().map(|(scope, _)| shared.budgets.find(scope)?.take(now));
    // Another run may have taken what there was; a message that is only to try needs nothing.
    let sites = sites.collect::<Option<Vec<Use>>>();
    let sites = sites.or_else(|| known.prediction.is_tried().then(Vec::new))?;
    Some(Room { slot, permit: Some(permit), sites })
}
