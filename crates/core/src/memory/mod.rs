//! Operations of people on several memories, and memories that take the place of others.

mod replace;
mod unite;

pub use replace::{NEAR_TOLD, may_replace, near, saved_text};
pub use unite::{NotUnited, unite};
