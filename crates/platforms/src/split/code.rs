//! Long code blocks, which are sent as files instead of many messages.

use std::fmt::Write as _;
use std::sync::Arc;

use cairn_types::event::SentFile;
use cairn_types::ids::ArtifactId;
use cairn_types::ports::FilePart;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::{Measure, first_parts};
use crate::markup::{language, options};

/// When a code block is sent as a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LongCode {
    /// It alone would need more messages than these; 0: never.
    pub(crate) parts: usize,
    /// Largest file that the network takes, in bytes.
    pub(crate) bytes: u64,
}

/// The text with the name of a file in the place of each long code block, and the files. Blocks in lists and quotes stay. The
/// same text always gives the same. `limit`, `over`: as for [`super::split`].
pub(crate) fn take_out(
    markdown: &str,
    long: LongCode,
    limit: usize,
    over: Measure<'_>,
) -> (String, Vec<FilePart>) {
    let mut files: Vec<FilePart> = Vec::new();
    let (mut text, mut done) = (String::new(), 0);
    // What fits into that many messages at the very least; most texts end here.
    if long.parts == 0 || markdown.len() <= limit {
        return (markdown.to_owned(), files);
    }
    let (mut depth, mut block) = (0usize, None);
    for (event, range) in Parser::new_ext(markdown, options()).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if depth == 0 => {
                block = Some((language(&info), String::new()));
                depth += 1;
            }
            Event::Start(_) => depth += 1,
            Event::Text(words) => block.iter_mut().for_each(|(_, code)| code.push_str(&words)),
            Event::End(end) => {
                depth = depth.saturating_sub(1);
                let Some((language, code)) = block.take_if(|_| matches!(end, TagEnd::CodeBlock)) else {
                    continue;
                };
                let source = &markdown[range.clone()];
                let is_long = code.len() > limit
                    && code.len() as u64 <= long.bytes
                    && first_parts(long.parts + 1, source, limit, over).len() > long.parts;
                if is_long {
                    let file = file(files.len() + 1, language.as_deref(), code);
                    text.push_str(&markdown[done..range.start]);
                    // Writing to a string does not fail.
                    let _ = write!(text, "📎 `{}`", file.file.name);
                    files.push(file);
                    done = range.end;
                    if source.ends_with('\n') {
                        text.push('\n');
                    }
                }
            }
            _ => {}
        }
    }
    text.push_str(&markdown[done..]);
    (text, files)
}

/// The `n`th file of a text.
fn file(n: usize, language: Option<&str>, code: String) -> FilePart {
    let ending = language.map_or("txt", ending);
    let name = if n == 1 { format!("code.{ending}") } else { format!("code-{n}.{ending}") };
    let bytes = code.len() as u64;
    let media_type = "text/plain".to_owned();
    // It is kept nowhere: the text has it.
    let file = SentFile { artifact: ArtifactId::from(""), name, media_type, bytes, alt: None };
    FilePart { file, data: Arc::from(code.into_bytes()) }
}

/// The usual ending of a file in a language, by the names that fences have for it.
fn ending(language: &str) -> &'static str {
    ENDINGS
        .iter()
        .find(|(ending, names)| *ending == language || names.split(' ').any(|name| name == language))
        .map_or("txt", |(ending, _)| ending)
}

const ENDINGS: &[(&str, &str)] = &[
    ("c", "h"),
    ("cpp", "c++ cc cxx hpp"),
    ("cs", "csharp c#"),
    ("css", "scss"),
    ("csv", ""),
    ("dart", ""),
    ("diff", "patch"),
    ("ex", "elixir exs"),
    ("go", "golang"),
    ("hs", "haskell"),
    ("html", "htm"),
    ("ini", "cfg conf"),
    ("java", ""),
    ("js", "javascript node mjs"),
    ("json", "jsonc"),
    ("jsx", ""),
    ("kt", "kotlin"),
    ("lua", ""),
    ("md", "markdown"),
    ("nix", ""),
    ("php", ""),
    ("pl", "perl"),
    ("ps1", "powershell pwsh"),
    ("py", "python python3"),
    ("r", ""),
    ("rb", "ruby"),
    ("rs", "rust"),
    ("scala", ""),
    ("sh", "bash shell zsh fish console"),
    ("sql", "postgres postgresql mysql sqlite"),
    ("svg", ""),
    ("swift", ""),
    ("tex", "latex"),
    ("toml", ""),
    ("ts", "typescript"),
    ("tsx", ""),
    ("xml", ""),
    ("yaml", "yml"),
    ("zig", ""),
];

#[cfg(test)]
mod tests {
    use cairn_types::testing::hostile;

    use super::*;

    /// A network whose messages have 38 characters, room for two lines of code.
    fn taken(markdown: &str, parts: usize) -> (String, Vec<FilePart>) {
        let over = |text: &str| text.char_indices().nth(38).map(|(at, _)| at);
        take_out(markdown, LongCode { parts, bytes: 200 }, 38, &over)
    }

    /// So many lines of code.
    fn lines(n: usize) -> String {
        "let x = 1;\n".repeat(n)
    }

    #[track_caller]
    fn check(markdown: &str, text: &str, names: &[&str]) {
        let (left, files) = taken(markdown, 3);
        let named: Vec<&str> = files.iter().map(|file| file.file.name.as_str()).collect();
        assert_eq!((left.as_str(), named.as_slice()), (text, names), "{markdown}");
    }

    #[test]
    fn a_block_that_needs_more_messages_is_a_file_named_by_its_language() {
        let (long, short) = (lines(7), lines(6));
        check(&format!("See:\n\n```rust\n{long}```\n\nDone."), "See:\n\n📎 `code.rs`\n\nDone.", &["code.rs"]);
        let fits = format!("See:\n\n```rust\n{short}```\n\nDone.");
        check(&fits, &fits, &[]);
        check(&format!("```\n{long}```"), "📎 `code.txt`", &["code.txt"]);
        check(&format!("```whatever\n{long}```"), "📎 `code.txt`", &["code.txt"]);
        check(&format!("~~~Python {{.x}}\n{long}~~~"), "📎 `code.py`", &["code.py"]);
        check(&format!("```../../x\n{long}```"), "📎 `code.txt`", &["code.txt"]);
        let two = format!("A\n```js\n{long}```\nB\n```sh\nls\n```\nC\n```js\n{long}```\n");
        let left = "A\n📎 `code.js`\nB\n```sh\nls\n```\nC\n📎 `code-2.js`\n";
        check(&two, left, &["code.js", "code-2.js"]);
    }

    #[test]
    fn an_answer_that_breaks_off_in_its_code_is_one_too() {
        let (text, files) = taken(&format!("See:\n```toml\n{}", lines(7)), 3);
        assert_eq!((text.trim_end(), files[0].file.name.as_str()), ("See:\n📎 `code.toml`", "code.toml"));
        assert_eq!(&*files[0].data, lines(7).as_bytes());
        assert_eq!(files[0].file.bytes, 77);
    }

    #[test]
    fn what_is_switched_off_too_large_or_in_a_list_stays() {
        let block = |n: usize| format!("```\n{}```", lines(n));
        assert_eq!(taken(&block(9), 0), (block(9), Vec::new()));
        assert_eq!(taken(&block(19), 3), (block(19), Vec::new()), "209 bytes");
        let quoted = format!("> {}", block(9).replace('\n', "\n> "));
        check(&quoted, &quoted, &[]);
        let listed = format!("- {}", block(9).replace('\n', "\n  "));
        check(&listed, &listed, &[]);
    }

    #[test]
    fn the_endings_name_each_language_once() {
        let names = ENDINGS.iter().flat_map(|(ending, names)| {
            std::iter::once(*ending).chain(names.split(' ').filter(|name| !name.is_empty()))
        });
        let mut names: Vec<&str> = names.collect();
        let n = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n);
    }

    #[test]
    fn whatever_is_written_is_taken_out_in_the_same_way_again() {
        for (name, unit) in hostile::UNITS {
            let hostile = hostile::text(unit, 2_000);
            let text = format!("{hostile}\n\n```rs\n{}```\n\n{hostile}", lines(9));
            let (left, files) = taken(&text, 3);
            assert_eq!(files.is_empty(), left == text, "{name}");
            assert_eq!(taken(&text, 3), (left, files), "{name}");
        }
    }
}
