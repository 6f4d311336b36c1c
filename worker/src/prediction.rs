//! Where the next tasks of a run will go, as far as the last ones tell (SPEC 6.7): a long list for one domain is not
//! received faster than the domain takes it, once so many were received that it is unlikely to go on elsewhere.

use conveyor_domain::dispatch::grant::{Limits, Scope};
use conveyor_domain::limits;
use std::time::Duration;
use tokio::time::Instant;

pub type Sites = Vec<(Scope, Limits)>;

#[derive(Debug)]
pub struct Prediction {
    sites: Sites,
    /// Messages in a row that drew on just these.
    in_a_row: u32,
    /// Since when nothing was received because of it, and how long that is believed.
    blocked: Option<Instant>,
    patience: Duration,
    /// The next message is received all the same.
    trying: bool,
}

impl Default for Prediction {
    fn default() -> Prediction {
        let patience = limits::BOUNCE_MIN;
        Prediction { sites: Sites::new(), in_a_row: 0, blocked: None, patience, trying: false }
    }
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
        if since.elapsed() < self.patience {
            return false;
        }
        self.blocked = None;
        self.patience = (self.patience * 2).min(limits::BOUNCE_MAX);
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
