//! libFuzzer for the target `mcp_message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cairn_fuzz::mcp_message(data));
