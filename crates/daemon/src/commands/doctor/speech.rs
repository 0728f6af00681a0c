//! The server that speaks answers to voice messages.

use cairn_server::parts::networks::speech;
use cairn_types::ports::{NoSpeech, Speaker as _};
use tokio::time::timeout;

use crate::commands::doctor::Examination;
use crate::commands::doctor::report::Finding;

const CHECK: &str = "speak";

/// Has one word spoken, if `[speak]` is used.
pub(super) async fn check(x: &mut Examination) -> Vec<Finding> {
    let Some(speech) = x.loaded.as_ref().and_then(speech) else { return Vec::new() };
    if x.offline {
        return vec![Finding::skipped(CHECK, "not checked (--offline)")];
    }
    let asked = async { speech?.speak("Hello".to_owned()).await };
    let (why, remedy) = match timeout(x.limit, asked).await {
        Ok(Ok(_)) => return vec![Finding::ok(CHECK, "the server speaks")],
        Ok(Err(error)) => (error.to_string(), remedy(error)),
        Err(_) => (format!("no answer within {} s", x.limit.as_secs()), "is the server overloaded?"),
    };
    vec![Finding::failed(CHECK, why, remedy)]
}

fn remedy(error: NoSpeech) -> &'static str {
    match error {
        NoSpeech::Status(401 | 403) => "correct `api_key_env` or `api_key_file` of [speak]",
        NoSpeech::Status(400 | 404 | 405 | 422) => "correct `base_url`, `model` and `voice` of [speak]",
        NoSpeech::Status(_) => "look at the server's log",
        NoSpeech::Garbled => {
            "the server must be able to answer with response_format \"opus\"; look at its log"
        }
        NoSpeech::Address | NoSpeech::Transport(_) | NoSpeech::Nothing => {
            "correct `base_url` of [speak], or start the server"
        }
    }
}
