//! A fake MCP server over its standard input and output: `fake-mcp --fault hang@call --log FILE`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    ExitCode::from(cairn_testkit::mcp::run(&args))
}
