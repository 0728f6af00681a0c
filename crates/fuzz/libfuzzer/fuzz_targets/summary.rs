//! libFuzzer for the target `summary`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::summary(data));
