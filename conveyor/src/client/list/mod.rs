//! What is to be submitted: files, standard input and URLs.

mod gather;
mod single;
mod tell;

pub use gather::List;
pub use single::Single;
pub use tell::{Told, create_input, format_name};

use super::failure::Failure;
use std::io::ErrorKind;
use tokio::fs::File;

/// One argument of a submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    Url(&'a str),
    Stdin,
    File(&'a str),
}

impl<'a> Input<'a> {
    pub fn of(argument: &'a str) -> Input<'a> {
        if argument.starts_with("http://") || argument.starts_with("https://") {
            Input::Url(argument)
        } else if argument == "-" {
            Input::Stdin
        } else {
            Input::File(argument)
        }
    }

    /// What it is called in a place: `urls.txt:17`.
    pub fn name(self) -> &'a str {
        match self {
            Input::Url(text) | Input::File(text) => text,
            Input::Stdin => "stdin",
        }
    }
}

pub async fn open(path: &str) -> Result<File, Failure> {
    File::open(path).await.map_err(|e| {
        let failure = Failure::usage(format!("{path} cannot be read: {e}"));
        if e.kind() == ErrorKind::NotFound {
            return failure.with_hint("a URL starts with http:// or https://; anything else is a file");
        }
        failure
    })
}
