//! The form of a summary: sections under fixed headings, and how summaries are merged section by section.

use std::collections::BTreeMap;

use crate::digest::{digest_texts, informative};
use cairn_types::summary::Summary;
use cairn_types::tokens::estimate;

/// A section of a summary, in the order of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Section {
    Goal,
    /// What binds, and how things are wished.
    Constraints,
    /// Done, in progress, blocked; files and how they changed; errors and their resolution.
    Progress,
    Decisions,
    /// What is being talked about, and what is owed to whom.
    Active,
    NextSteps,
    /// How people stand with each other.
    Mood,
    Critical,
}

impl Section {
    pub const ALL: [Self; 8] = [
        Self::Goal,
        Self::Constraints,
        Self::Progress,
        Self::Decisions,
        Self::Active,
        Self::NextSteps,
        Self::Mood,
        Self::Critical,
    ];

    /// All, the one that a reader can best do without first.
    const BY_NEED: [Self; 8] = [
        Self::Mood,
        Self::Progress,
        Self::NextSteps,
        Self::Decisions,
        Self::Constraints,
        Self::Goal,
        Self::Critical,
        Self::Active,
    ];

    /// A reader who continues from here needs it most.
    fn is_needed(self) -> bool {
        Self::BY_NEED[5..].contains(&self)
    }

    pub fn heading(self) -> &'static str {
        match self {
            Self::Goal => "Goal",
            Self::Constraints => "Constraints and preferences",
            Self::Progress => "Progress",
            Self::Decisions => "Key decisions",
            Self::Active => "Active topics and open commitments",
            Self::NextSteps => "Next steps",
            Self::Mood => "Mood and relationships",
            Self::Critical => "Critical context",
        }
    }

    /// The section that a line begins, in any of the ways in which models write headings.
    pub(super) fn begun_by(line: &str) -> Option<Self> {
        let line = line.trim();
        let name = match line.trim_start_matches('#') {
            bare if bare.len() < line.len() => bare,
            _ => line.strip_prefix("**")?.trim_end_matches(':').strip_suffix("**")?,
        };
        let name = name.trim().trim_matches(['*', ':', ' ']).to_lowercase().replace('&', "and");
        Some(match name.as_str() {
            "goal" | "goals" => Self::Goal,
            "constraints and preferences" | "constraints" | "preferences" => Self::Constraints,
            "progress" => Self::Progress,
            "key decisions" | "decisions" => Self::Decisions,
            "active topics and open commitments" | "active topics" | "open commitments" => Self::Active,
            "next steps" => Self::NextSteps,
            "mood and relationships" | "mood" | "relationships" => Self::Mood,
            "critical context" => Self::Critical,
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sections {
    parts: BTreeMap<Section, String>,
    headed: bool,
}

impl Sections {
    /// Takes a text apart. What stands before the first heading belongs to [`Section::Critical`], as does a text
    /// without any: a digest, or an older summary. Sections without words are left out.
    pub fn parse(text: &str) -> Self {
        let mut sections = Self::default();
        let mut current = Section::Critical;
        for line in text.lines() {
            match Section::begun_by(line) {
                Some(section) => {
                    current = section;
                    sections.headed = true;
                }
                None => {
                    let body = sections.parts.entry(current).or_default();
                    body.push_str(line);
                    body.push('\n');
                }
            }
        }
        sections.parts.retain(|_, body| {
            let trimmed = body.trim_matches('\n').trim_end().to_owned();
            *body = trimmed;
            !body.lines().all(is_hollow)
        });
        sections
    }

    pub fn is_headed(&self) -> bool {
        self.headed
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub fn get(&self, section: Section) -> Option<&str> {
        self.parts.get(&section).map(String::as_str)
    }

    /// Adds lines to a section, beneath what it says.
    pub fn add(&mut self, section: Section, lines: &str) {
        let lines = lines.trim_matches('\n');
        if lines.trim().is_empty() {
            return;
        }
        let body = self.parts.entry(section).or_default();
        if !body.is_empty() {
            body.push('\n');
        }
        body.push_str(lines);
    }

    /// Takes a section over from another summary where this one says nothing of it.
    fn fill(&mut self, section: Section, from: &Self) {
        if let (None, Some(body)) = (self.get(section), from.get(section)) {
            self.parts.insert(section, body.to_owned());
        }
    }

    /// The text of one without headings.
    fn bare(&self) -> String {
        self.parts.values().cloned().collect::<Vec<_>>().join("\n")
    }

    /// The text: headings in their order, a blank line between sections.
    pub fn render(&self) -> String {
        let blocks: Vec<String> =
            self.parts.iter().map(|(section, body)| format!("## {}\n{body}", section.heading())).collect();
        blocks.join("\n\n")
    }
}

/// The line says nothing: empty, a heading, or a word for nothing.
pub(super) fn is_hollow(line: &str) -> bool {
    let line = line.trim().trim_start_matches(['-', '*', ' ']);
    let word = line.trim_end_matches(['.', ':']).to_lowercase();
    line.is_empty()
        || line.starts_with('#')
        || line.starts_with("```")
        || matches!(word.as_str(), "none" | "n/a" | "..." | "(none)" | "[none]" | "nothing")
}

/// The summary after a further chunk: what the model made of both, with the sections of the summary so far that it
/// says nothing of. Next steps go with what they led to.
pub fn carried_on(so_far: Option<&str>, text: &str) -> String {
    let Some(so_far) = so_far else { return text.to_owned() };
    let (before, mut now) = (Sections::parse(so_far), Sections::parse(text));
    for section in Section::ALL.into_iter().filter(|section| *section != Section::NextSteps) {
        now.fill(section, &before);
    }
    now.render()
}

/// The summary so far, with an extract of what comes after it beneath.
pub fn added_to(so_far: Option<&str>, extract: &str) -> String {
    let Some(so_far) = so_far else { return extract.to_owned() };
    let mut sections = Sections::parse(so_far);
    let more = Sections::parse(extract);
    for (section, body) in &more.parts {
        sections.add(*section, body);
    }
    sections.render()
}

/// A merge, taken apart: what is copied, and what the model is asked to unite.
#[derive(Debug, Clone, PartialEq)]
pub struct MergePlan {
    /// Sections that one source alone has: they stay as they are.
    pub copied: Sections,
    /// The sources with all other sections.
    pub asked: Vec<Summary>,
}

/// Plans a merge into so many tokens. Copies take half of them at most: beyond it the largest are to be shortened, so
/// that a merge frees room whatever its sources have.
pub fn plan_merge(sources: &[Summary], target_tokens: u64) -> MergePlan {
    let parsed: Vec<Sections> = sources.iter().map(|source| Sections::parse(&source.text)).collect();
    let mut copied = Sections::default();
    for section in Section::ALL {
        let mut holders = parsed.iter().filter(|sections| sections.get(section).is_some());
        if let (Some(only), None) = (holders.next(), holders.next()) {
            copied.fill(section, only);
        }
    }
    while u64::from(estimate(&copied.render())) > target_tokens / 2 {
        let largest = copied.parts.iter().max_by_key(|(_, body)| body.len()).map(|(section, _)| *section);
        let Some(largest) = largest else { break };
        copied.parts.remove(&largest);
    }
    let asked = sources.iter().zip(parsed).filter_map(|(source, mut sections)| {
        let is_plain = !sections.headed;
        sections.parts.retain(|section, _| copied.get(*section).is_none());
        let text = if is_plain { source.text.clone() } else { sections.render() };
        (!sections.is_empty()).then(|| Summary { text, ..source.clone() })
    });
    MergePlan { asked: asked.collect(), copied }
}

/// Puts what the model has united beside what was copied.
pub fn join(copied: &Sections, united: &str) -> String {
    if copied.is_empty() {
        return united.to_owned();
    }
    let mut whole = copied.clone();
    for (section, body) in &Sections::parse(united).parts {
        whole.add(*section, body);
    }
    whole.render()
}

/// Merges texts of summaries without a model, section by section: extracts from the lines of each, in their order, up to
/// `budget_tokens` together. Where none has headings, neither has the merge.
pub fn digest_by_sections(texts: &[&str], budget_tokens: u32) -> String {
    let parsed: Vec<Sections> = texts.iter().map(|text| Sections::parse(text)).collect();
    if parsed.iter().all(|sections| !sections.headed) {
        return digest_texts(texts, budget_tokens);
    }
    let total: u64 = parsed.iter().flat_map(|sections| sections.parts.values()).map(|body| size(body)).sum();
    let mut merged = Sections::default();
    for section in Section::ALL {
        let parts: Vec<&str> = parsed.iter().filter_map(|sections| sections.get(section)).collect();
        let own: u64 = parts.iter().map(|part| size(part)).sum();
        let heading = estimate(section.heading()) + 3;
        let share = (u64::from(budget_tokens) * own).checked_div(total).unwrap_or(0) as u32;
        if let Some(room) = share.checked_sub(heading).filter(|room| *room > 0) {
            merged.add(section, &digest_texts(&parts, room));
        }
    }
    merged.render()
}

/// A text in so many estimated tokens. All sections give way in proportion to their size, those that are needed most half as
/// much; within each the least informative lines go. No line is cut in its middle, unless a section has no shorter one, and no
/// section goes as long as there is room for a line of each.
pub(super) fn fit(text: &str, budget_tokens: u64) -> String {
    if size(text) <= budget_tokens {
        return text.to_owned();
    }
    let mut sections = Sections::parse(text);
    if !sections.headed {
        return lines_within(&sections.bare(), budget_tokens);
    }
    while sections.parts.len() > 1 && room(&sections, budget_tokens) < least(&sections) {
        let Some(section) = Section::BY_NEED.iter().find(|one| sections.get(**one).is_some()) else { break };
        sections.parts.remove(section);
    }
    let whole = sections.clone();
    let shares = shares(&whole, room(&whole, budget_tokens));
    for (section, share) in &shares {
        let fitted = lines_within(whole.get(*section).unwrap_or_default(), *share);
        sections.parts.insert(*section, fitted);
    }
    fill_up(&mut sections, &whole, budget_tokens);
    sections.render()
}

/// Tokens that a section gets at the least where it is not shorter, before it goes as a whole.
const SECTION_LEAST: u64 = 5;

fn least(sections: &Sections) -> u64 {
    sections.parts.values().map(|body| size(body).min(SECTION_LEAST)).sum()
}

/// Tokens that the headings of a text leave for its lines.
fn room(sections: &Sections, budget_tokens: u64) -> u64 {
    let bodies: u64 = sections.parts.values().map(|body| size(body)).sum();
    budget_tokens.saturating_sub(size(&sections.render()).saturating_sub(bodies))
}

/// What each section gets of the room: in proportion to its size, those that are needed most twice as much.
fn shares(sections: &Sections, room: u64) -> BTreeMap<Section, u64> {
    let mut open: Vec<(Section, u64)> = sections.parts.iter().map(|(one, body)| (*one, size(body))).collect();
    let mut shares = BTreeMap::new();
    let mut left = room;
    loop {
        let weight = |(section, size): &(Section, u64)| size * (1 + u64::from(section.is_needed()));
        let total: u64 = open.iter().map(weight).sum::<u64>().max(1);
        let share = |one: &(Section, u64)| left * weight(one) / total;
        // What fits its share whole leaves room for the others.
        let (fits, rest): (Vec<(Section, u64)>, Vec<_>) =
            open.iter().copied().partition(|one| one.1 <= share(one));
        if fits.is_empty() {
            shares.extend(open.iter().map(|one| (one.0, share(one))));
            return shares;
        }
        left -= fits.iter().map(|one| one.1).sum::<u64>();
        shares.extend(fits);
        open = rest;
    }
}

/// The most informative lines that take so many tokens, in their order; a part of one where none is short enough.
fn lines_within(body: &str, budget_tokens: u64) -> String {
    let lines: Vec<&str> = body.lines().filter(|line| !is_hollow(line)).collect();
    let worth = informative(&lines);
    let mut order: Vec<usize> = (0..lines.len()).collect();
    // Of lines that tell as much the later one stays.
    order.sort_by(|a, b| worth[*b].total_cmp(&worth[*a]).then(b.cmp(a)));
    let mut left = budget_tokens;
    let mut kept: Vec<usize> = Vec::new();
    for idx in &order {
        let tokens = size(lines[*idx]) + 1;
        if tokens <= left {
            left -= tokens;
            kept.push(*idx);
        }
    }
    kept.sort_unstable();
    if kept.is_empty() {
        return order.first().map(|best| shortened(lines[*best], budget_tokens)).unwrap_or_default();
    }
    kept.into_iter().map(|idx| lines[idx]).collect::<Vec<_>>().join("\n")
}

/// Has sections keep whole what the room is left for, those that are needed most first.
fn fill_up(sections: &mut Sections, whole: &Sections, budget_tokens: u64) {
    for section in Section::BY_NEED.into_iter().rev().filter(|one| whole.get(*one).is_some()) {
        let taken = size(&sections.render());
        let has = sections.get(section).map_or(0, size);
        let more = budget_tokens.saturating_sub(taken);
        let fuller = lines_within(whole.get(section).unwrap_or_default(), has + more);
        let before = sections.parts.insert(section, fuller);
        if size(&sections.render()) > budget_tokens {
            sections.parts.insert(section, before.unwrap_or_default());
        }
    }
}

/// One line, by its sentences, or else by its ends.
fn shortened(line: &str, budget_tokens: u64) -> String {
    let extract = digest_by_sections(&[line], budget_tokens as u32);
    if !extract.trim().is_empty() && size(&extract) <= budget_tokens {
        return extract;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    // More words are no fewer tokens, so the number is found by halves.
    let counts: Vec<usize> = (1..=words.len()).collect();
    let n_words = counts.partition_point(|n| size(&words[..*n].join(" ")) <= budget_tokens);
    if n_words > 0 {
        return words[..n_words].join(" ");
    }
    // Scripts without spaces, and words without an end.
    let n_chars = line.chars().count() as u64;
    let keeps = n_chars * budget_tokens / size(line).max(1);
    line.chars().take(keeps.max(1) as usize).collect()
}

fn size(text: &str) -> u64 {
    u64::from(estimate(text))
}

#[cfg(test)]
mod tests;
