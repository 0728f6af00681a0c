//! libFuzzer for the target `telegram_update`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::telegram_update(data));
