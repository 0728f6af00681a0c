//! libFuzzer for the target `discord_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::discord_frame(data));
