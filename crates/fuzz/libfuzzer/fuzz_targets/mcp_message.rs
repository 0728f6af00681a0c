//! libFuzzer for the target `mcp_message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| crate::mcp_message(data));
