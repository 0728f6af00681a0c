//! People: who is served, who is paired or banned, and how entries are found by author and time.

pub mod access;
pub mod pairing;
pub mod said;
