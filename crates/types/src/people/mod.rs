//! People: who is heard, who is paired or banned, and whose words are looked for.

pub mod access;
pub mod pairing;
pub mod said;
