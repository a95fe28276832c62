//! From the API server's events to caches, indexes and the keys to look at.

pub mod cache;
pub mod dirty;
pub mod index;
pub mod intake;
pub mod lines;
pub mod objects;
pub mod peek;
pub mod reach;
pub mod relist;
pub mod sizes;
pub mod source;
pub mod world;
