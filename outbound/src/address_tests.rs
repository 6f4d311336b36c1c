use super::*;
use url::{Host, Url};

fn public(text: &str) -> bool {
    is_public(text.parse().unwrap())
}

/// First and last address of every refused network, and its neighbours on both sides.
#[test]
fn refused_networks_end_where_they_should() {
    let edges = [
        ("0.0.0.0", "0.255.255.255", None, Some("1.0.0.0")),
        ("10.0.0.0", "10.255.255.255", Some("9.255.255.255"), Some("11.0.0.0")),
        ("100.64.0.0", "100.127.255.255", Some("100.63.255.255"), Some("100.128.0.0")),
        ("127.0.0.0", "127.255.255.255", Some("126.255.255.255"), Some("128.0.0.0")),
        ("168.63.129.16", "168.63.129.16", Some("168.63.129.15"), Some("168.63.129.17")),
        ("169.254.0.0", "169.254.255.255", Some("169.253.255.255"), Some("169.255.0.0")),
        ("172.16.0.0", "172.31.255.255", Some("172.15.255.255"), Some("172.32.0.0")),
        ("192.0.0.0", "192.0.0.255", Some("191.255.255.255"), Some("192.0.1.0")),
        ("192.0.2.0", "192.0.2.255", Some("192.0.1.255"), Some("192.0.3.0")),
        ("192.88.99.0", "192.88.99.255", Some("192.88.98.255"), Some("192.88.100.0")),
        ("192.168.0.0", "192.168.255.255", Some("192.167.255.255"), Some("192.169.0.0")),
        ("198.18.0.0", "198.19.255.255", Some("198.17.255.255"), Some("198.20.0.0")),
        ("198.51.100.0", "198.51.100.255", Some("198.51.99.255"), Some("198.51.101.0")),
        ("203.0.113.0", "203.0.113.255", Some("203.0.112.255"), Some("203.0.114.0")),
        ("224.0.0.0", "239.255.255.255", Some("223.255.255.255"), None),
        ("240.0.0.0", "255.255.255.255", None, None),
        ("::", "::fffe:ffff:ffff", None, None),
        ("::1:0:0:0", "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", None, None),
        ("64:ff9b::1:0:0", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None, Some("2000::")),
        ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", Some("2000:ffff::1"), Some("2001:200::")),
        ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Some("2001:db7::"), Some("2001:db9::")),
        ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", Some("3ffe:ffff::"), Some("3fff:1000::")),
        ("4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some("3fff:ffff::"), None),
    ];
    for (first, last, below, above) in edges {
        assert!(!public(first), "{first}");
        assert!(!public(last), "{last}");
        for neighbour in [below, above].into_iter().flatten() {
            assert!(public(neighbour), "{neighbour}");
        }
    }
}

#[test]
fn the_addresses_an_attacker_would_try() {
    let refused = [
        "::1",                                  // loopback
        "::",                                   // unspecified
        "::ffff:127.0.0.1",                     // mapped
        "::ffff:169.254.169.254",               // mapped metadata service
        "::ffff:0:127.0.0.1",                   // translated (SIIT)
        "::127.0.0.1",                          // compatible
        "::8.8.8.8",                            // compatible, withdrawn even for public ones
        "64:ff9b::10.0.0.1",                    // NAT64
        "64:ff9b:1::8.8.8.8", // NAT64 with a local prefix: what it maps to is the network's business
        "2002:7f00:1::",      // 6to4 of 127.0.0.1
        "2002:c0a8:101::1",   // 6to4 of 192.168.1.1
        "2001:0:4136:e378:8000:63bf:3fff:fdd2", // Teredo
        "100::1",             // discard
        "5f00::1",            // segment routing
        "fc00::1",            // unique local
        "fd00:ec2::254",      // a cloud's metadata service
        "fe80::1",            // link-local
        "fec0::1",            // site-local
        "ff02::1",            // multicast
    ];
    for address in refused {
        assert!(!public(address), "{address}");
        assert!(any(address.parse().unwrap()));
    }
    let allowed =
        ["1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700::1111", "2a00:1450:4001::1", "2002:808:808::1"];
    for address in allowed {
        assert!(public(address), "{address}");
    }
    assert!(public("::ffff:8.8.8.8") && public("64:ff9b::8.8.8.8"));
}

/// Every /16, at hosts where a refused /24 or /32 lies, against what the standard library knows.
#[test]
fn agrees_with_the_standard_library_everywhere() {
    let hosts = [0x0000, 0x0001, 0x0101, 0x0210, 0x6301, 0x6410, 0x7101, 0x8110, 0xffff];
    for network in 0..=0xffff_u32 {
        for host in hosts {
            let v4 = Ipv4Addr::from_bits(network << 16 | host);
            let [a, b, c, d] = v4.octets();
            let special = v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_documentation()
                || a == 0
                || a >= 240
                || (a == 100 && b & 0xc0 == 64)
                || (a == 198 && b & 0xfe == 18)
                || (a, b, c) == (192, 0, 0)
                || (a, b, c) == (192, 88, 99)
                || (a, b, c, d) == (168, 63, 129, 16);
            assert_eq!(is_public_v4(v4), !special, "{v4}");
            let nat64 = Ipv6Addr::from_bits((0x64_ff9b_u128 << 96) | u128::from(v4.to_bits()));
            let six_to_four =
                Ipv6Addr::from_bits((0x2002_u128 << 112) | (u128::from(v4.to_bits()) << 80) | 1);
            for carrier in [v4.to_ipv6_mapped(), nat64, six_to_four] {
                assert_eq!(is_public_v6(carrier), !special, "{carrier}");
            }
        }
    }
}

/// The resolver is not asked about literal addresses, so every way to write one must come out as one.
#[test]
fn odd_spellings_of_an_address_are_addresses() {
    let spellings = [
        "http://127.0.0.1/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://017700000001/",
        "http://0x7f000001/",
        "http://127.1/",
        "http://127.0.0.1./",
        "http://%31%32%37.0.0.1/",
        "http://①②⑦.⓪.⓪.①/",
        "http://user:pass@127.0.0.1:80/",
        "http://[::ffff:7f00:1]/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://0/",
    ];
    for spelling in spellings {
        let url = Url::parse(spelling).unwrap();
        let address = match url.host().unwrap() {
            Host::Ipv4(v4) => IpAddr::V4(v4),
            Host::Ipv6(v6) => IpAddr::V6(v6),
            Host::Domain(name) => panic!("{spelling} became the name {name}"),
        };
        assert!(!is_public(address), "{spelling}");
    }
}
