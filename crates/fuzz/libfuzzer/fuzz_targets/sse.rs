//! libFuzzer for the target `sse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::sse(data));
