//! The verbs of the API against a lab in this process: what clients may rely on, whatever the kind.

#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc, missing_docs, unreachable_pub)]

mod clients;
mod collecting;
mod deletes;
mod lists;
mod reviews;
mod support;
mod truth;
mod watches;
mod writes;
