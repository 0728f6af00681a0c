//! Turns the result of a tool call into message parts. Nothing is fetched: links stay links.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_types::message::{Part, text_of};
use cairn_types::tool::{OutputFile, ToolOutput};
use rmcp::model::{ContentBlock, ResourceContents, ServerResult};
use serde_json::Value;

use super::child::Secrets;

/// Largest picture, in bytes.
const IMAGE_BYTES_MAX: usize = 5 * 1024 * 1024;

const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Longest name, type or address in a note, in characters.
const NOTE_CHARS: usize = 2_000;

/// Longest error, in bytes.
const ERROR_BYTES_MAX: usize = 16 * 1024;

const NO_RESULT: ResultError =
    ResultError::NoResult("it answers the call with something that is no result of a tool");

/// Why a call has no output.
#[derive(Debug, PartialEq)]
pub(super) enum ResultError {
    /// The tool reports a failure, with this text.
    Tool(String),
    /// The answer is not a tool result, for this reason.
    NoResult(&'static str),
}

/// Reads the answer to a call, without the server's secrets. Unknown kinds of content are replaced by a note.
pub(super) fn read(result: ServerResult, secrets: &Secrets) -> Result<ToolOutput, ResultError> {
    match &result {
        ServerResult::InputRequiredResult(_) => {
            return Err(ResultError::NoResult("it asks for input, which nobody here can give"));
        }
        ServerResult::CreateTaskResult(_) => {
            return Err(ResultError::NoResult("it answers with a task that goes on, which is not supported"));
        }
        _ => {}
    }
    let Ok(Value::Object(mut fields)) = serde_json::to_value(result) else { return Err(NO_RESULT) };
    let structured = fields.remove("structuredContent");
    let mut files = Vec::new();
    let mut parts: Vec<Part> = match (fields.remove("content"), &structured) {
        (Some(Value::Array(items)), _) => {
            files = items.iter().filter_map(file).collect();
            items.into_iter().map(part).collect()
        }
        (None, Some(_)) => Vec::new(),
        _ => return Err(NO_RESULT),
    };
    if parts.is_empty()
        && let Some(structured) = structured
    {
        parts.push(Part::text(structured.to_string()));
    }
    files
        .iter_mut()
        .filter_map(|file: &mut OutputFile| file.name.as_mut())
        .for_each(|name| secrets.hide(name));
    for part in &mut parts {
        if let Part::Text { text } = part {
            secrets.hide(text);
        }
    }
    if fields.get("isError") != Some(&Value::Bool(true)) {
        return Ok(ToolOutput { parts, files });
    }
    let words = text_of(&parts);
    Err(ResultError::Tool(match words.trim() {
        "" => "the tool failed and does not say why".to_owned(),
        _ => shortened(words),
    }))
}

/// Cuts a long error.
fn shortened(mut words: String) -> String {
    if words.len() > ERROR_BYTES_MAX {
        let bytes = words.len();
        words.truncate(words.floor_char_boundary(ERROR_BYTES_MAX));
        words.push_str(&format!(" [cut: {bytes} bytes in all]"));
    }
    words
}

/// The file of a block of content, if it has one: a picture, a sound, or an embedded resource of bytes. Text resources are
/// read by the model, and are no files.
fn file(content: &Value) -> Option<OutputFile> {
    let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
    let (holder, data, name) = match content.get("type")?.as_str()? {
        "image" | "audio" => (content, "data", None),
        "resource" => {
            let resource = content.get("resource")?;
            (resource, "blob", text(resource, "uri"))
        }
        _ => return None,
    };
    let data = STANDARD.decode(holder.get(data)?.as_str()?).ok().filter(|data| !data.is_empty())?;
    let media_type = text(holder, "mimeType").map(|kind| plain_type(&kind)).filter(|kind| kind.contains('/'));
    let media_type = media_type.unwrap_or_else(|| "application/octet-stream".to_owned());
    Some(OutputFile { name: name.map(|name| note(&name)), media_type, data, is_sent: true })
}

/// A media type without its parameters.
fn plain_type(media_type: &str) -> String {
    let kind = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    note(&kind).chars().take(100).collect()
}

fn part(content: Value) -> Part {
    let kind = content.get("type").and_then(Value::as_str).map(note);
    match serde_json::from_value(content) {
        Ok(ContentBlock::Text(text)) => Part::text(text.text),
        Ok(ContentBlock::Image(image)) => picture(None, &image.mime_type, image.data, "image"),
        Ok(ContentBlock::Audio(audio)) => Part::text(format!(
            "[audio, {}, {} bytes: not shown]",
            note(&audio.mime_type),
            decoded_bytes(&audio.data)
        )),
        Ok(ContentBlock::Resource(embedded)) => resource(embedded.resource),
        Ok(ContentBlock::ResourceLink(link)) => Part::text(format!(
            "[link: {} {}]",
            note(link.title.as_ref().unwrap_or(&link.name)),
            note(&link.uri)
        )),
        Ok(_) | Err(_) => Part::text(match kind {
            Some(kind) => format!("[content of the kind `{kind}`: not shown]"),
            None => "[content of an unknown kind: not shown]".to_owned(),
        }),
    }
}

fn resource(contents: ResourceContents) -> Part {
    match contents {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            Part::text(format!("[resource: {}]\n{text}", note(&uri)))
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            let kind = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
            picture(Some(uri), &kind, blob, "resource")
        }
        _ => Part::text("[content of the kind `resource`: not shown]"),
    }
}

/// A picture, or a note about it if it cannot be shown.
fn picture(uri: Option<String>, media_type: &str, data: String, what: &str) -> Part {
    let kind = plain_type(media_type);
    let bytes = decoded_bytes(&data);
    let named = uri.as_deref().map(|uri| format!(" {}", note(uri))).unwrap_or_default();
    let in_words = |why: &str| {
        Part::text(format!("[{what}{named}, {}, {bytes} bytes: not shown{why}]", note(media_type)))
    };
    if !IMAGE_TYPES.contains(&kind.as_str()) {
        return in_words("");
    }
    if bytes > IMAGE_BYTES_MAX {
        return in_words(", larger than 5 MiB");
    }
    if data.is_empty() || STANDARD.decode(data.as_bytes()).is_err() {
        return in_words(", not in base64");
    }
    Part::Image { name: uri.map(|uri| note(&uri)), media_type: kind, data }
}

/// The number of bytes in a base64 text.
fn decoded_bytes(data: &str) -> usize {
    let digits = data.trim_end_matches('=').len();
    digits / 4 * 3 + (digits % 4).saturating_sub(1)
}

/// Makes a server's text fit for a note: short, on one line, and without square brackets.
fn note(text: &str) -> String {
    let plain = |c: char| match c {
        '[' => '(',
        ']' => ')',
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars().take(NOTE_CHARS).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// As it comes in: through the same reading as from the wire.
    fn read_json(result: &Value) -> Result<ToolOutput, ResultError> {
        read(serde_json::from_value(result.clone()).unwrap(), &Secrets::default())
    }

    fn words(result: &Value) -> String {
        read_json(result).unwrap().words()
    }

    const PIXEL: &str = "iVBORw0KGgo=";

    #[rstest]
    #[case(json!({ "type": "text", "text": "plain" }), "plain")]
    #[case(json!({ "type": "audio", "mimeType": "audio/wav", "data": PIXEL }), "[audio, audio/wav, 8 bytes: not shown]")]
    #[case(json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "words" } }), "[resource: file:///a]\nwords")]
    #[case(json!({ "type": "resource", "resource": { "uri": "file:///a", "blob": PIXEL } }),
        "[resource file:///a, application/octet-stream, 8 bytes: not shown]")]
    #[case(json!({ "type": "resource_link", "name": "a]\nb", "uri": "http://10.0.0.1/" }), "[link: a) b http://10.0.0.1/]")]
    #[case(json!({ "type": "image", "mimeType": "image/svg+xml", "data": PIXEL }), "[image, image/svg+xml, 8 bytes: not shown]")]
    #[case(json!({ "type": "image", "mimeType": "image/png", "data": "not base64!" }),
        "[image, image/png, 8 bytes: not shown, not in base64]")]
    #[case(json!({ "type": "hologram", "data": "x" }), "[content of the kind `hologram`: not shown]")]
    #[case(json!("words"), "[content of an unknown kind: not shown]")]
    fn content_becomes_words(#[case] content: Value, #[case] expected: &str) {
        assert_eq!(words(&json!({ "content": [content] })), expected);
    }

    #[test]
    fn pictures_stay_pictures_up_to_a_size() {
        let image =
            |data: &str| json!({ "content": [{ "type": "image", "mimeType": "image/PNG", "data": data }] });
        let expected = Part::Image { name: None, media_type: "image/png".to_owned(), data: PIXEL.to_owned() };
        assert_eq!(
            read_json(&image(PIXEL)),
            Ok(ToolOutput {
                parts: vec![expected],
                files: vec![OutputFile {
                    name: None,
                    media_type: "image/png".to_owned(),
                    data: STANDARD.decode(PIXEL).unwrap(),
                    is_sent: true,
                }]
            })
        );
        let large = "A".repeat(8 * 1024 * 1024);
        assert!(words(&image(&large)).contains("larger than 5 MiB"));
        let blob = json!({ "content": [{ "type": "resource",
            "resource": { "uri": "file:///a.png", "mimeType": "image/png", "blob": PIXEL } }] });
        let output = read_json(&blob).unwrap();
        assert!(matches!(&output.parts[0], Part::Image { name: Some(name), .. } if name == "file:///a.png"));
    }

    #[test]
    fn a_result_without_content_gives_its_data() {
        assert_eq!(words(&json!({ "content": [], "structuredContent": { "a": 1 } })), r#"{"a":1}"#);
        assert_eq!(
            words(&json!({ "content": [{ "type": "text", "text": "t" }], "structuredContent": 1 })),
            "t"
        );
        assert_eq!(words(&json!({ "content": [] })), "");
    }

    #[rstest]
    #[case(json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true }), "no such file")]
    #[case(json!({ "content": [], "isError": true }), "the tool failed and does not say why")]
    #[case(json!({ "content": [{ "type": "new" }], "isError": true }), "[content of the kind `new`: not shown]")]
    fn a_tool_that_failed_says_why(#[case] result: Value, #[case] expected: &str) {
        assert_eq!(read_json(&result), Err(ResultError::Tool(expected.to_owned())));
    }

    #[rstest]
    #[case(json!({}))]
    #[case(json!({ "tools": [] }))]
    #[case(json!({ "content": "words" }))]
    #[case(json!("words"))]
    fn what_is_no_result_is_an_error(#[case] result: Value) {
        assert!(matches!(read_json(&result), Err(ResultError::NoResult(_))), "{result}");
    }

    #[test]
    fn a_very_long_error_is_cut() {
        let error = shortened("ä".repeat(20_000));
        assert!(error.len() < 17_000 && error.ends_with("[cut: 40000 bytes in all]"));
    }
    #[rstest]
    #[case(json!({ "content": [{ "type": "text", "text": "TOKEN=s3cret-value" }] }))]
    #[case(json!({ "content": [{ "type": "resource", "resource": { "uri": "file:///s3cret-value", "text": "s3cret-value" } }] }))]
    #[case(json!({ "content": [{ "type": "resource_link", "name": "a", "uri": "http://h/?key=s3cret-value" }] }))]
    #[case(json!({ "content": [], "structuredContent": { "env": ["s3cret-value"] } }))]
    #[case(json!({ "content": [{ "type": "text", "text": format!("{} s3cret-value", "x".repeat(ERROR_BYTES_MAX - 8)) }], "isError": true }))]
    fn no_secret_of_the_server_is_in_a_result(#[case] result: Value) {
        let secrets = Secrets::of(&["s3cret-value".into()]);
        let words = match read(serde_json::from_value(result).unwrap(), &secrets) {
            Ok(output) => output.words(),
            Err(ResultError::Tool(words)) => words,
            Err(ResultError::NoResult(why)) => panic!("{why}"),
        };
        assert!(words.contains("***") && !words.contains("s3cret"), "{words}");
    }
}
