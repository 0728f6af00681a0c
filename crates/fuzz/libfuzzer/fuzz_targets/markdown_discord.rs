//! libFuzzer for the target `markdown_discord`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::markdown_discord(data));
