//! Turns a conversation of LoCoMo into JSON lines for `cairn replay`.
//!
//! `locomo FILE [--conversation N]`: N counts from 0.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use cairn_bench::locomo::load;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (file, number) = match args[..] {
        [file] => (file, Ok(0)),
        [file, "--conversation", number] | ["--conversation", number, file] => {
            (file, number.parse::<usize>())
        }
        _ => return fail("usage: locomo FILE [--conversation N]"),
    };
    let Ok(number) = number else {
        return fail("--conversation takes a number, counted from 0");
    };
    match write(Path::new(file), number) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn write(file: &Path, number: usize) -> Result<(), Box<dyn std::error::Error>> {
    let conversations = load(file)?;
    let conversation = conversations.get(number).ok_or_else(|| {
        format!("there is no conversation {number}: the file has {}, counted from 0", conversations.len())
    })?;
    let mut out = std::io::stdout().lock();
    for turn in &conversation.turns {
        let line = serde_json::json!({
            "user": turn.speaker, "text": turn.text, "at": turn.at.to_string(), "id": turn.id,
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}
