//! Keys of models, tokens of bots, secrets of tool servers: read from a variable or a file, and never shown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};

use super::env::Environment;
use super::types::{McpConfig, ModelConfig};

/// Reads the key of a server. A missing key is a warning: the daemon starts, and the server's requests are refused. `place`: whose
/// it is.
///
/// # Errors
/// The key has characters that no header accepts.
pub(super) fn read_key(
    place: &str,
    (variable, file): (Option<&str>, Option<&Path>),
    env: &dyn Environment,
    warnings: &mut Vec<String>,
) -> Result<Option<SecretString>, String> {
    let from = SecretSource { what: "key", env_key: "api_key_env", variable, file, is_word: true };
    let mut warn = |text: String| warnings.push(format!("{place}: {text}"));
    match from.read(env) {
        Some(Ok((key, warning))) => {
            warning.into_iter().for_each(warn);
            Ok(Some(key))
        }
        Some(Err(Unread::Absent(why))) => {
            warn(format!("{why}; no key is sent"));
            Ok(None)
        }
        Some(Err(Unread::Unusable(why))) => Err(why),
        None => Ok(None),
    }
}

/// Reads a model's secret headers. A missing one is a warning: requests are sent without it.
pub(super) fn read_headers(
    model: &ModelConfig,
    env: &dyn Environment,
    warnings: &mut Vec<String>,
) -> BTreeMap<String, SecretString> {
    let mut out = BTreeMap::new();
    for (name, variable) in &model.extra_headers_from_env {
        let (env_key, variable) = ("extra_headers_from_env", Some(variable.as_str()));
        let from = SecretSource { what: "value", env_key, variable, file: None, is_word: false };
        match from.read(env) {
            Some(Ok((value, _))) => drop(out.insert(name.clone(), value)),
            Some(Err(why)) => {
                warnings.push(format!("model `{}`: the header `{name}`: {why}; it is left out", model.id));
            }
            None => {}
        }
    }
    out
}

/// Why a named secret cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    /// It is missing, empty or unreadable.
    #[error("{0}")]
    Absent(String),
    /// It has characters that a secret cannot have.
    #[error("{0}")]
    Unusable(String),
}

/// Where a secret is, as the config file says.
pub(super) struct SecretSource<'c> {
    pub(super) what: &'c str,
    /// The config key that names the variable.
    pub(super) env_key: &'static str,
    pub(super) variable: Option<&'c str>,
    /// The file, as [`key_file`] found it.
    pub(super) file: Option<&'c Path>,
    /// It is one word, as keys and tokens are; otherwise one line, as a header's value.
    pub(super) is_word: bool,
}

impl SecretSource<'_> {
    /// The secret with a warning about it, or why there is none. `None`: no secret is named.
    pub(super) fn read(
        &self,
        env: &dyn Environment,
    ) -> Option<Result<(SecretString, Option<String>), Unread>> {
        let (text, warning) = match (self.variable, self.file) {
            (Some(name), _) => (self.of_variable(name, env), None),
            (None, Some(file)) => (self.of_file(file), warning_if_open(self.what, file)),
            (None, None) => return None,
        };
        let read = text.and_then(|text| {
            // Windows editors start a text with a byte order mark.
            let text = text.trim_start_matches(BYTE_ORDER_MARK).trim();
            let text = if self.is_word { bare(text) } else { text };
            match trouble(text, self.is_word) {
                None => Ok((SecretString::from(text.to_owned()), warning)),
                Some(why) if text.is_empty() => Err(Unread::Absent(format!("its {} {why}", self.what))),
                Some(why) => Err(Unread::Unusable(format!("its {} {why}", self.what))),
            }
        });
        Some(read)
    }

    fn of_variable(&self, name: &str, env: &dyn Environment) -> Result<String, Unread> {
        let key = self.env_key;
        if !names_variable(name) {
            return Err(Unread::Absent(format!("`{key}` is not the name of a variable; name one there")));
        }
        let value = env.var(name);
        let value =
            value.ok_or_else(|| Unread::Absent(format!("${name} is not set; set it or correct `{key}`")))?;
        Ok(value.into_string().unwrap_or_default())
    }

    fn of_file(&self, file: &Path) -> Result<String, Unread> {
        let (what, shown) = (self.what, file.display());
        let bytes = std::fs::read(file).map_err(|error| {
            Unread::Absent(match error.kind() {
                std::io::ErrorKind::IsADirectory => {
                    format!("the {what} file {shown} is a folder, name the file in it")
                }
                _ => format!("cannot read the {what} file {shown}: {error}"),
            })
        })?;
        String::from_utf8(bytes).map_err(|error| {
            let is_utf16 = UTF16_MARKS.iter().any(|mark| error.as_bytes().starts_with(mark));
            let found = if is_utf16 { "UTF-16" } else { "not UTF-8" };
            Unread::Unusable(format!("the {what} file {shown} is {found}; save it as UTF-8 or plain ASCII"))
        })
    }
}

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The first bytes of UTF-16 text, as Windows PowerShell writes it, in either byte order.
const UTF16_MARKS: [&[u8]; 2] = [&[0xff, 0xfe], &[0xfe, 0xff]];

/// A key or token without what people copy with it: `export NAME=` before it, quotes around it.
fn bare(text: &str) -> &str {
    let assigned = text.strip_prefix("export ").unwrap_or(text).trim_start();
    let value = assigned.split_once('=').filter(|(name, value)| {
        // Base64 ends with such signs; nothing else follows them.
        let is_padding = value.bytes().all(|byte| byte == b'=');
        is_variable(name) && !is_padding && name.bytes().all(|byte| !byte.is_ascii_lowercase())
    });
    let text = value.map_or(text, |(_, value)| value.trim());
    let unquoted = ['"', '\'']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)));
    unquoted.map_or(text, str::trim)
}

/// What is wrong with a secret, to follow its name in a sentence, without its characters. `is_word`: as in [`SecretSource`].
fn trouble(text: &str, is_word: bool) -> Option<String> {
    if text.is_empty() {
        return Some("is empty".to_owned());
    }
    let (at, found) = text.chars().enumerate().find_map(|(idx, c)| {
        let found = match c {
            '\n' | '\r' => "a line break".to_owned(),
            // Its code reveals nothing of the secret, and it cannot be seen in an editor.
            c if c.is_control() => format!("a control character (U+{:04X})", u32::from(c)),
            c if is_word && c.is_whitespace() => format!("a blank (U+{:04X})", u32::from(c)),
            c if is_word && !c.is_ascii() && !c.is_alphanumeric() => {
                format!("a sign that is not ASCII (U+{:04X})", u32::from(c))
            }
            c if is_word && !c.is_ascii() => "a letter that is not ASCII".to_owned(),
            _ => return None,
        };
        Some((idx + 1, found))
    })?;
    Some(format!("has {found} as character {at}: write it on one line, without anything else"))
}

/// The address of a database with the password of its account.
pub(super) fn with_password(url: &str, password: Option<&SecretString>) -> SecretString {
    let Some(password) = password else { return url.into() };
    let password = utf8_percent_encode(password.expose_secret(), NON_ALPHANUMERIC);
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (account, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    format!("{scheme}://{account}:{password}@{host}{path}").into()
}

/// Whether a text can be a key or a token: one word.
pub fn is_secret(text: &str) -> bool {
    trouble(text, true).is_none()
}

/// The path of a key file: absolute as it is; else among systemd's credentials if it is there, else beside the config file.
pub(super) fn key_file(path: &Path, config_dir: &Path, env: &dyn Environment) -> PathBuf {
    let credential = env.var("CREDENTIALS_DIRECTORY").map(|dir| PathBuf::from(dir).join(path));
    match credential {
        Some(file) if path.is_relative() && file.exists() => file,
        _ => config_dir.join(expanded(path, env)),
    }
}

/// A path with the home folder in the place of a `~` at its beginning, as a shell has it.
pub(super) fn expanded(path: &Path, env: &dyn Environment) -> PathBuf {
    let below = path.strip_prefix("~").ok();
    match (below, env.first_dir("HOME")) {
        (Some(below), Some(home)) => home.join(below),
        _ => path.to_owned(),
    }
}

/// Prefixes of well-known services' keys.
const KEY_PREFIXES: [&str; 12] =
    ["sk-", "sk_", "xai-", "gsk_", "hf_", "AIza", "ghp_", "github_pat_", "glpat-", "xoxb-", "r8_", "pplx-"];

/// From this length on, a run of letters and digits is no word or name.
const RUN_MIN: usize = 24;

/// Whether a text has the shape of a bot's token, or starts like a key of a well-known service.
fn is_token(text: &str) -> bool {
    let signs = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    let telegram = text.split_once(':').is_some_and(|(id, rest)| {
        id.len() >= 6 && id.bytes().all(|b| b.is_ascii_digit()) && rest.len() >= 30 && signs(rest)
    });
    let parts: Vec<usize> = text.split('.').map(str::len).collect();
    let discord = matches!(parts[..], [id, time, sign] if id >= 20 && (5..=7).contains(&time) && sign >= 25)
        && text.split('.').all(signs);
    let prefixed = text.len() >= 16 && KEY_PREFIXES.iter().any(|prefix| text.starts_with(prefix));
    telegram || discord || prefixed
}

/// Whether a text looks like a key or a token, pasted where something else belongs, such as the name of its variable.
pub(super) fn looks_secret(text: &str) -> bool {
    let mixed = |run: &str| {
        run.len() >= RUN_MIN
            && run.bytes().any(|b| b.is_ascii_digit())
            && run.bytes().any(|b| b.is_ascii_alphabetic())
    };
    // Folders may be named by long hashes.
    let random = !text.contains('/') && text.split(|c: char| !c.is_ascii_alphanumeric()).any(mixed);
    let uuid = text.len() == 36
        && text.bytes().enumerate().all(|(idx, b)| match idx {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        });
    is_token(text) || random || uuid
}

/// A text without what looks like a key or a token, so that it may be shown.
pub fn without_secrets(text: &str) -> String {
    let of_word = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|c| !of_word(c)).unwrap_or(rest.len()));
        let in_path = out.ends_with('/') || after.starts_with('/');
        let is_hidden = has_token(word) || (!in_path && looks_secret(word.trim_matches(['.', ':'])));
        out.push_str(if is_hidden { "…" } else { word });
        let between = after.find(of_word).unwrap_or(after.len());
        out.push_str(&after[..between]);
        rest = &after[between..];
    }
    out
}

/// Removes what looks like a key or a token from every text of a value.
pub(super) fn hide(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => *text = without_secrets(text),
        serde_json::Value::Array(items) => items.iter_mut().for_each(hide),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(hide),
        _ => {}
    }
}

/// Whether a word has a token in it, also after the `bot` of an address.
fn has_token(word: &str) -> bool {
    is_token(word.trim_matches(['.', ':']))
        || word.match_indices(':').any(|(at, _)| {
            let digits = word[..at].bytes().rev().take_while(u8::is_ascii_digit).count();
            let signs =
                word[at + 1..].bytes().take_while(|b| b.is_ascii_alphanumeric() || b"_-".contains(b)).count();
            digits >= 6 && signs >= 30
        })
}

/// Whether a text can be the name of an environment variable.
pub(super) fn is_variable(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether a text is the name of a variable, and not a key written in its place.
pub fn names_variable(text: &str) -> bool {
    is_variable(text) && !looks_secret(text)
}

fn warning_if_open(what: &str, file: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(file).map(|meta| meta.permissions().mode()).unwrap_or_default();
    (mode & 0o007 != 0).then(|| {
        format!("everybody on this machine may read the {what} file {0}; run `chmod 600 {0}`", file.display())
    })
}

/// The secret values of a tool server.
#[derive(Debug, Clone, Default)]
pub struct McpSecrets {
    /// Environment variables, by name.
    pub env: BTreeMap<String, SecretString>,
    /// HTTP headers, by name.
    pub headers: BTreeMap<String, SecretString>,
}

/// Reads the secrets of a tool server. A missing one is a warning: the server is run without it.
pub(super) fn read_mcp_secrets(
    server: &McpConfig,
    env: &dyn Environment,
    warnings: &mut Vec<String>,
) -> McpSecrets {
    let mut read =
        |what: &str, env_key, from_env: &BTreeMap<String, String>, from_file: &BTreeMap<String, PathBuf>| {
            let mut out = BTreeMap::new();
            let named = from_env.iter().map(|(name, variable)| (name, Some(variable.as_str()), None));
            let filed = from_file.iter().map(|(name, file)| (name, None, Some(file.as_path())));
            for (name, variable, file) in named.chain(filed) {
                let from = SecretSource { what: "secret", env_key, variable, file, is_word: false };
                let mut warn =
                    |text: String| warnings.push(format!("server `{}`: {what} `{name}`: {text}", server.id));
                match from.read(env) {
                    Some(Ok((value, warning))) => {
                        warning.into_iter().for_each(warn);
                        out.insert(name.clone(), value);
                    }
                    Some(Err(why)) => warn(format!("{why}; it is left out")),
                    None => {}
                }
            }
            out
        };
    McpSecrets {
        env: read("the variable", "env_from_env", &server.env_from_env, &server.env_from_file),
        headers: read("the header", "headers_from_env", &server.headers_from_env, &server.headers_from_file),
    }
}
