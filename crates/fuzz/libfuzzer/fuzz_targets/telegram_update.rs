//! libFuzzer for the target `telegram_update`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::telegram_update(data));
