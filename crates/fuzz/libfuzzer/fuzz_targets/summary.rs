//! libFuzzer for the target `summary`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::summary(data));
