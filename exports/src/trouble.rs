use conveyor_store::Error;
use std::io;

/// Why a build did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// It would be the same the next time. What its caller is told.
    #[error("{0}")]
    Final(String),
    /// It may pass.
    #[error(transparent)]
    Store(#[from] Error),
    /// We were told to leave it.
    #[error("broken off")]
    BrokenOff,
    /// Whoever writes the object takes no more, and says why itself.
    #[error("the object takes no more")]
    Refused,
}

/// Writers of bytes speak of no other error than the one of the sink beneath them.
impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        match error.downcast() {
            Ok(trouble) => trouble,
            Err(error) => Error::Unavailable(error.to_string()).into(),
        }
    }
}

impl Trouble {
    /// What a caller is told of what a store said. The rest is for the log.
    pub fn told(error: &Error) -> &'static str {
        match error {
            Error::Full(_) => "the storage is full",
            Error::Unavailable(_) => "the storage does not answer",
            Error::Missing(_) => "the storage is not set up",
            Error::NotFound | Error::Changed => "what was there is gone",
            Error::Corrupt(_) | Error::Conflict(_) | Error::Refused(_) => "what is stored cannot be read",
        }
    }
}
