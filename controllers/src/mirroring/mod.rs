//! The mirroring controller: custom `Endpoints` of Services without selector become slices.
//!
//! `plan` decides, `state` keeps what was seen; slices and answers are handled as those made from
//! pods.

pub mod plan;
pub mod state;
