//! libFuzzer for the target `words`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::words(data));
