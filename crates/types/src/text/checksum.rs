//! The checksum of an artifact's content.

use sha2::{Digest as _, Sha256};

/// SHA-256 of an artifact's content in hex digits, as in [`crate::message::Artifact::sha256`].
pub fn checksum(words: &[u8]) -> String {
    Sha256::digest(words).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_that_of_the_words() {
        assert_eq!(checksum(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
