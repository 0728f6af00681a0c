//! What keys mean, in the words of the reference, `config/config.toml`: the comment above a key, or above its neighbours.

use std::collections::BTreeMap;

const REFERENCE: &str = include_str!("../../../../../config/config.toml");

/// The words of the reference, by the keys on the way to each key.
pub(super) struct Words(BTreeMap<String, String>);

impl Words {
    pub(super) fn of_reference() -> Self {
        let mut out = BTreeMap::new();
        let (mut table, mut said, mut is_new) = (String::new(), String::new(), true);
        for line in REFERENCE.lines() {
            let bare = line.trim_start_matches('#');
            let is_code = bare.starts_with(|c: char| c.is_ascii_lowercase() || c == '[');
            match line {
                "" => said.clear(),
                _ if is_code && bare.starts_with('[') => {
                    table = bare.trim_matches(['[', ']']).to_owned();
                    said.clear();
                }
                _ if is_code => {
                    if let Some((key, _)) = bare.split_once(" =") {
                        let path = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
                        out.entry(path).or_insert_with(|| said.trim().to_owned());
                    }
                    is_new = true;
                }
                _ => {
                    if std::mem::take(&mut is_new) {
                        said.clear();
                    }
                    said = format!("{said} {}", bare.trim());
                }
            }
        }
        out.retain(|_, said| !said.is_empty());
        Self(out)
    }

    /// What a key means: in the table that it falls back on, where the reference says it, else there.
    pub(super) fn of(&self, path: &str) -> Option<String> {
        let known = [fallback(path), path.to_owned()];
        known.iter().find_map(|path| self.0.get(path)).cloned()
    }
}

/// The path under which a key is written of that may stand in several tables.
pub(super) fn fallback(path: &str) -> String {
    match path.split_once('.') {
        Some(("agents", rest)) => format!("defaults.{rest}"),
        Some(("telegram", rest)) => format!("discord.{rest}"),
        _ => path.to_owned(),
    }
}
