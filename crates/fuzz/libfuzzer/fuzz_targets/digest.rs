//! libFuzzer for the target `digest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::digest(data));
