//! Long checks and measurements of the real binary, behind `.ci/soak`; the tests run small ones of them.

pub mod chats;
pub mod endure;
pub mod estimate;
pub mod faults;
pub mod kills;
pub mod load;
pub mod locomo;
pub mod providers;
pub mod resend;
