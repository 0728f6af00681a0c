//! libFuzzer for the target `anthropic_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::anthropic_answer(data));
