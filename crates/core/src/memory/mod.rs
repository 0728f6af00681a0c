//! Operations of people on several memories.

mod unite;

pub use unite::{NotUnited, unite};
