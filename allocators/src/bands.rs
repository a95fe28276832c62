//! How large the band is that automatic choice leaves alone as long as it can.
//!
//! Owns the two formulas (KEP-3070 for addresses, KEP-3668 for node ports). The band is the first
//! part of a range; it never decides what is chosen from either part.

const SMALLEST_BAND: u128 = 16;

/// The number of addresses in the lower band of a range of `size` addresses, all of them counted:
/// min(max(16, size/16), 256), and 0 for a range of 16 addresses or less.
pub fn address_band(size: u128) -> u64 {
    band(size, 16, 256)
}

/// The number of ports in the lower band of a range of `size` ports: min(max(16, size/32), 128),
/// and 0 for a range of 16 ports or less.
pub fn port_band(size: u32) -> u64 {
    band(u128::from(size), 32, 128)
}

fn band(size: u128, step: u128, largest: u128) -> u64 {
    if size <= SMALLEST_BAND {
        return 0;
    }
    u64::try_from((size / step).clamp(SMALLEST_BAND, largest)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, 0)]
    #[case(4, 0)]
    #[case(16, 0)]
    #[case(17, 16)]
    #[case(32, 16)]
    #[case(64, 16)]
    #[case(256, 16)]
    #[case(512, 32)]
    #[case(1 << 10, 64)]
    #[case(1 << 12, 256)]
    #[case(1 << 13, 256)]
    #[case(1 << 20, 256)]
    #[case(1 << 64, 256)]
    fn addresses(#[case] size: u128, #[case] expected: u64) {
        assert_eq!(address_band(size), expected);
    }

    #[rstest]
    #[case(1, 0)]
    #[case(6, 0)]
    #[case(16, 0)]
    #[case(17, 16)]
    #[case(32, 16)]
    #[case(128, 16)]
    #[case(200, 16)]
    #[case(512, 16)]
    #[case(1024, 32)]
    #[case(2768, 86)]
    #[case(4096, 128)]
    #[case(65535, 128)]
    fn ports(#[case] size: u32, #[case] expected: u64) {
        assert_eq!(port_band(size), expected);
    }
}
