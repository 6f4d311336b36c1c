use conveyor_domain::{LogOutOfOrder, Refusal, Unreadable};

pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, by what the caller does next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such thing. Answer 404, or drop the message.
    #[error("not found")]
    NotFound,
    /// The state does not allow it. Tell the caller why.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It is already there in another form. Do not repeat.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The object is not the one that was pinned. Reading it again would not help.
    #[error("the object has changed")]
    Changed,
    /// No room. Nothing was written; it may work once there is room.
    #[error("storage is full: {0}")]
    Full(String),
    /// No answer, or none that can be trusted: the write may or may not have happened. Wait, then repeat or read back.
    #[error("storage is unavailable: {0}")]
    Unavailable(String),
    /// The table, the queue or the bucket that it is about is not there: nothing was written. An operator has to create it.
    #[error("storage is not set up: {0}")]
    Missing(String),
    /// What is stored cannot be read. An operator has to look.
    #[error("stored data is corrupt: {0}")]
    Corrupt(String),
}

impl From<Unreadable> for Error {
    fn from(unreadable: Unreadable) -> Error {
        Error::Corrupt(unreadable.to_string())
    }
}

impl From<LogOutOfOrder> for Error {
    fn from(error: LogOutOfOrder) -> Error {
        Error::Corrupt(error.to_string())
    }
}
