//! libFuzzer for the target `markdown_telegram`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::markdown_telegram(data));
