//! Why a list cannot be read on: for good, or for now.

use conveyor_domain::ListFault;
use std::io;

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// It is the list itself: reading it again would end the same way.
    #[error("{}{detail} ({fault})", at_line(*line))]
    Fault { fault: ListFault, line: Option<u64>, detail: String },
    /// The bytes could not be had this time. It says nothing about the list.
    #[error("the list could not be read")]
    Read(#[source] io::Error),
}

impl ListError {
    pub(crate) fn fault(fault: ListFault, line: Option<u64>, detail: impl Into<String>) -> ListError {
        ListError::Fault { fault, line, detail: detail.into() }
    }

    /// The same once more, for whoever asks again after it.
    pub(crate) fn repeat(&self) -> ListError {
        match self {
            ListError::Fault { fault, line, detail } => ListError::fault(*fault, *line, detail.clone()),
            ListError::Read(e) => ListError::Read(io::Error::new(e.kind(), e.to_string())),
        }
    }
}

fn at_line(line: Option<u64>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

/// A source can only fail with an I/O error; one that knows of a fault carries it inside.
impl From<ListError> for io::Error {
    fn from(error: ListError) -> io::Error {
        match error {
            ListError::Fault { .. } => io::Error::new(io::ErrorKind::InvalidData, error),
            ListError::Read(e) => e,
        }
    }
}

impl From<io::Error> for ListError {
    fn from(error: io::Error) -> ListError {
        error.downcast::<ListError>().unwrap_or_else(ListError::Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_survives_the_way_through_io() {
        let fault = ListError::fault(ListFault::SourceChanged, Some(3), "it was replaced");
        let words = "line 3: it was replaced (source_changed)";
        assert_eq!(fault.to_string(), words);
        let back = ListError::from(io::Error::from(fault));
        assert!(matches!(&back, ListError::Fault { fault: ListFault::SourceChanged, line: Some(3), .. }));
        assert_eq!(back.repeat().to_string(), words);
        let reset = ListError::from(io::Error::from(io::ErrorKind::ConnectionReset));
        assert!(matches!(&reset, ListError::Read(e) if e.kind() == io::ErrorKind::ConnectionReset));
        assert!(matches!(reset.repeat(), ListError::Read(e) if e.kind() == io::ErrorKind::ConnectionReset));
    }
}
