//! Watches: a kind is listed and followed for ever.
//!
//! `stream` follows a kind with kube's watcher, `guard` gives that what it does not see, `lines` puts
//! events into the form that it reads, `outage` ends the waits for a server
//! that gave no answer. What the events say is the feed's business.

pub mod guard;
mod lines;
pub mod outage;
pub mod stream;
