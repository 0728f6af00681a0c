//! Operations of people on several memories, and memories that take the place of others.

mod forget;
mod namesake;
mod privacy;
mod replace;
mod unite;

pub use forget::{Tombstone, asker_of, may_forget};
pub use namesake::{SPARE, without_namesakes};
pub use privacy::{NotLearnt, PrivateSpan, PrivateSpans, chat_key};
pub use replace::{
    KNOWN_TOLD, NEAR_TOLD, id_on_line, known_text, may_replace, near, question_of, saved_text,
};
pub use unite::{NotUnited, unite};
