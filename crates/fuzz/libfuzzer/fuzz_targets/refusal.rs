//! libFuzzer for the target `refusal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::refusal(data));
