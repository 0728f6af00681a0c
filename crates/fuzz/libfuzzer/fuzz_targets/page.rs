//! libFuzzer for the target `page`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::page(data));
