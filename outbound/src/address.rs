//! Which addresses may be fetched when Conveyor fetches by itself (SPEC 9).
//!
//! Callers choose the URLs, the operator owns the network: what is not part of the public internet is refused. For
//! IPv4 that is a list of what is reserved. For IPv6 it is the other way round, the one block that is assigned to the
//! public internet less its reserved parts, and the forms that carry an IPv4 address are judged by that address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Says whether an address may be connected to.
pub type Rule = fn(IpAddr) -> bool;

/// The rule of `--allow-private-targets`.
pub fn any(_: IpAddr) -> bool {
    true
}

/// The rule of everyone else.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

/// The IANA special-purpose registry, as network and prefix length.
const REFUSED_V4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),  // this network; 0.0.0.0 reaches the local host
    (Ipv4Addr::new(10, 0, 0, 0), 8), // private
    (Ipv4Addr::new(100, 64, 0, 0), 10), // shared, carrier NAT; also a cloud's metadata service
    (Ipv4Addr::new(127, 0, 0, 0), 8), // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32), // public by number, but a cloud's own host agent answers there
    (Ipv4Addr::new(169, 254, 0, 0), 16), // link-local; most clouds' metadata service
    (Ipv4Addr::new(172, 16, 0, 0), 12), // private
    (Ipv4Addr::new(192, 0, 0, 0), 24), // protocol assignments; also a cloud's metadata service
    (Ipv4Addr::new(192, 0, 2, 0), 24), // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24), // 6to4 relays, withdrawn
    (Ipv4Addr::new(192, 168, 0, 0), 16), // private
    (Ipv4Addr::new(198, 18, 0, 0), 15), // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24), // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4), // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4), // reserved, and broadcast
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    !REFUSED_V4.iter().any(|&(network, prefix)| {
        let host_bits = 32 - prefix;
        address.to_bits() >> host_bits == network.to_bits() >> host_bits
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let last_32 = Ipv4Addr::from_bits(u32::from(g) << 16 | u32::from(h));
    match (a, b) {
        // ::ffff:a.b.c.d, what a dual-stack socket makes of an IPv4 address.
        (0, 0) if (c, d, e, f) == (0, 0, 0, 0xffff) => is_public_v4(last_32),
        // 64:ff9b::a.b.c.d, translated to IPv4 by the network (NAT64).
        (0x64, 0xff9b) if (c, d, e, f) == (0, 0, 0, 0) => is_public_v4(last_32),
        // 2002:a.b.c.d::, tunnelled to that IPv4 address (6to4).
        (0x2002, _) => is_public_v4(Ipv4Addr::from_bits(u32::from(b) << 16 | u32::from(c))),
        // 2001::/23, protocol assignments: Teredo (which hides an IPv4 address), benchmarks, ORCHID.
        (0x2001, 0..=0x01ff) => false,
        // Documentation, old and new.
        (0x2001, 0x0db8) => false,
        (0x3fff, 0..=0x0fff) => false,
        // 2000::/3, all that is assigned for global unicast.
        (0x2000..=0x3fff, _) => true,
        // Unspecified, loopback, IPv4-compatible, other translations, unique-local, link-local, site-local,
        // multicast, unassigned.
        (_, _) => false,
    }
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
