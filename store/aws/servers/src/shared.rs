//! Servers that all tests of a process share, and that several processes can.

use crate::install::Installation;
use crate::servers::Kind;
use crate::start::Server;
use anyhow::{Result, anyhow};
use std::env;
use std::sync::OnceLock;

/// Statics are never dropped; the servers end because the process does. A start that failed is not tried again, so that a
/// hundred tests do not wait for it one after the other.
static STARTED: [OnceLock<Result<Server, String>>; Kind::ALL.len()] =
    [const { OnceLock::new() }; Kind::ALL.len()];

/// The URL of a server of this kind: the one that [`Kind::url_variable`] gives, or else one that is started now and lives
/// as long as this process.
///
/// Blocks while it starts. Whoever shares it sees what others store there: use names of your own.
pub fn url(kind: Kind) -> Result<String> {
    if let Some(url) = given(kind, |name| env::var(name).ok()) {
        return Ok(url);
    }
    let started = STARTED[kind as usize].get_or_init(|| {
        let start = || Server::start(&Installation::find()?, kind);
        start().map_err(|error| format!("{error:#}{}", advice(kind)))
    });
    match started {
        Ok(server) => Ok(server.url().to_owned()),
        Err(error) => Err(anyhow!("{error}")),
    }
}

/// Tests that are about one server have its name in theirs.
fn advice(kind: Kind) -> String {
    match Kind::here().contains(&kind) {
        true => String::new(),
        false => format!(
            "\nit cannot run on this machine; `cargo test -- --skip {}` leaves out its tests",
            kind.name()
        ),
    }
}

/// The URL that a variable gives.
pub(crate) fn given(kind: Kind, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let url = variable(kind.url_variable())?;
    let url = url.trim_end_matches('/');
    (!url.is_empty()).then(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_gives_the_url() {
        let set = |value: &str| {
            let value = value.to_owned();
            move |name: &str| (name == "CONVEYOR_TEST_AWS_MINISTACK_URL").then(|| value.clone())
        };
        assert_eq!(given(Kind::MiniStack, set("http://127.0.0.1:1/")).as_deref(), Some("http://127.0.0.1:1"));
        assert_eq!(given(Kind::MiniStack, set("")), None);
        assert_eq!(given(Kind::Dynoxide, set("http://127.0.0.1:1")), None);
    }

    #[test]
    fn every_kind_has_a_slot() {
        assert!(Kind::ALL.iter().enumerate().all(|(slot, kind)| *kind as usize == slot));
    }
}
