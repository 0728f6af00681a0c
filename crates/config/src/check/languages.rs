//! The languages of the bot's own texts: built in, or from files in the folder `prompts/texts` beside the config file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_types::texts::{BUILT_IN, ENGLISH, Languages, Texts};

use super::{Check, below, bot_path, key_path};
use crate::error::Problem;
use crate::source::Seg;
use crate::types::{Config, NetworkKind};

/// The folder of further files, beside the config file.
const FOLDER: &str = "prompts/texts";

/// The languages that are known, by their tags in lower case.
struct Known {
    files: BTreeMap<String, PathBuf>,
    /// Those that were looked up.
    read: BTreeMap<String, Arc<Texts>>,
}

/// Checks `language` of agents and places, and gives agents their texts.
pub(crate) fn check_languages(check: &mut Check<'_, '_>, config: &mut Config) {
    let mut known = Known { files: files(check.source.dir()), read: BTreeMap::new() };
    let mut of_places = BTreeMap::new();
    for (kind, bots) in [
        (NetworkKind::Discord, &config.discord),
        (NetworkKind::Telegram, &config.telegram),
        (NetworkKind::Bridge, &config.bridges),
    ] {
        for (idx, bot) in bots.iter().enumerate() {
            for (number, place) in bot.places.iter().enumerate() {
                let Some(tag) = &place.language else { continue };
                let at = below(&bot_path(check.source, kind, idx), "places");
                let at: Vec<Seg> = at.into_iter().chain([Seg::from(number)]).collect();
                if let Some(texts) = known.find(check, &below(&at, "language"), tag) {
                    of_places.insert(tag.clone(), texts);
                }
            }
        }
    }
    let of_places = Arc::new(of_places);
    for (idx, agent) in config.agents.iter_mut().enumerate() {
        let path = check.set_at(&key_path!["agents", idx], &["language"]);
        let own = known.find(check, &path, &agent.language);
        let own = own.unwrap_or_else(|| Arc::clone(Texts::english()));
        agent.languages = Languages { own, of_places: Arc::clone(&of_places) };
    }
    // A file that nothing names yet has to be whole, too.
    for tag in known.files.keys().cloned().collect::<Vec<_>>() {
        known.find(check, &[], &tag);
    }
    config.language_files = known.files.into_values().collect();
}

impl Known {
    /// The texts of a language: of that tag, else of its first part. `None`: there are none, which is noted.
    fn find(&mut self, check: &mut Check<'_, '_>, path: &[Seg], tag: &str) -> Option<Arc<Texts>> {
        let tag = tag.trim().to_ascii_lowercase();
        let first = tag.split('-').next().unwrap_or_default().to_owned();
        if let Some(found) = [&tag, &first].into_iter().find(|tag| self.is_known(tag)) {
            return Some(self.texts(check, found));
        }
        let message = format!("`language` = \"{tag}\" has no texts");
        let hint = format!(
            "there are: {}; a file {FOLDER}/{first}.toml beside this one adds it",
            self.names().join(", ")
        );
        check.wrong(path, message, &hint);
        None
    }

    fn is_known(&self, tag: &str) -> bool {
        built_in(tag).is_some() || self.files.contains_key(tag)
    }

    fn names(&self) -> Vec<&str> {
        let files = self.files.keys().map(String::as_str);
        let mut names: Vec<&str> = BUILT_IN.iter().map(|(tag, _)| *tag).chain(files).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The texts of a known language. What a file leaves out is as built in, else as in the language of its first part.
    fn texts(&mut self, check: &mut Check<'_, '_>, tag: &str) -> Arc<Texts> {
        if let Some(texts) = self.read.get(tag) {
            return Arc::clone(texts);
        }
        let mut texts = match tag.split_once('-') {
            _ if tag == ENGLISH => Arc::clone(Texts::english()),
            Some((first, _)) if self.is_known(first) => self.texts(check, first),
            _ => Arc::clone(Texts::english()),
        };
        let file = self.files.get(tag).cloned();
        if let Some(text) = built_in(tag).filter(|_| tag != ENGLISH)
            && let Ok(read) = Texts::read(tag, text, Some(&texts))
        {
            texts = Arc::new(read);
        }
        if let Some(file) = file {
            let read = std::fs::read_to_string(&file).map_err(|error| error.to_string());
            match read.and_then(|text| Texts::read(tag, &text, Some(&texts))) {
                Ok(read) => texts = Arc::new(read),
                Err(why) => check.note(Problem::new(format!("the texts of {}: {why}", file.display())).hint(
                    "correct the line, or remove it: the built-in text is used, or English if there is none",
                )),
            }
        }
        self.read.insert(tag.to_owned(), Arc::clone(&texts));
        texts
    }
}

fn built_in(tag: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == tag).map(|(_, text)| *text)
}

/// The files of the folder, by their tags.
fn files(dir: &Path) -> BTreeMap<String, PathBuf> {
    if dir.as_os_str().is_empty() {
        return BTreeMap::new();
    }
    let entries = std::fs::read_dir(dir.join(FOLDER)).into_iter().flatten().flatten();
    let files = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files.filter_map(|path| Some((path.file_stem()?.to_str()?.to_ascii_lowercase(), path))).collect()
}
