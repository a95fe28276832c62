//! The `service-controller-manager` binary.
fn main() {}
