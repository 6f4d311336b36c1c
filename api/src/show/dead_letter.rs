use super::Time;
use conveyor_domain::LetterId;
use conveyor_domain::repair::dead_letter::{LetterView, Redriven, Verdict};
use conveyor_wire as wire;
use conveyor_wire::{LetterOutcome, NextSweep};

pub(crate) fn letter(view: LetterView) -> wire::Letter {
    let next_sweep = match view.verdict {
        Verdict::Acknowledge => NextSweep::Acknowledge,
        Verdict::SendAgain => NextSweep::SendAgain,
        Verdict::Keep => NextSweep::Keep,
        Verdict::FailRun(_) => NextSweep::FailRun,
    };
    wire::Letter {
        letter_id: view.letter.id,
        job_id: view.job,
        run_id: view.run,
        body: view.letter.body,
        first_at: Time(view.letter.first),
        last_at: Time(view.letter.last),
        tries: view.tries,
        redrives: view.redrives,
        last_error: view.last_error,
        next_sweep: next_sweep.into(),
    }
}

pub(crate) fn letter_outcome(redriven: Option<Redriven>) -> LetterOutcome {
    match redriven {
        Some(Redriven::Sent) => LetterOutcome::Sent,
        Some(Redriven::Acknowledged) => LetterOutcome::Acknowledged,
        Some(Redriven::Refused) => LetterOutcome::RedriveLimit,
        None => LetterOutcome::Gone,
    }
}

pub(crate) fn became(letter_id: LetterId, outcome: LetterOutcome) -> wire::Became {
    wire::Became { letter_id, outcome: outcome.into(), error: None }
}
