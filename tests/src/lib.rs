//! Whole-system tests: recorded conformance cases, faults, the real kubectl.
//!
//! The library owns the *replayer*: it reads a recorded case, sends its requests to a server over real HTTP and compares
//! every answer as `tests/conformance/README.md` says. It knows nothing of the lab's insides: a server is a URL and a token.
//!
//! ```text
//! case ──> replay ──> http ──> server (lab, or any API server)
//!             │                   ▲
//!             ├─ matcher          └── proxy (counts writes) <── controllers
//!             └─ settle ── normalise, unordered
//! ```

pub mod account;
pub mod api_server;
pub mod beside;
pub mod bindings;
pub mod browser;
pub mod case;
pub mod clean;
pub mod cluster;
pub mod crash;
pub mod crowd;
pub mod diff;
pub mod endpoints_seen;
pub mod eventually;
pub mod http;
pub mod known;
pub mod kubectl;
pub mod launch;
pub mod ledger;
pub mod listing;
pub mod load;
pub mod matcher;
pub mod model;
pub mod normalise;
pub mod permissions;
pub mod placeholder;
pub mod process;
pub mod proxy;
pub mod real_server;
pub mod replay;
pub mod series;
pub mod settle;
pub mod suite;
pub mod tls;
pub mod transcript;
pub mod usage;
pub mod watching;
