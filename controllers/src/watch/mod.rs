//! From the API server's events to the index.
//!
//! `stream` follows a kind with kube's watcher, `guard` gives that what it does not see, `feed` puts what comes into the
//! index and tells the controllers.

pub mod error;
pub mod feed;
pub mod guard;
pub mod outage;
pub mod stream;
