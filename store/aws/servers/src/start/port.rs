//! A port for a server that has to be told one.

use anyhow::{Context, Result, bail};
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

const TRIES_MAX: u32 = 100;

/// A TCP port that was free a moment ago.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// The UDP port of the same number, which no server here wants. Whoever holds it has the TCP port among us: two that
    /// choose at the same time never choose the same, in however many processes.
    _claim: UdpSocket,
}

impl Port {
    pub fn free() -> Result<Port> {
        for _ in 0..TRIES_MAX {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
            let number = listener.local_addr()?.port();
            if let Ok(claim) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)) {
                return Ok(Port { number, _claim: claim });
            }
        }
        bail!("no port that is free for TCP and UDP in {TRIES_MAX} tries")
    }

    pub fn number(&self) -> u16 {
        self.number
    }

    /// Whether another program listens on it or uses it.
    pub fn is_taken(&self) -> bool {
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, self.number));
        bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_that_are_held_differ() {
        let ports: Vec<Port> = (0..50).map(|_| Port::free().unwrap()).collect();
        assert_eq!(ports.iter().map(Port::number).collect::<BTreeSet<_>>().len(), ports.len());
    }

    #[test]
    fn a_taken_port_is_noticed() {
        // Any other program may take a port in between, so one of many has to be free.
        let taken = (0..TRIES_MAX).find_map(|_| {
            let port = Port::free().unwrap();
            let other = (!port.is_taken()).then(|| TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())));
            Some((port, other?.ok()?))
        });
        let (port, _other) = taken.expect("a port that is not taken");
        assert!(port.is_taken());
    }
}
