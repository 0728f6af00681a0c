//! libFuzzer for the target `journal_segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::journal_segment(data));
