//! Recordings of answers, by a server that speaks OpenAI's `/audio/speech`.
//!
//! The form: <https://platform.openai.com/docs/api-reference/audio/createSpeech>: JSON with `model`, `input` of at most 4,096
//! characters, `voice` and `response_format`; `opus` is Opus in Ogg, which chat networks play as a voice message.

use std::time::Duration;

use cairn_types::ports::{NoSpeech, Speaker};
use cairn_types::wire::body::{self, BodyError};
use futures::future::BoxFuture;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes of a recording: what every network takes.
const SOUND_MAX: usize = 10 << 20;

/// Most characters that the API takes.
const INPUT_CHARS: usize = 4_096;

/// The first bytes of an Ogg page, and those of the header that an Opus stream begins with, which the first page has alone
/// (RFC 7845, section 3).
const OGG: &[u8] = b"OggS";
const OPUS_HEAD: &[u8] = b"OpusHead";

/// Bytes of the header of an Ogg page with one segment (RFC 3533, section 6).
const OGG_HEAD: usize = 28;

/// How to reach the server.
#[derive(Debug, Clone)]
pub struct SpeechSettings {
    /// Up to and without `/audio/speech`.
    pub base_url: String,
    pub key: Option<SecretString>,
    pub model: String,
    pub voice: String,
    /// Longest wait for one recording.
    pub time_limit: Duration,
}

/// Turns answers into recordings.
#[derive(Debug)]
pub struct Speech {
    client: Client,
    url: Url,
    settings: SpeechSettings,
}

impl Speech {
    /// # Errors
    /// The address is none, or the HTTP client cannot be built.
    pub fn new(settings: SpeechSettings) -> Result<Self, NoSpeech> {
        let url = format!("{}/audio/speech", settings.base_url.trim_end_matches('/'));
        let url = Url::parse(&url).map_err(|_| NoSpeech::Address)?;
        let client = Client::builder().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT);
        let client = client.build().map_err(|_| NoSpeech::Address)?;
        Ok(Self { client, url, settings })
    }

    async fn ask(&self, input: &str) -> Result<Vec<u8>, NoSpeech> {
        let SpeechSettings { model, voice, key, time_limit, .. } = &self.settings;
        let asked = json!({ "model": model, "input": input, "voice": voice, "response_format": "opus" });
        let mut request = self.client.post(self.url.clone()).timeout(*time_limit).json(&asked);
        if let Some(key) = key {
            request = request.bearer_auth(key.expose_secret());
        }
        let response = request.send().await.map_err(|error| transport(&error))?;
        if !response.status().is_success() {
            return Err(NoSpeech::Status(response.status().as_u16()));
        }
        let sound = body::read_whole(response.bytes_stream(), SOUND_MAX).await;
        let sound = sound.map_err(|short| match short {
            BodyError::TooLarge => NoSpeech::Garbled,
            BodyError::Broken(error) => transport(&error),
        })?;
        let is_opus = sound.starts_with(OGG)
            && sound.get(OGG_HEAD..).is_some_and(|packet| packet.starts_with(OPUS_HEAD));
        if is_opus { Ok(sound) } else { Err(NoSpeech::Garbled) }
    }
}

impl Speaker for Speech {
    fn speak(&self, answer: String) -> BoxFuture<'_, Result<Vec<u8>, NoSpeech>> {
        Box::pin(async move {
            let input = spoken(&answer);
            if input.is_empty() { Err(NoSpeech::Nothing) } else { self.ask(&input).await }
        })
    }
}

fn transport(error: &reqwest::Error) -> NoSpeech {
    NoSpeech::Transport(match error {
        error if error.is_timeout() => "it took too long",
        error if error.is_connect() => "there is no connection to the server",
        _ => "the connection broke",
    })
}

/// What is spoken of a text in Markdown: its words without their markup. Code blocks, tables, pictures and HTML are left out.
/// It ends with a sentence, or a word, where it is longer than the API takes.
pub(crate) fn spoken(markdown: &str) -> String {
    // More Markdown than this has more words than are spoken, but for code and tables.
    let markdown = &markdown[..markdown.floor_char_boundary(64 * INPUT_CHARS)];
    let (mut out, mut left_out) = (String::new(), 0_usize);
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::Table(_) | Tag::Image { .. } | Tag::HtmlBlock) => {
                left_out += 1
            }
            Event::End(TagEnd::CodeBlock | TagEnd::Table | TagEnd::Image | TagEnd::HtmlBlock) => {
                left_out = left_out.saturating_sub(1);
            }
            _ if left_out > 0 => {}
            Event::Text(text) | Event::Code(text) => out.push_str(&text),
            Event::SoftBreak => out.push(' '),
            Event::HardBreak
            | Event::Start(Tag::Item | Tag::BlockQuote(_))
            | Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::BlockQuote(_)) => {
                out.push('\n');
            }
            _ => {}
        }
    }
    let lines: Vec<&str> =
        out.lines().map(str::trim).filter(|line| line.chars().any(char::is_alphanumeric)).collect();
    shortened(&lines.join("\n"))
}

fn shortened(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(INPUT_CHARS) else { return text.to_owned() };
    let head = &text[..end];
    let sentence = [". ", "! ", "? ", ".\n", "!\n", "?\n"].iter().filter_map(|mark| head.rfind(mark)).max();
    let sentence = sentence.map(|at| at + 1).filter(|at| *at > head.len() / 2);
    let end = sentence.or_else(|| head.rfind(char::is_whitespace)).unwrap_or(head.len());
    head[..end].trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_code_and_tables_are_not_spoken() {
        for (markdown, expected) in [
            ("Hello **Ann**, see [the page](https://a.example/x).", "Hello Ann, see the page."),
            ("# Title\n\n- one\n- `two`\n\n> said", "Title\none\ntwo\nsaid"),
            ("- one\n  - two\n- three\n  > four", "one\ntwo\nthree\nfour"),
            ("Before\n\n```rust\nfn main() {}\n```\n\nafter", "Before\nafter"),
            ("| a | b |\n| - | - |\n| 1 | 2 |\n\nDone.", "Done."),
            ("![a cat](https://a.example/c.png)\n\n<b>bold</b>\n\n---\n\n***", "bold"),
            ("```\nonly code\n```", ""),
        ] {
            assert_eq!(spoken(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn what_is_too_long_ends_with_a_sentence_or_a_word() {
        let long = "This is a sentence. ".repeat(400);
        let input = spoken(&long);
        assert!(input.chars().count() <= INPUT_CHARS && input.ends_with("sentence."), "{input}");
        let words = spoken(&"wörter ".repeat(2_000));
        assert!(words.chars().count() <= INPUT_CHARS && words.ends_with("wörter"));
        assert_eq!(spoken(&"x".repeat(5_000)).len(), INPUT_CHARS);
        assert!(!spoken(&"é".repeat(400_000)).is_empty());
    }
}
