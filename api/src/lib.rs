//! What Service API objects mean.
pub mod errors;
