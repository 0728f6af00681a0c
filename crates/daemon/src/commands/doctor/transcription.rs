//! The server that turns voice messages into words.

use cairn_platforms::attach::{Attachment, NoWords};
use cairn_server::parts::networks::transcriber;
use tokio::time::timeout;

use crate::commands::doctor::Examination;
use crate::commands::doctor::report::Finding;

const CHECK: &str = "transcribe";

/// Half a second of silence, as 16-bit samples at 16 kHz.
const SILENCE: usize = 16_000;

/// Sends a short silence, if `[transcribe]` is used.
pub(super) async fn check(x: &mut Examination) -> Vec<Finding> {
    let Some(transcriber) = x.loaded.as_ref().and_then(transcriber) else { return Vec::new() };
    if x.offline {
        return vec![Finding::skipped(CHECK, "not checked (--offline)")];
    }
    let silence = Attachment { name: "silence.wav", media_type: Some("audio/wav"), size: None };
    let asked = async { transcriber?.words(&silence, wav()).await };
    let (why, remedy) = match timeout(x.limit, asked).await {
        // What a model makes of silence is its own affair.
        Ok(Ok(_) | Err(NoWords::Silence)) => {
            return vec![Finding::ok(CHECK, "the server takes recordings")];
        }
        Ok(Err(error)) => (error.to_string(), remedy(&error)),
        Err(_) => (format!("no answer within {} s", x.limit.as_secs()), "is the server overloaded?"),
    };
    vec![Finding::failed(CHECK, why, remedy)]
}

fn remedy(error: &NoWords) -> &'static str {
    match error {
        NoWords::Status(401 | 403) => "correct `api_key_env` or `api_key_file` of [transcribe]",
        NoWords::Status(404 | 405) => "correct `base_url` and `model` of [transcribe]",
        NoWords::Status(_) => "look at the server's log; whisper.cpp needs --convert for voice messages",
        _ => "correct `base_url` of [transcribe], or start the server",
    }
}

/// The silence as a WAV file: <https://www.rfc-editor.org/rfc/rfc2361>, PCM with one channel.
fn wav() -> Vec<u8> {
    let size = SILENCE as u32;
    let mut out = Vec::with_capacity(SILENCE + 44);
    out.extend_from_slice(b"RIFF");
    out.extend_from_slice(&(size + 36).to_le_bytes());
    out.extend_from_slice(b"WAVEfmt ");
    out.extend_from_slice(&16_u32.to_le_bytes());
    out.extend_from_slice(&[1, 0, 1, 0]);
    out.extend_from_slice(&16_000_u32.to_le_bytes());
    out.extend_from_slice(&32_000_u32.to_le_bytes());
    out.extend_from_slice(&[2, 0, 16, 0]);
    out.extend_from_slice(b"data");
    out.extend_from_slice(&size.to_le_bytes());
    out.resize(out.len() + SILENCE, 0);
    out
}
