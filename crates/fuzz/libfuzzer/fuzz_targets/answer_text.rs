//! libFuzzer for the target `answer_text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::answer_text(data));
