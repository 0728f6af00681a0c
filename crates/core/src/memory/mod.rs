//! What people do with several memories.

mod unite;

pub use unite::{NotUnited, unite};
