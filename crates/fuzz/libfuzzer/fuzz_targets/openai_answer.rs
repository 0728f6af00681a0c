//! libFuzzer for the target `openai_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::openai_answer(data));
