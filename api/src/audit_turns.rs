//! Turns to audit a run: a few at once, and one of a caller, so that nobody keeps all others from theirs.

use conveyor_domain::{CallerId, limits};
use std::collections::HashSet;
use tokio::sync::watch;

/// Who has a turn.
#[derive(Debug, Default)]
pub(crate) struct AuditTurns(watch::Sender<HashSet<CallerId>>);

/// Over when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a AuditTurns,
    caller: CallerId,
}

impl AuditTurns {
    /// Waits for as long as it takes.
    pub async fn turn(&self, caller: CallerId) -> Turn<'_> {
        let mut changes = self.0.subscribe();
        let take =
            |callers: &mut HashSet<CallerId>| callers.len() < limits::AUDITS_MAX && callers.insert(caller);
        while !self.0.send_if_modified(take) {
            // Never an error: we hold the sender.
            let _ = changes.changed().await;
        }
        Turn { turns: self, caller }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.0.send_modify(|callers| {
            callers.remove(&self.caller);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn a_caller_has_one_turn_and_leaves_the_other_to_others() {
        let turns = AuditTurns::default();
        let [one, other, third] = [1, 2, 3].map(|n| CallerId::from_bytes([n; 16]));
        let first = turns.turn(one).now_or_never().unwrap();
        let mut again = Box::pin(turns.turn(one));
        assert!(again.as_mut().now_or_never().is_none());
        let second = turns.turn(other).now_or_never().unwrap();
        assert!(turns.turn(third).now_or_never().is_none(), "all are taken");
        drop(second);
        assert!(again.as_mut().now_or_never().is_none(), "still its second");
        drop(first);
        let first = again.await;
        assert!(turns.turn(third).now_or_never().is_some());
        drop(first);
    }
}
