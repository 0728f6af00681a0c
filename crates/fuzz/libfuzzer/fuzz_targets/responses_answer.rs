//! libFuzzer for the target `responses_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::responses_answer(data));
