//! libFuzzer for the target `attachment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::attachment(data));
