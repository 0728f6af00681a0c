//! Tells public internet addresses from all others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 blocks that are not globally reachable, with prefix lengths (IANA special-purpose registry).
const NOT_PUBLIC_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    // Includes the anycast addresses for PCP and TURN, where the network's own router or relay answers.
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// IPv6 blocks inside [`PUBLIC_V6`] that are not globally reachable.
const NOT_PUBLIC_V6: [(Ipv6Addr, u32); 4] = [
    // Teredo, ORCHID, benchmarking and the like.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4: obsolete, and it would bypass the IPv4 list.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// The range of global IPv6 addresses.
const PUBLIC_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// NAT64: the last four bytes are an IPv4 address.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Whether an address belongs to the public internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !NOT_PUBLIC_V4.iter().any(|(block, length)| {
        let mask = u32::MAX << (32 - length);
        address.to_bits() & mask == block.to_bits() & mask
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    if within(address, NAT64) {
        let [.., a, b, c, d] = address.octets();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    // Everything outside the global range is local, reserved or unassigned.
    within(address, PUBLIC_V6) && !NOT_PUBLIC_V6.iter().any(|block| within(address, *block))
}

fn within(address: Ipv6Addr, (block, length): (Ipv6Addr, u32)) -> bool {
    let mask = u128::MAX << (128 - length);
    address.to_bits() & mask == block.to_bits() & mask
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1.1.1.1", true)]
    #[case("9.255.255.255", true)]
    #[case("11.0.0.0", true)]
    #[case("100.63.255.255", true)]
    #[case("100.128.0.0", true)]
    #[case("172.15.255.255", true)]
    #[case("172.32.0.0", true)]
    #[case("192.0.1.1", true)]
    #[case("192.167.255.255", true)]
    #[case("198.17.255.255", true)]
    #[case("198.20.0.0", true)]
    #[case("223.255.255.255", true)]
    #[case("0.0.0.0", false)]
    #[case("0.1.2.3", false)]
    #[case("10.0.0.1", false)]
    #[case("100.64.0.1", false)]
    #[case("100.127.255.255", false)]
    #[case("127.0.0.1", false)]
    #[case("127.255.255.255", false)]
    #[case("169.254.169.254", false)]
    #[case("172.16.0.1", false)]
    #[case("172.31.255.255", false)]
    #[case("192.0.0.1", false)]
    #[case("192.0.0.9", false)]
    #[case("192.0.0.10", false)]
    #[case("::ffff:192.0.0.9", false)]
    #[case("192.0.0.170", false)]
    #[case("192.0.2.1", false)]
    #[case("192.88.99.1", false)]
    #[case("192.168.1.1", false)]
    #[case("198.18.0.1", false)]
    #[case("198.19.255.255", false)]
    #[case("198.51.100.1", false)]
    #[case("203.0.113.1", false)]
    #[case("224.0.0.1", false)]
    #[case("239.255.255.255", false)]
    #[case("240.0.0.1", false)]
    #[case("255.255.255.255", false)]
    #[case("2606:4700:4700::1111", true)]
    #[case("2a00:1450:4001::1", true)]
    #[case("2001:200::1", true)]
    #[case("::ffff:1.1.1.1", true)]
    #[case("64:ff9b::1.1.1.1", true)]
    #[case("::", false)]
    #[case("::1", false)]
    #[case("::1.1.1.1", false)]
    #[case("::127.0.0.1", false)]
    #[case("::ffff:127.0.0.1", false)]
    #[case("::ffff:10.0.0.1", false)]
    #[case("::ffff:a9fe:a9fe", false)]
    #[case("::ffff:0:127.0.0.1", false)]
    #[case("64:ff9b::127.0.0.1", false)]
    #[case("64:ff9b::a9fe:a9fe", false)]
    #[case("64:ff9b:1::1", false)]
    #[case("100::1", false)]
    #[case("2001::1", false)]
    #[case("2001:10::1", false)]
    #[case("2001:1ff:ffff::1", false)]
    #[case("2001:db8::1", false)]
    #[case("2002:7f00:1::1", false)]
    #[case("2002:101:101::1", false)]
    #[case("3fff::1", false)]
    #[case("3fff:fff::1", false)]
    #[case("4000::1", false)]
    #[case("5f00::1", false)]
    #[case("fc00::1", false)]
    #[case("fd12:3456::1", false)]
    #[case("fe80::1", false)]
    #[case("fec0::1", false)]
    #[case("ff02::1", false)]
    fn only_global_addresses_are_public(#[case] address: &str, #[case] public: bool) {
        assert_eq!(is_public(address.parse().unwrap()), public);
    }
}
