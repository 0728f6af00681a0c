//! Keeps what fake model servers receive, for `.ci/soak wire`: a line of JSON for each request, in the folder that the variable
//! `CAIRN_CAPTURE` names.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::LazyLock;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Provider, Wire};

/// The file of this process; none: nobody wants to see requests.
static FILE: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    #[expect(clippy::disallowed_methods, reason = "no part of the daemon")]
    let folder = PathBuf::from(std::env::var_os("CAIRN_CAPTURE")?);
    let path = folder.join(format!("{}.jsonl", std::process::id()));
    let file = File::options().create(true).append(true).open(&path);
    Some(Mutex::new(file.unwrap_or_else(|error| panic!("cannot capture to {}: {error}", path.display()))))
});

/// Keeps a request. `is_own`: the fake is a server of those who made the wire format. `provider`: which other one it stands in for.
/// `beta`: what of the format's betas it asks for.
pub(super) fn keep(wire: Wire, is_own: bool, provider: Option<Provider>, beta: Option<&str>, body: &Value) {
    let Some(file) = &*FILE else { return };
    let (wire, own) = match wire {
        Wire::OpenAi => ("chat", "openai"),
        Wire::Responses => ("responses", "openai"),
        Wire::Anthropic => ("messages", "anthropic"),
    };
    let server = match provider {
        Some(Provider::DeepSeek) => "deepseek",
        Some(Provider::Gemini3) => "gemini",
        Some(Provider::Gpt56OnChat | Provider::ClaudeThinking) => own,
        None if wire == "chat" && !is_own => "compatible",
        None => own,
    };
    let line = json!({"wire": wire, "server": server, "beta": beta, "body": body});
    let kept = writeln!(file.lock(), "{line}");
    kept.unwrap_or_else(|error| panic!("cannot capture a request: {error}"));
}
