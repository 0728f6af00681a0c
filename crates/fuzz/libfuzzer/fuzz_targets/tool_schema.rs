//! libFuzzer for the target `tool_schema`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::tool_schema(data));
