//! libFuzzer for the target `journal_segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::journal_segment(data));
