//! The other end of a connection: its address, and whose requests came over it.

use crate::request_rates::Who;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// An extension of every request that came over a connection. The listener reads from it which connections matter least.
#[derive(Clone, Debug)]
pub struct Peer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    network: IpAddr,
    caller: AtomicU64,
    places: AtomicUsize,
}

impl Peer {
    pub fn new(address: IpAddr) -> Peer {
        Peer(Arc::new(Inner {
            network: network_of(address),
            caller: AtomicU64::new(0),
            places: AtomicUsize::new(0),
        }))
    }

    /// The address; of IPv6 the /64 network, because whoever has one of its addresses has them all.
    pub fn network(&self) -> IpAddr {
        self.0.network
    }

    /// A number for the caller of the last request whose caller was known; 0 before that.
    pub fn caller(&self) -> u64 {
        self.0.caller.load(Ordering::Relaxed)
    }

    /// Whether a request that has a place is being answered.
    pub fn has_place(&self) -> bool {
        self.0.places.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn is_of(&self, who: Who) {
        let mut hasher = DefaultHasher::new();
        who.hash(&mut hasher);
        self.0.caller.store(hasher.finish().max(1), Ordering::Relaxed);
    }

    pub(crate) fn give_place(&self) -> PlaceHere {
        self.0.places.fetch_add(1, Ordering::Relaxed);
        PlaceHere(self.clone())
    }
}

/// The connection has a request with a place until this is dropped.
#[derive(Debug)]
pub(crate) struct PlaceHere(Peer);

impl Drop for PlaceHere {
    fn drop(&mut self) {
        self.0.0.places.fetch_sub(1, Ordering::Relaxed);
    }
}

fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        v4 @ IpAddr::V4(_) => v4,
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conveyor_domain::CallerId;

    #[test]
    fn addresses_of_one_network_are_one() {
        let network = |text: &str| Peer::new(text.parse().unwrap()).network().to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    #[test]
    fn the_last_caller_stays_known() {
        let peer = Peer::new([127, 0, 0, 1].into());
        assert!(peer.caller() == 0 && !peer.has_place());
        peer.is_of(Who::Caller(CallerId::from_bytes([1; 16])));
        let place = peer.give_place();
        assert!(peer.has_place());
        drop(place);
        assert!(peer.caller() != 0 && !peer.has_place());
    }
}
