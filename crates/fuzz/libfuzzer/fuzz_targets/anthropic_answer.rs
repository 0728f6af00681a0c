//! libFuzzer for the target `anthropic_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::anthropic_answer(data));
