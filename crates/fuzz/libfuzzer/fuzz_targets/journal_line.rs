//! libFuzzer for the target `journal_line`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::journal_line(data));
