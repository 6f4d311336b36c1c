//! Where the next tasks of a run will go, as far as the last ones tell (SPEC 6.7): a long list for one domain is not
//! received faster than the domain takes it, once so many were received that it is unlikely to go on elsewhere.

use conveyor_domain::dispatch::grant::{Limits, Scope};
use conveyor_domain::{Exponential, limits};
use tokio::time::Instant;

pub type Sites = Vec<(Scope, Limits)>;

/// How long it is believed.
const PATIENCE: Exponential = Exponential::new(limits::BOUNCE_MIN, limits::BOUNCE_MAX);

#[derive(Debug, Default)]
pub struct Prediction {
    sites: Sites,
    /// Messages in a row that drew on just these.
    in_a_row: u32,
    /// Since when nothing was received because of it.
    blocked: Option<Instant>,
    doubts: u32,
    /// The next message is received all the same.
    trying: bool,
}

impl Prediction {
    /// The sites that all messages of a batch drew on: none if they went to different places.
    pub fn note(&mut self, sites: Sites, messages: u32) {
        if sites == self.sites {
            self.in_a_row = self.in_a_row.saturating_add(messages);
        } else {
            *self = Prediction { sites, in_a_row: messages, ..Prediction::default() };
        }
    }

    /// The sites that the next message probably draws on. Nothing, if there were too few to tell.
    pub fn sites(&self) -> &[(Scope, Limits)] {
        if self.in_a_row >= limits::LOOKAHEAD_MESSAGES { &self.sites } else { &[] }
    }

    /// Whether to try one message all the same, though its sites have no room: the list may go on elsewhere. Rarer each
    /// time it does not.
    pub fn doubts(&mut self, has_room: bool) -> bool {
        if has_room {
            self.blocked = None;
            return false;
        }
        let since = *self.blocked.get_or_insert_with(Instant::now);
        if since.elapsed() < PATIENCE.delay(self.doubts + 1) {
            return false;
        }
        self.blocked = None;
        self.doubts = self.doubts.saturating_add(1);
        self.trying = true;
        true
    }

    /// Whether the message that is about to be received is only a try.
    pub fn is_tried(&mut self) -> bool {
        std::mem::take(&mut self.trying)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::CallerId;
    use std::time::Duration;

    fn site(name: &str) -> Sites {
        vec![(Scope::Domain(CallerId::from_bytes([1; 16]), name.to_owned()), Limits::default())]
    }

    #[test]
    fn a_few_messages_tell_nothing() {
        let mut prediction = Prediction::default();
        prediction.note(site("a"), limits::LOOKAHEAD_MESSAGES - 1);
        assert!(prediction.sites().is_empty());
        prediction.note(site("a"), 1);
        assert_eq!(prediction.sites(), site("a"));
        prediction.note(site("b"), limits::LOOKAHEAD_MESSAGES - 1);
        assert!(prediction.sites().is_empty());
        prediction.note(Sites::new(), 5 * limits::LOOKAHEAD_MESSAGES);
        assert!(prediction.sites().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_doubted_now_and_then() {
        let mut prediction = Prediction::default();
        prediction.note(site("a"), limits::LOOKAHEAD_MESSAGES);
        let mut doubts = Vec::new();
        for second in 0..80 {
            if prediction.doubts(false) {
                doubts.push(second);
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(doubts, [5, 16, 37, 78]);
        assert!(!prediction.doubts(true));
    }
}
