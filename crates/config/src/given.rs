//! Checks of single values before they are written into a file, as `cairn init` needs them. The rules are those of the file.

use std::path::Path;

use super::check::{trimmed, url_trouble};
use super::env::Environment;
use super::secrets::{SecretSource, is_variable, looks_secret};
use super::types::{NetworkKind, Provider, WINDOW_MAX, WINDOW_MIN, is_bridge_name, is_id};
use super::url;

/// What is wrong with the address of a model's server, in a sentence.
pub fn base_url_trouble(address: &str, provider: Provider) -> Option<String> {
    let address = trimmed(address);
    let trouble = url_trouble(address, provider)?;
    Some(format!("`base_url` = \"{}\" {trouble}", url::shown(address)))
}

/// What is wrong with a window, in a sentence.
fn window_trouble(tokens: u64) -> Option<String> {
    (!(WINDOW_MIN..=WINDOW_MAX).contains(&tokens))
        .then(|| format!("write a number of tokens from {WINDOW_MIN} to {WINDOW_MAX}"))
}

/// A window as people write it: `32000`, `32,000`, `16k`, `1m`. `k` is a thousand, as in a model's name: where a server
/// means 1,024, the window is a little smaller than it could be, and no request is refused.
///
/// # Errors
/// It is no number, or out of range; in a sentence.
pub fn window_of(text: &str) -> Result<u64, String> {
    let text = text.trim().to_lowercase();
    let (digits, unit) = match (text.strip_suffix('k'), text.strip_suffix('m')) {
        (Some(digits), _) => (digits, 1_000),
        (None, Some(digits)) => (digits, 1_000_000),
        (None, None) => (text.as_str(), 1),
    };
    let digits = digits.replace([',', '_', ' '], "");
    let tokens = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
    let tokens = tokens.ok_or("write a number, such as 32000 or 32k")?;
    window_trouble(tokens).map_or(Ok(tokens), Err)
}

/// Whether a text is the id of a person or a server on that network.
pub fn is_id_of_one(text: &str, network: NetworkKind) -> bool {
    // TOML's whole numbers are 64-bit and signed.
    is_id(text, network) && text.parse::<i64>().is_ok_and(|id| id > 0)
}

/// Whether a text names a person of a chat network: `PLATFORM/USER`.
pub fn is_person(text: &str) -> bool {
    text.split_once('/').is_some_and(|(platform, id)| match NetworkKind::of_platform(platform) {
        Some(kind) => is_id(id, kind),
        None => is_bridge_name(platform) && is_id(id, NetworkKind::Bridge),
    })
}

/// Why a named variable or file does not give a secret, in words. `NotYet`: it can still be created or made readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoSecret {
    NotYet(String),
    Never(String),
}

/// Whether a secret is in that variable.
///
/// # Errors
/// It is not, or `name` is not a name.
pub fn secret_in_variable(name: &str, env: &dyn Environment) -> Result<(), NoSecret> {
    if looks_secret(name) {
        let told =
            "that is the key itself: name the variable that holds it, and get a new key if this was seen";
        return Err(NoSecret::Never(told.to_owned()));
    }
    if !is_variable(name) {
        return Err(NoSecret::Never("that is no name of a variable: write it as $OPENAI_API_KEY".to_owned()));
    }
    match env.var(name) {
        Some(_) => Ok(()),
        None => Err(NoSecret::NotYet(format!("${name} is not set"))),
    }
}

/// Whether a secret (`what` in a word) is in that file.
///
/// # Errors
/// It is not, or the content is not a secret. The content is never shown.
pub fn secret_in_file(what: &'static str, file: &Path, env: &dyn Environment) -> Result<(), NoSecret> {
    let shown = file.display();
    if file.file_name().is_some_and(|name| looks_secret(&name.to_string_lossy())) {
        let told =
            "that is the token itself: name the file that holds it, and get a new token if this was seen";
        return Err(NoSecret::Never(told.to_owned()));
    }
    match std::fs::metadata(file) {
        Ok(meta) if meta.is_dir() => {
            return Err(NoSecret::Never(format!("{shown} is a folder: name the file in it")));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(NoSecret::NotYet(format!("there is no file {shown}")));
        }
        Ok(_) | Err(_) => {}
    }
    let named = SecretSource { what, env_key: "", variable: None, file: Some(file), is_word: true };
    match named.read(env) {
        None | Some(Ok(_)) => Ok(()),
        Some(Err(why)) if std::fs::File::open(file).is_err() => Err(NoSecret::NotYet(why.to_string())),
        Some(Err(why)) => Err(NoSecret::Never(format!("{shown}: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_read_as_people_write_it() {
        for (text, tokens) in [
            ("32000", Some(32_000)),
            ("32,000", Some(32_000)),
            ("16k", Some(16_000)),
            ("128K", Some(128_000)),
            (" 1m ", Some(1_000_000)),
            ("200 k", Some(200_000)),
            ("512", Some(512)),
            ("12", None),
            ("1.5m", None),
            ("k", None),
            ("-4k", None),
            ("many", None),
            ("99999999999999999999m", None),
        ] {
            assert_eq!(window_of(text).ok(), tokens, "{text}");
        }
    }
}
