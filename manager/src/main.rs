//! The `service-controller-manager` binary. All behaviour is in the library, so that tests can run it too.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    service_controller_manager::main()
}
