//! The HTTP surface: paths, parameters, media types, and how answers are written.

pub mod auth;
mod authorize;
mod body;
mod caller;
mod delete_options;
pub mod documents;
mod encode;
mod errors;
pub(crate) mod heavy;
pub mod metrics;
mod negotiate;
mod params;
mod path;
pub mod pods;
pub mod resources;
mod respond;
mod reviews;
pub mod router;
mod table;
mod unserved;
mod warning;
mod watch;
mod weight;
