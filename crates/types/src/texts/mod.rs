//! What the bot itself says in chats, in the language of an agent or a place: one file for each language in `prompts/texts`, read
//! once. Texts of operators (terminal, page, logs, errors of the socket) and of models are English, and not here.
//!
//! A [`Saying`] is a text with its values and without a language; errors carry it, and are English where nobody chose one.

mod key;
mod plural;
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

pub use key::Key;
pub use read::{TEXT_MAX, placeholders};

use plural::{Form, form};

/// The languages that are built in, by their tags.
pub const BUILT_IN: [(&str, &str); 11] = [
    ("en", include_str!("../../../../prompts/texts/en.toml")),
    ("de", include_str!("../../../../prompts/texts/de.toml")),
    ("fr", include_str!("../../../../prompts/texts/fr.toml")),
    ("es", include_str!("../../../../prompts/texts/es.toml")),
    ("pt", include_str!("../../../../prompts/texts/pt.toml")),
    ("it", include_str!("../../../../prompts/texts/it.toml")),
    ("pl", include_str!("../../../../prompts/texts/pl.toml")),
    ("ru", include_str!("../../../../prompts/texts/ru.toml")),
    ("uk", include_str!("../../../../prompts/texts/uk.toml")),
    ("zh", include_str!("../../../../prompts/texts/zh.toml")),
    ("ja", include_str!("../../../../prompts/texts/ja.toml")),
];

/// The tag of the language in which everything is said that another one leaves out.
pub const ENGLISH: &str = "en";

#[expect(clippy::expect_used, reason = "a test reads the same bytes")]
static IN_ENGLISH: LazyLock<Arc<Texts>> =
    LazyLock::new(|| Arc::new(Texts::read(ENGLISH, BUILT_IN[0].1, None).expect("the English file is whole")));

/// A text in the forms that a number needs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Template {
    one: Option<String>,
    few: Option<String>,
    many: Option<String>,
    other: String,
}

impl Template {
    fn form(&self, wanted: Form) -> &str {
        let found = match wanted {
            Form::One => &self.one,
            Form::Few => &self.few,
            Form::Many => &self.many,
            Form::Other => &None,
        };
        found.as_deref().unwrap_or(&self.other)
    }
}

/// All texts of a language. What its file leaves out is English.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    tag: String,
    /// In the order of [`Key::ALL`].
    texts: Vec<Template>,
    labels: BTreeMap<String, String>,
}

impl Texts {
    pub fn english() -> &'static Arc<Self> {
        &IN_ENGLISH
    }

    /// The language's tag, such as `pt`.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// A text in this language.
    pub fn say(&self, saying: impl Into<Saying>) -> String {
        let Saying { key, n, values } = saying.into();
        let form = n.map_or(Form::Other, |n| form(&self.tag, n));
        let template = self.texts.get(key as usize).map_or("", |template| template.form(form));
        let value = |name: &str| {
            let (_, value) = values.iter().find(|(known, _)| *known == name)?;
            Some(match value {
                Value::Plain(text) => text.clone(),
                Value::Said(saying) => self.say((**saying).clone()),
            })
        };
        read::fill(template, value)
    }

    /// A text as a sentence: with a capital at its beginning, and the full stop of the language.
    pub fn sentence(&self, saying: impl Into<Saying>) -> String {
        let text = self.say(saying);
        let mut chars = text.chars();
        let first: String = chars.next().map(char::to_uppercase).into_iter().flatten().collect();
        self.say(Key::Sentence.with("text", format!("{first}{}", chars.as_str())))
    }

    /// A word of a list or of figures, by what it is in English.
    pub fn label<'t>(&'t self, english: &'t str) -> &'t str {
        self.labels.get(english).map_or(english, String::as_str)
    }
}

/// A text with its values, in no language yet. Shown, it is English.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saying {
    key: Key,
    /// The number that decides its form.
    n: Option<u64>,
    values: Vec<(&'static str, Value)>,
}

/// What stands in the place of a placeholder. It is not read for placeholders itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Plain(String),
    Said(Box<Saying>),
}

impl Key {
    pub fn with(self, name: &'static str, value: impl Into<Value>) -> Saying {
        Saying::from(self).with(name, value)
    }

    /// The text in the form for a number, which stands for `{n}`.
    pub fn count(self, n: u64) -> Saying {
        let saying = Saying { key: self, n: Some(n), values: Vec::new() };
        saying.with("n", crate::text::escape::grouped(n))
    }
}

impl Saying {
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.values.push((name, value.into()));
        self
    }
}

impl From<Key> for Saying {
    fn from(key: Key) -> Self {
        Self { key, n: None, values: Vec::new() }
    }
}

impl From<Key> for Value {
    fn from(key: Key) -> Self {
        Self::Said(Box::new(key.into()))
    }
}

impl From<Saying> for Value {
    fn from(saying: Saying) -> Self {
        Self::Said(Box::new(saying))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Plain(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Plain(text.to_owned())
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Self {
        Self::Plain(n.to_string())
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Self {
        Self::Plain(n.to_string())
    }
}

impl fmt::Display for Saying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Texts::english().say(self.clone()))
    }
}

impl From<Saying> for String {
    fn from(saying: Saying) -> Self {
        saying.to_string()
    }
}

/// The texts of an agent: in its own language, and in the languages of its places.
#[derive(Debug, Clone, PartialEq)]
pub struct Languages {
    pub own: Arc<Texts>,
    /// By the tags as places name them.
    pub of_places: Arc<BTreeMap<String, Arc<Texts>>>,
}

impl Default for Languages {
    fn default() -> Self {
        Self { own: Arc::clone(Texts::english()), of_places: Arc::default() }
    }
}

impl Languages {
    /// The texts in a place that has a language of its own, or has none.
    pub fn of(&self, place: Option<&str>) -> &Arc<Texts> {
        place.and_then(|tag| self.of_places.get(tag)).unwrap_or(&self.own)
    }
}
