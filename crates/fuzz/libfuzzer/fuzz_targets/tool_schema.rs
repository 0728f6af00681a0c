//! libFuzzer for the target `tool_schema`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::tool_schema(data));
