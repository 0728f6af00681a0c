//! Turns a page into plain text without markup, scripts and styles. Headings, lists, tables and code keep their form,
//! links their targets. It takes one pass and accepts broken pages.

use url::Url;

/// Elements whose content is not shown.
const HIDDEN: [&str; 11] = [
    "canvas", "head", "iframe", "noscript", "object", "script", "select", "style", "svg", "template",
    "textarea",
];

/// Elements whose content is not parsed as markup: only their own end tag ends them.
const RAW: [&str; 5] = ["iframe", "noscript", "script", "style", "textarea"];

/// Elements that start on a new line.
const BLOCKS: [&str; 30] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "caption",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "option",
    "p",
    "section",
    "summary",
    "table",
    "tbody",
    "tr",
    "ul",
];

/// Longest link target that is shown, in bytes.
const LINK_MAX: usize = 500;

/// Longest entity name (`&CounterClockwiseContourIntegral;`), in bytes.
const ENTITY_MAX: usize = 32;

/// Names of the characters from U+00A0 on, in order.
const LATIN_1: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 \
    acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig \
    Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave \
    Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave \
    iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml";

/// Other named characters that are common in texts.
const ENTITIES: [(&str, &str); 30] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("ensp", " "),
    ("emsp", " "),
    ("thinsp", " "),
    ("zwnj", ""),
    ("zwj", ""),
    ("ndash", "–"),
    ("mdash", "—"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("sbquo", "‚"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("bdquo", "„"),
    ("lsaquo", "‹"),
    ("rsaquo", "›"),
    ("hellip", "…"),
    ("bull", "•"),
    ("trade", "™"),
    ("euro", "€"),
    ("larr", "←"),
    ("rarr", "→"),
    ("uarr", "↑"),
    ("darr", "↓"),
    ("le", "≤"),
    ("ge", "≥"),
];

/// The page's text. `base`: its address, to resolve links.
pub(super) fn text(html: &str, base: &Url) -> String {
    let mut page = Page::new(base);
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        page.words(&rest[..at]);
        rest = page.markup(&rest[at..]);
    }
    page.words(rest);
    page.finish()
}

struct Page<'a> {
    base: &'a Url,
    out: String,
    /// The page's title, as far as it is read.
    title: String,
    in_title: bool,
    /// The outermost open hidden element, and how many of its name are open.
    hidden: Option<(String, usize)>,
    /// The number of open `pre` elements.
    pre: usize,
    /// A space is due before the next word.
    space: bool,
    /// Line breaks that are due before the next word.
    breaks: usize,
    /// The marker before the next word, such as `- ` or `# `.
    lead: String,
    link: Option<String>,
}

struct Tag<'a> {
    name: String,
    closes: bool,
    attributes: &'a str,
}

impl<'a> Page<'a> {
    fn new(base: &'a Url) -> Self {
        Self {
            base,
            out: String::new(),
            title: String::new(),
            in_title: false,
            hidden: None,
            pre: 0,
            space: false,
            breaks: 0,
            lead: String::new(),
            link: None,
        }
    }

    /// Reads the markup at the start of the text. Returns the rest.
    fn markup<'t>(&mut self, text: &'t str) -> &'t str {
        for (begin, end) in [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<!", ">"), ("<?", ">")] {
            if let Some(inside) = text.strip_prefix(begin) {
                return inside.find(end).map_or("", |at| &inside[at + end.len()..]);
            }
        }
        let named = text[1..].trim_start_matches('/').starts_with(|c: char| c.is_ascii_alphabetic());
        if !named {
            self.words("<");
            return &text[1..];
        }
        let Some((tag, after)) = tag(text) else { return "" };
        let raw = !tag.closes && RAW.contains(&tag.name.as_str());
        let is_open = self.hidden.is_some();
        self.tag(&tag);
        if !raw {
            return after;
        }
        if !is_open {
            self.hidden = None;
        }
        after_raw(after, &tag.name)
    }

    fn tag(&mut self, tag: &Tag<'_>) {
        let name = tag.name.as_str();
        // The title is read although it is in the head, which is hidden.
        if name == "title" {
            self.in_title = !tag.closes && self.title.is_empty();
            return;
        }
        if name == "body" && !tag.closes {
            // The head's end tag may be missing.
            self.hidden = None;
        }
        if let Some((hidden, depth)) = &mut self.hidden {
            if hidden == name {
                *depth = if tag.closes { *depth - 1 } else { *depth + 1 };
                if *depth == 0 {
                    self.hidden = None;
                }
            }
            return;
        }
        if HIDDEN.contains(&name) && !tag.closes {
            // A self-closing element (`<object/>`) has no content.
            if !tag.attributes.ends_with('/') {
                self.hidden = Some((name.to_owned(), 1));
            }
            return;
        }
        self.shown(tag);
    }

    fn shown(&mut self, tag: &Tag<'_>) {
        match (tag.name.as_str(), tag.closes) {
            ("br", _) => self.breaks = (self.breaks + 1).min(2),
            ("p" | "blockquote" | "table" | "ul" | "ol", _) => self.break_lines(2),
            ("li", false) => {
                self.break_lines(1);
                "- ".clone_into(&mut self.lead);
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", closes) => {
                self.break_lines(2);
                self.lead.clear();
                if !closes {
                    let level = usize::from(tag.name.as_bytes()[1] - b'0');
                    self.lead = format!("{} ", "#".repeat(level));
                }
            }
            ("pre", false) => {
                self.break_lines(2);
                self.pre += 1;
            }
            ("pre", true) => {
                self.pre = self.pre.saturating_sub(1);
                self.break_lines(2);
            }
            ("td" | "th", true) => {
                self.words(" | ");
            }
            ("img", false) => {
                if let Some(alt) = attribute(tag.attributes, "alt").filter(|alt| !alt.trim().is_empty()) {
                    self.say(&format!("[image: {}]", alt.trim()));
                }
            }
            ("a", false) => self.link = attribute(tag.attributes, "href").and_then(|href| self.target(&href)),
            ("a", true) => {
                if let Some(target) = self.link.take() {
                    self.say(&format!(" ({target})"));
                }
            }
            (name, _) if BLOCKS.contains(&name) => self.break_lines(1),
            _ => {}
        }
    }

    /// The absolute target of a link; `None` if it leads into the same page, is no web address, or is too long.
    fn target(&self, href: &str) -> Option<String> {
        if href.trim_start().starts_with('#') {
            return None;
        }
        let url = self.base.join(href.trim()).ok()?;
        let fits = matches!(url.scheme(), "http" | "https") && url.as_str().len() <= LINK_MAX;
        fits.then(|| url.to_string())
    }

    fn break_lines(&mut self, n: usize) {
        self.breaks = self.breaks.max(n);
        self.space = false;
    }

    /// Adds text that still has entities in it.
    fn words(&mut self, raw: &str) {
        if self.in_title {
            self.title.push_str(&characters(raw));
        } else if self.hidden.is_none() {
            self.say(&characters(raw));
        }
    }

    fn say(&mut self, text: &str) {
        if self.pre > 0 {
            if !text.is_empty() {
                self.settle();
                self.out.push_str(text);
            }
            return;
        }
        for (idx, word) in text.split(char::is_whitespace).enumerate() {
            self.space |= idx > 0;
            if !word.is_empty() {
                self.settle();
                self.out.push_str(word);
            }
        }
    }

    /// Writes the pending line breaks, space and marker.
    fn settle(&mut self) {
        if !self.out.is_empty() {
            let there = self.out.bytes().rev().take(2).take_while(|byte| *byte == b'\n').count();
            if self.breaks > there {
                if self.pre == 0 && there == 0 {
                    // Drops the separator after a row's last cell.
                    self.out.truncate(self.out.trim_end_matches([' ', '|']).len());
                }
                self.out.push_str(&"\n".repeat(self.breaks - there));
            } else if self.space && there == 0 && self.breaks == 0 {
                self.out.push(' ');
            }
        }
        self.out.push_str(&self.lead);
        self.lead.clear();
        (self.breaks, self.space) = (0, false);
    }

    fn finish(self) -> String {
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = self.out.trim_end_matches(|c: char| c.is_whitespace() || c == '|');
        // Most pages repeat their title as the first heading.
        let again = words.lines().take(3).any(|line| line.trim_start_matches(['#', ' ']) == title);
        if title.is_empty() || again {
            words.to_owned()
        } else {
            format!("{title}\n\n{words}").trim_end().to_owned()
        }
    }
}

/// The tag at the start of the text, and the rest. `None`: it does not end.
fn tag(text: &str) -> Option<(Tag<'_>, &str)> {
    let closes = text[1..].starts_with('/');
    let inside = text[1..].trim_start_matches('/');
    let named =
        inside.find(|c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/')).unwrap_or(inside.len());
    let mut quote = None;
    let mut after_equals = false;
    let end = inside[named..].bytes().position(|byte| {
        match (quote, byte) {
            (Some(open), byte) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'>') => return true,
            (None, b'"' | b'\'') if after_equals => quote = Some(byte),
            (None, _) => {}
        }
        after_equals = byte == b'=' || (after_equals && byte.is_ascii_whitespace());
        false
    })?;
    let (name, attributes) = (inside[..named].to_ascii_lowercase(), &inside[named..named + end]);
    Some((Tag { name, closes, attributes }, &inside[named + end + 1..]))
}

/// The text after the end tag of a raw element.
fn after_raw<'t>(text: &'t str, name: &str) -> &'t str {
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        rest = &rest[at + 2..];
        let named = rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        if named {
            return rest.find('>').map_or("", |end| &rest[end + 1..]);
        }
    }
    ""
}

fn attribute(attributes: &str, name: &str) -> Option<String> {
    let mut rest = attributes;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        let end =
            rest.find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '/')).unwrap_or(rest.len());
        if rest.is_empty() {
            return None;
        }
        let found = rest[..end].eq_ignore_ascii_case(name);
        rest = rest[end..].trim_start();
        let Some(after) = rest.strip_prefix('=') else {
            if found {
                return Some(String::new());
            }
            // Skips a stray sign, so that the loop always advances.
            rest = if end == 0 { rest.get(1..)? } else { rest };
            continue;
        };
        let after = after.trim_start();
        let (value, left) = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => after[1..].split_once(quote).unwrap_or((&after[1..], "")),
            _ => after.split_at(after.find(|c: char| c.is_ascii_whitespace()).unwrap_or(after.len())),
        };
        if found {
            return Some(characters(value));
        }
        rest = left;
    }
}

/// Replaces entities (`&amp;`, `&#8211;`) by their characters.
fn characters(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let window = &rest[..rest.floor_char_boundary(ENTITY_MAX)];
        match window.find(';').and_then(|end| Some((end, character(&window[..end])?))) {
            Some((end, found)) => {
                out.push_str(&found);
                rest = &rest[end + 1..];
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    out
}

fn character(name: &str) -> Option<String> {
    let code = match name.strip_prefix('#').map(|number| (number, number.strip_prefix(['x', 'X']))) {
        Some((_, Some(hex))) => u32::from_str_radix(hex, 16).ok()?,
        Some((number, None)) => number.parse().ok()?,
        None => match LATIN_1.split_whitespace().zip(0xa0..).find(|(known, _)| *known == name) {
            Some((_, code)) => code,
            None => {
                return ENTITIES.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
            }
        },
    };
    Some(match char::from_u32(code)? {
        '\0' | '\u{ad}' => String::new(),
        '\u{a0}' => " ".to_owned(),
        c => c.to_string(),
    })
}
