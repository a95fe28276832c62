//! Real networks for the lab's nodes and pods: a network namespace each, joined so that packets find their way.
//!
//! Owns the namespaces and links of one lab, whose names carry its id, and what listens in the pods. It follows the pods of the API
//! server by the verbs of [`service_lab_apiserver::local`] and writes nothing there. Which rules a node has is not its business: it
//! gives a node's namespace to whoever makes them.
//!
//! ```text
//! machine (192.168.10.50) -- bridge -- node (192.168.10.20) -- veth -- pod (10.244.1.2)
//!                                  \-- node (192.168.10.21) -- veth -- pod (10.244.2.2)
//! ```

#[cfg(not(target_os = "linux"))]
compile_error!("`lab --network` makes network namespaces of Linux and cannot be built for another system");

pub mod agnhost;
mod dns;
mod duration;
mod error;
mod exec;
mod fabric;
mod follow;
mod forward;
mod gateway;
mod layout;
mod leftovers;
mod links;
mod log;
mod namespace;
pub mod nslookup;
mod parameters;
mod place;
mod probe;
mod process;
mod program;
mod proxy;
mod requests;
mod sctp;
mod server;
mod serving;
mod sight;
mod spdy;
mod tls;
mod upload;
pub mod wget;

pub use error::NetworkError;
pub use fabric::{Fabric, Settings};
pub use follow::{Pods, follow};
pub use layout::NodePlace;
pub use namespace::Namespace;
pub use server::Ended;
