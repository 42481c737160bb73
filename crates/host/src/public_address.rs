//! Addresses that an agent may reach: those of the public internet, and for a listed name those of a private network. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns true for an address of the public internet. This machine, private networks, link-local addresses with the
/// metadata of clouds, and reserved ranges are none.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Returns true for an address that another machine of a private network can have: neither this machine itself, nor a
/// service of a cloud for its machines, nor a group of machines.
pub fn is_remote(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_remote_v4(address),
        IpAddr::V6(address) => {
            let segments = address.segments();
            if let Some(inner) = embedded_v4(segments) {
                return is_remote_v4(inner);
            }
            // `fc00::/7` is private; Amazon has its metadata there.
            let is_private = segments[0] & 0xfe00 == 0xfc00 && segments[..2] != [0xfd00, 0x0ec2];
            is_private || is_public_v6(address)
        }
    }
}

fn is_remote_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b) && address != ALIBABA_METADATA;
    address.is_private() || is_shared || is_public_v4(address)
}

/// Metadata of Alibaba's cloud, in the range that providers use for translation.
const ALIBABA_METADATA: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
/// Service of Microsoft's cloud for its machines, at an address of the public range.
const AZURE_SERVICE: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || address == AZURE_SERVICE
        || a == 0
        || a >= 240
        // Addresses behind a provider's translation, which clouds use for metadata.
        || (a == 100 && (64..128).contains(&b))
        // Protocol assignments and benchmarks.
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    if let Some(inner) = embedded_v4(segments) {
        return is_public_v4(inner);
    }
    // Only this range is assigned.
    let is_global = segments[0] & 0xe000 == 0x2000;
    let is_documentation = segments[0] == 0x2001 && segments[1] == 0x0db8;
    let is_special = segments[0] == 0x2001 && segments[1] < 0x0200;
    is_global && !is_documentation && !is_special
}

/// Returns the IPv4 address that an address leads to: mapped, translated, or 6to4.
fn embedded_v4(segments: [u16; 8]) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for (address, expected) in [
            ("93.184.216.34", true),
            ("2606:2800:220:1::1", true),
            ("127.0.0.1", false),
            ("127.255.0.9", false),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.100.100.200", false),
            ("100.128.0.1", true),
            ("192.0.0.192", false),
            ("198.18.0.1", false),
            ("168.63.129.16", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::1", false),
            ("::", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:93.184.216.34", true),
            ("64:ff9b::7f00:1", false),
            ("2002:7f00:1::", false),
            ("::127.0.0.1", false),
            ("fe80::1", false),
            ("fd00:ec2::254", false),
            ("ff02::1", false),
            ("2001:db8::1", false),
            ("2001:0:7f00:1::", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn a_private_network_is_remote_and_this_machine_and_metadata_are_not() {
        for (address, expected) in [
            ("93.184.216.34", true),
            ("10.1.2.3", true),
            ("192.168.1.1", true),
            ("100.64.0.1", true),
            ("fd12::1", true),
            ("2606:2800:220:1::1", true),
            ("127.0.0.1", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("100.100.100.200", false),
            ("192.0.0.192", false),
            ("168.63.129.16", false),
            ("224.0.0.1", false),
            ("::1", false),
            ("::", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:10.1.2.3", true),
            ("64:ff9b::a9fe:a9fe", false),
            ("fe80::1", false),
            ("fd00:ec2::254", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_remote(address.parse().unwrap()), expected, "{address}");
        }
    }
}
