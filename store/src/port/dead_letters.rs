use super::Result;
use super::over::port;
use conveyor_domain::{DeadLetter, LetterId};

port! {
    /// Messages that were given up (SPEC 6.15). In rows, because a queue cannot be looked through.
    pub trait DeadLetterStore, decorated by OverDeadLetterStore over store {
        /// Keeps a letter. Of one that is there already, body and `last` become this one's; `first` and `redrives` stay.
        async fn keep_letter(&self, letter: DeadLetter) -> Result<()>;

        async fn letter(&self, letter: LetterId) -> Result<Option<DeadLetter>>;

        /// By their ids, behind the one that is named.
        async fn letters(&self, after: Option<LetterId>, limit: u32) -> Result<Vec<DeadLetter>>;

        /// Counts one more time that it was sent again, if that was counted `seen` times so far. False if not, or if it is
        /// gone.
        async fn count_redrive(&self, letter: LetterId, seen: u32) -> Result<bool>;

        async fn forget_letter(&self, letter: LetterId) -> Result<()>;
    }
}
