//! The product's binary once more, as a target of this package: cargo builds it for this package's tests, so they never run
//! against one that is older than the code.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_controller_manager::main()
}
