//! libFuzzer for the target `discord_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::discord_frame(data));
