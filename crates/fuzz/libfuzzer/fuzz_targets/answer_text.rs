//! libFuzzer for the target `answer_text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::answer_text(data));
