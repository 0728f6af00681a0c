//! How a language's file is read and checked against English.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Key, Template, Texts};

/// Most characters of a text: what is filled in has room beside it in a message of any network.
pub const TEXT_MAX: usize = 1_000;

/// Most characters of a command's line: Discord takes no more.
const COMMAND_MAX: usize = 100;

/// Most characters of a button. Discord takes 80; more than this is no word.
const BUTTON_MAX: usize = 20;

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Forms { one: Option<String>, few: Option<String>, many: Option<String>, other: String },
    Labels(BTreeMap<String, String>),
}

impl Texts {
    /// Reads a file. `base`: what it leaves out is said in this language; `None`: it leaves nothing out.
    ///
    /// # Errors
    /// It is no TOML, a text is missing, empty, too long or unknown, or has other placeholders than in English. The message says which.
    pub fn read(tag: &str, file: &str, base: Option<&Self>) -> Result<Self, String> {
        let mut written: BTreeMap<String, Written> =
            toml::from_str(file).map_err(|error| error.message().to_owned())?;
        let labels = match written.remove("labels") {
            None => BTreeMap::new(),
            Some(Written::Labels(labels)) => labels,
            Some(Written::Text(_) | Written::Forms { .. }) => {
                return Err("`labels` is no table of words".to_owned());
            }
        };
        let mut texts = Vec::with_capacity(Key::ALL.len());
        for key in Key::ALL {
            let name = key.name();
            let english = base.and_then(|base| base.texts.get(*key as usize));
            let template = match (written.remove(name), english) {
                (Some(Written::Text(other)), _) => Template { one: None, few: None, many: None, other },
                (Some(Written::Forms { one, few, many, other }), _) => Template { one, few, many, other },
                (Some(Written::Labels(_)), _) => return Err(format!("`{name}` has no form `other`")),
                (None, Some(english)) => english.clone(),
                (None, None) => return Err(format!("`{name}` is missing")),
            };
            check(*key, &template, english.unwrap_or(&template))?;
            texts.push(template);
        }
        if let Some(unknown) = written.keys().next() {
            return Err(format!("`{unknown}` is no text of the bot; prompts/texts/en.toml has all keys"));
        }
        check_labels(&labels, base)?;
        Ok(Self { tag: tag.to_owned(), texts, labels })
    }
}

fn check(key: Key, template: &Template, english: &Template) -> Result<(), String> {
    let name = key.name();
    let max = match name {
        _ if name.starts_with("command_") && key != Key::CommandFailed && key != Key::CommandGone => {
            COMMAND_MAX
        }
        _ if name.starts_with("button_") => BUTTON_MAX,
        _ => TEXT_MAX,
    };
    let wanted = placeholders(&english.other);
    let forms = [&template.one, &template.few, &template.many];
    for text in forms.into_iter().flatten().chain([&template.other]) {
        if text.trim().is_empty() {
            return Err(format!("`{name}` is empty"));
        }
        if text.chars().count() > max {
            return Err(format!("`{name}` is longer than {max} characters"));
        }
        if placeholders(text) != wanted {
            let wanted: Vec<String> = wanted.iter().map(|one| format!("{{{one}}}")).collect();
            return Err(format!("`{name}` needs these placeholders and no others: {}", wanted.join(" ")));
        }
    }
    Ok(())
}

fn check_labels(labels: &BTreeMap<String, String>, base: Option<&Texts>) -> Result<(), String> {
    let unknown = labels.keys().find(|label| base.is_some_and(|base| !base.labels.contains_key(*label)));
    if let Some(unknown) = unknown {
        return Err(format!("`labels` has no word `{unknown}`; prompts/texts/en.toml has them all"));
    }
    match labels.iter().find(|(_, word)| word.trim().is_empty()) {
        Some((empty, _)) => Err(format!("`{empty}` of `labels` is empty")),
        None => Ok(()),
    }
}

/// The names of a text's placeholders.
pub fn placeholders(text: &str) -> BTreeSet<&str> {
    pieces(text).filter_map(|(_, name)| name).collect()
}

/// Puts values in the places of the placeholders. One without a value stays as it is.
pub(super) fn fill(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(template.len() * 2);
    for (before, name) in pieces(template) {
        out.push_str(before);
        let Some(name) = name else { continue };
        let value = value(name);
        debug_assert!(value.is_some(), "{name} of {template:?} has no value");
        out.push_str(&value.unwrap_or_else(|| format!("{{{name}}}")));
    }
    out
}

/// The pieces of a template, each with the placeholder behind it.
fn pieces(template: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = Some(template);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let is_name =
            |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let found = text.match_indices('{').find_map(|(start, _)| {
            let end = start + text[start..].find('}')?;
            is_name(&text[start + 1..end]).then_some((start, end))
        });
        Some(match found {
            Some((start, end)) => {
                rest = Some(&text[end + 1..]);
                (&text[..start], Some(&text[start + 1..end]))
            }
            None => (text, None),
        })
    })
}
