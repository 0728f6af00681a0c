//! libFuzzer for the target `config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::config(data));
