//! Reading the log again: lines of any of its forms in, what somebody wants to see of them out. Pure; `cmd::logs` has the
//! streams.

mod line;
mod parse;
mod render;
mod select;

pub use self::line::Line;
pub use self::parse::parse;
pub use self::render::{Form, render, unreadable};
pub use self::select::{ObjectName, ObjectNameError, ObjectNames, Selection};
