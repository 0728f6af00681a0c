//! Prometheus' text format, read strictly: what the format's description forbids panics here.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Exposition {
    pub(crate) types: BTreeMap<String, String>,
    /// Series with their values: the name as written, and the labels in order.
    pub(crate) series: BTreeMap<(String, BTreeMap<String, String>), f64>,
}

impl Exposition {
    pub(crate) fn parse(text: &str) -> Self {
        let mut found = Self::default();
        let mut helped = BTreeSet::new();
        let mut closed = BTreeSet::new();
        let mut open = String::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
                assert!(!help.is_empty() && helped.insert(name.to_owned()), "helped twice: {line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap_or_else(|| panic!("no type: {line}"));
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert!(
                    found.types.insert(name.to_owned(), kind.to_owned()).is_none(),
                    "typed twice: {line}"
                );
                assert!(helped.contains(name), "without help: {line}");
                closed.insert(std::mem::replace(&mut open, name.to_owned()));
            } else {
                let (name, labels, value) = sample(line);
                let family = family(&name, &found.types);
                assert_eq!(family, open, "a family's series stand together: {line}");
                assert!(!closed.contains(&family), "a family is opened twice: {line}");
                assert!(
                    found.series.insert((name, labels), value).is_none(),
                    "a series is there twice: {line}"
                );
            }
        }
        found
    }

    /// The sum over all series of that name whose labels have these values.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let fits = |(found, have): &&(String, BTreeMap<String, String>)| {
            found == name && labels.iter().all(|(key, value)| have.get(*key).is_some_and(|is| is == value))
        };
        let mut values = self.series.iter().filter(|(key, _)| fits(key)).map(|(_, value)| *value).peekable();
        values.peek()?;
        Some(values.sum())
    }

    /// Values of a label over all series.
    pub(crate) fn values(&self, label: &str) -> BTreeSet<&str> {
        self.series.keys().filter_map(|(_, labels)| labels.get(label).map(String::as_str)).collect()
    }

    /// Whether a query may name this: a metric, or what a histogram is made of.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.types.contains_key(&family(name, &self.types))
    }
}

/// The metric that a series belongs to.
fn family(name: &str, types: &BTreeMap<String, String>) -> String {
    let of_histogram = ["_bucket", "_sum", "_count"].into_iter().find_map(|end| {
        let base = name.strip_suffix(end)?;
        types.get(base).is_some_and(|kind| kind == "histogram").then(|| base.to_owned())
    });
    of_histogram.unwrap_or_else(|| name.to_owned())
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("not a number: {line}"));
    let Some((name, rest)) = series.split_once('{') else {
        return (checked(series), BTreeMap::new(), value);
    };
    let mut rest = rest.strip_suffix('}').unwrap_or_else(|| panic!("no end of labels: {line}"));
    let mut labels = BTreeMap::new();
    while !rest.is_empty() {
        let (key, quoted) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
        let mut text = String::new();
        let mut chars = quoted.char_indices();
        let end = loop {
            match chars.next() {
                Some((at, '"')) => break at,
                Some((_, '\\')) => text.push(chars.next().unwrap_or_else(|| panic!("cut off: {line}")).1),
                Some((_, c)) => text.push(c),
                None => panic!("no end of a label: {line}"),
            }
        };
        assert!(labels.insert(checked(key), text).is_none(), "a label is there twice: {line}");
        rest = quoted[end + 1..].trim_start_matches(',');
    }
    (checked(name), labels, value)
}

fn checked(name: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    assert!(name.chars().all(good) && !name.starts_with(|c: char| c.is_ascii_digit()), "no name: {name}");
    name.to_owned()
}
