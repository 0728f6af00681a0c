//! What the tools of the runtime do.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::frame::Frame;
use super::step::{Step, answer};

/// A picture of two by two points, in PNG.
pub const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEklEQVR4nGP4z8DAAMIM/4EAAB/uBfsL2WiLAAAAAElFTkSuQmCC";

/// A sound of a thousandth of a second, in WAV.
pub const WAV: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

/// Size in which the memory of `eat` is taken.
const MIB: usize = 1 << 20;

const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn image() -> Value {
    json!({ "type": "image", "data": PNG, "mimeType": "image/png" })
}

fn audio() -> Value {
    json!({ "type": "audio", "data": WAV, "mimeType": "audio/wav" })
}

fn link() -> Value {
    json!({
        "type": "resource_link", "uri": "https://example.org/report.pdf", "name": "report.pdf",
        "description": "The report", "mimeType": "application/pdf",
    })
}

fn resource(blob: bool) -> Value {
    let resource = match blob {
        true => {
            json!({ "uri": "file:///blob.bin", "mimeType": "application/octet-stream", "blob": "AAECAwQ=" })
        }
        false => {
            json!({ "uri": "file:///notes.txt", "mimeType": "text/plain", "text": "the text of a resource" })
        }
    };
    json!({ "type": "resource", "resource": resource })
}

pub(super) fn steps(tool: &str, arguments: &Value, id: &Value) -> Vec<Step> {
    let said = |content: Vec<Value>| vec![answer(id, &json!({ "content": content }))];
    let number = |name: &str| arguments[name].as_u64().unwrap_or_default();
    let flag = |name: &str| arguments[name] == json!(true);
    match tool {
        "echo" => said(vec![text(arguments["text"].as_str().unwrap_or_default())]),
        "add" => {
            let sum =
                arguments["a"].as_f64().unwrap_or_default() + arguments["b"].as_f64().unwrap_or_default();
            said(vec![text(&sum.to_string())])
        }
        "slow" => {
            let pause = Duration::from_millis(number("ms")).min(DAY);
            [vec![Step::Wait(pause)], said(vec![text("at last")])].concat()
        }
        "hang" => vec![Step::Never],
        "gate" => {
            let path = PathBuf::from(arguments["path"].as_str().unwrap_or_default());
            [vec![Step::Until(path)], said(vec![text("it is open")])].concat()
        }
        "die" => vec![Step::Exit],
        "fail" => {
            let words = arguments["text"].as_str().unwrap_or("it went wrong");
            vec![answer(id, &json!({ "content": [text(words)], "isError": true }))]
        }
        "image" => said(vec![image()]),
        "audio" => said(vec![audio()]),
        "link" => said(vec![link()]),
        "resource" => said(vec![resource(flag("blob"))]),
        "structured" => vec![answer(
            id,
            &json!({ "content": [], "structuredContent": { "temperature": 21.5, "unit": "C" } }),
        )],
        "big" => vec![Step::Send(Frame::Huge { id: id.clone(), bytes: number("bytes") })],
        "mixed" => {
            said(vec![text("first"), image(), link(), resource(false), resource(true), audio(), text("last")])
        }
        "nothing" => said(Vec::new()),
        "change" => {
            let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
            [vec![Step::Notify(changed)], said(vec![text("it has changed")])].concat()
        }
        "eat" => vec![answer(id, &eat(number("mib")))],
        "open" => vec![answer(id, &open(number("files")))],
        "write" | "unmarked" => said(vec![text("done")]),
        _ => said(vec![text(&arguments.to_string())]),
    }
}

/// Takes memory, and writes to it, until there is none.
fn eat(mib: u64) -> Value {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    for n in 0..mib {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(MIB).is_err() {
            drop(taken);
            let words = format!("no memory after {n} MiB");
            return json!({ "content": [text(&words)], "isError": true });
        }
        piece.resize(MIB, 1);
        taken.push(piece);
    }
    json!({ "content": [text(&format!("took {} MiB", taken.len()))] })
}

fn open(files: u64) -> Value {
    let mut opened = Vec::new();
    for n in 0..files {
        match std::fs::File::open("/dev/null") {
            Ok(file) => opened.push(file),
            Err(error) => {
                drop(opened);
                let words = format!("{n} files opened: {error}");
                return json!({ "content": [text(&words)], "isError": true });
            }
        }
    }
    json!({ "content": [text(&format!("opened {} files", opened.len()))] })
}
