//! Turns a message into text: mentions become names, and quotes, forwards, stickers and polls are added.

use std::fmt::Write as _;

use serde_json::Value;
use serenity::all::UserId;

use super::places::Places;
use super::wire::{Carried, Embed, Message, Poll, SnapshotWords, User};
use crate::markup::name::{display, one_line};

/// Longest quote of the message that is replied to, in characters.
const QUOTE_MAX: usize = 200;

/// Longest text of embeds, components and the like that is taken from one message, in characters. Discord allows 6,000 in
/// its embeds and 4,000 in its components.
const CARRIED_MAX: usize = 6_000;

/// Longest single text in an embed or a component, in characters.
const TEXT_MAX: usize = 4_096;

/// Longest address that is shown, in characters.
const LINK_MAX: usize = 500;

/// Most embeds of a message, or pictures of a gallery, and most fields of an embed.
const EMBEDS_MAX: usize = 10;
const EMBED_FIELDS_MAX: usize = 25;

/// Most components that are told, and how deep they may be nested. Discord allows 40.
const COMPONENTS_MAX: usize = 60;
const COMPONENTS_DEPTH: usize = 8;

/// The context for reading a message.
pub(super) struct Reading<'a> {
    pub(super) me: UserId,
    pub(super) places: &'a Places,
    /// The id of the bot's last message in the channel; a reply to it is not quoted.
    pub(super) last_own: Option<u64>,
}

impl Reading<'_> {
    /// Whether the message addresses the bot: by a mention, its role, or a reply to it.
    pub(super) fn calls_me(&self, message: &Message) -> bool {
        let answered = message.referenced_message.as_ref().filter(|_| !message.is_thread_start());
        answered.is_some_and(|answered| answered.author.id == self.me)
            || message.mentions.iter().any(|person| person.id == self.me)
            || message.mention_roles.iter().any(|role| self.places.is_own_role(*role))
    }

    /// The text of a message for the model. Empty if it has none.
    pub(super) fn words(&self, message: &Message) -> String {
        let mut words = String::new();
        if let Some(quote) = self.quote(message) {
            words.push_str(&quote);
        }
        push_block(&mut words, self.readable(&message.content, &message.mentions).trim());
        for snapshot in &message.message_snapshots {
            push_block(&mut words, &self.forwarded(&snapshot.message));
        }
        for line in self.lines(&message.carried()) {
            push_block(&mut words, &line);
        }
        if words.is_empty() && self.calls_me(message) && message.attachments.is_empty() {
            // A message with only a mention is a greeting.
            return "(mentions you)".to_owned();
        }
        words
    }

    /// A short quote of the message that is replied to, or from which a thread was made. `None` if that is the bot's last
    /// message.
    fn quote(&self, message: &Message) -> Option<String> {
        let what =
            if message.is_thread_start() { "this thread starts with a message of" } else { "in reply to" };
        let Some(answered) = message.referenced_message.as_ref() else {
            // A reference of type 1 is a forward; without a type it is 0, a reply.
            let kind = message.message_reference.as_ref()?.get("type").and_then(Value::as_u64);
            let is_reply = matches!(message.kind, 19 | 21) && kind.unwrap_or(0) == 0;
            return is_reply.then(|| format!("[{what} somebody: the message is gone]"));
        };
        let mine = answered.author.id == self.me;
        if mine && self.last_own == Some(answered.id.get()) && !message.is_thread_start() {
            return None;
        }
        let whose = if mine { "you".to_owned() } else { display(answered.display_name()) };
        let most = if message.is_thread_start() { CARRIED_MAX } else { QUOTE_MAX };
        let mut said = vec![one_line(&self.readable(&answered.content, &answered.mentions), most)];
        if !mine {
            let snapshots = answered.message_snapshots.iter();
            said.extend(snapshots.map(|snapshot| self.forwarded(&snapshot.message)));
            let carried = answered.carried();
            said.extend(self.lines(&carried));
            let files: Vec<String> = carried.files.iter().map(|file| display(&file.filename)).collect();
            said.extend((!files.is_empty()).then(|| format!("[files: {}]", files.join(", "))));
        }
        said.retain(|piece| !piece.is_empty());
        let text = one_line(&said.join(" "), most + CARRIED_MAX);
        let text = if text.is_empty() { "something without words".to_owned() } else { format!("\"{text}\"") };
        Some(format!("[{what} {whose}: {text}]"))
    }

    /// A forwarded message, each line marked.
    fn forwarded(&self, snapshot: &SnapshotWords) -> String {
        let mut lines = vec![self.readable(&snapshot.content, &snapshot.mentions).trim().to_owned()];
        lines.extend(self.lines(&snapshot.carried()));
        // A forward without anything that is shown is still named.
        let first = lines.len() == 1;
        lines.retain(|line| !line.is_empty() || first);
        let marked: Vec<String> =
            lines.iter().map(|line| format!("[forwarded] {line}").trim_end().to_owned()).collect();
        marked.join("\n")
    }

    /// What a message carries besides its text, a line for each, within [`CARRIED_MAX`] characters.
    fn lines(&self, carried: &Carried<'_>) -> Vec<String> {
        let mut lines = Vec::new();
        for sticker in carried.stickers {
            lines.push(format!("[sticker: {}]", one_line(&sticker.name, 80)));
        }
        lines.extend(carried.poll.map(poll_line));
        lines.extend(carried.activity.then(|| "[an invitation to an activity]".to_owned()));
        for file in carried.files {
            let Some(description) = file.description.as_deref().filter(|text| !text.trim().is_empty()) else {
                continue;
            };
            let description = one_line(description, TEXT_MAX);
            lines.push(format!("[{} shows: {description}]", display(&file.filename)));
        }
        let readable = |text: &str| self.readable(text, carried.mentions);
        for embed in carried.embeds.iter().filter(|embed| embed.is_own()).take(EMBEDS_MAX) {
            lines.push(one_line(&readable(&embed_line(embed)), CARRIED_MAX));
        }
        let mut told = Vec::new();
        components(carried.components, 0, &mut told);
        lines.extend(told.iter().map(|text| one_line(&readable(text), CARRIED_MAX)));
        let mut left = CARRIED_MAX;
        for line in &mut lines {
            if line.chars().count() > left {
                *line = one_line(line, left);
            }
            left = left.saturating_sub(line.chars().count());
        }
        lines.retain(|line| !line.is_empty() && line != "…");
        lines
    }

    /// Replaces mentions, emoji and commands by their names; the bot's own mention is removed.
    pub(super) fn readable(&self, content: &str, mentions: &[User]) -> String {
        let mut out = String::with_capacity(content.len());
        let mut rest = content;
        while let Some(at) = rest.find('<') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let tag = rest.find('>').map(|end| (&rest[1..end], end + 1));
            match tag.and_then(|(tag, len)| Some((self.tag(tag, mentions)?, len))) {
                Some((name, len)) => {
                    rest = &rest[len..];
                    if name.is_empty() && (out.is_empty() || out.ends_with(' ')) {
                        rest = rest.strip_prefix(' ').unwrap_or(rest);
                    }
                    out.push_str(&name);
                }
                None => {
                    out.push('<');
                    rest = &rest[1..];
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// The readable form of a tag, given without its angle brackets. `None` if it is no tag of Discord.
    fn tag(&self, tag: &str, mentions: &[User]) -> Option<String> {
        if let Some(role) = tag.strip_prefix("@&") {
            let role = number(role)?.into();
            if self.places.is_own_role(role) {
                return Some(String::new());
            }
            return Some(format!("@{}", self.places.role_name(role).unwrap_or_else(|| "role".to_owned())));
        }
        if let Some(user) = tag.strip_prefix('@') {
            let user: UserId = number(user.strip_prefix('!').unwrap_or(user))?.into();
            if user == self.me {
                return Some(String::new());
            }
            let name = mentions.iter().find(|person| person.id == user).map(User::display_name);
            return Some(format!("@{}", display(name.unwrap_or("somebody"))));
        }
        if let Some(channel) = tag.strip_prefix('#') {
            return number(channel).map(|id| format!("#{id}"));
        }
        if let Some(command) = tag.strip_prefix('/') {
            let (name, id) = command.rsplit_once(':')?;
            return number(id).map(|_| format!("/{name}"));
        }
        let emoji = tag.strip_prefix("a:").or_else(|| tag.strip_prefix(':'))?;
        let (name, id) = emoji.split_once(':')?;
        number(id).map(|_| format!(":{name}:"))
    }
}

fn poll_line(poll: &Poll) -> String {
    let mut line = format!("[poll: {}", one_line(poll.question.text.as_deref().unwrap_or(""), 300));
    for answer in poll.answers.iter().take(EMBED_FIELDS_MAX) {
        let text = one_line(answer.poll_media.text.as_deref().unwrap_or(""), 100);
        // Writing to a string does not fail.
        let _ = write!(line, " / {text}");
    }
    line.push(']');
    line
}

/// An embed on one line: author, title with its link, description, fields, footer, and that there is a picture.
fn embed_line(embed: &Embed) -> String {
    let cut =
        |text: &Option<String>| text.as_deref().map(|text| one_line(text, TEXT_MAX)).unwrap_or_default();
    let mut title = cut(&embed.title);
    if let Some(url) = &embed.url {
        title.push_str(&format!(" ({})", one_line(url, LINK_MAX)));
    }
    let mut pieces = vec![cut(&embed.author.name), title.trim().to_owned(), cut(&embed.description)];
    for field in embed.fields.iter().take(EMBED_FIELDS_MAX) {
        let (name, value) = (cut(&field.name), cut(&field.value));
        pieces.push(format!("{name}: {value}"));
    }
    pieces.push(cut(&embed.footer.text));
    pieces.push(embed.image.url.as_ref().map(|_| "[a picture]".to_owned()).unwrap_or_default());
    pieces.retain(|piece| !piece.is_empty());
    pieces.join(" | ")
}

/// The texts of components in order, at most [`COMPONENTS_MAX`].
fn components(list: &[Value], depth: usize, out: &mut Vec<String>) {
    let text = |value: &Value, key: &str| -> Option<String> {
        let text = one_line(value.get(key)?.as_str()?, TEXT_MAX);
        (!text.is_empty()).then_some(text)
    };
    for component in list {
        if depth > COMPONENTS_DEPTH || out.len() >= COMPONENTS_MAX {
            return;
        }
        let all = |key: &str| component.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        match component.get("type").and_then(Value::as_u64) {
            Some(2) => {
                let label = text(component, "label").unwrap_or_else(|| "without words".to_owned());
                let url = component.get("url").and_then(Value::as_str);
                let url = url.map(|url| format!(", {}", one_line(url, LINK_MAX))).unwrap_or_default();
                out.push(format!("[button: {label}{url}]"));
            }
            Some(3) => {
                let mut choice: Vec<String> = text(component, "placeholder").into_iter().collect();
                choice.extend(
                    all("options").iter().take(EMBED_FIELDS_MAX).filter_map(|one| text(one, "label")),
                );
                out.push(format!("[choice: {}]", choice.join(" / ")));
            }
            Some(5..=8) => {
                out.push(format!("[choice: {}]", text(component, "placeholder").unwrap_or_default()))
            }
            Some(12) => {
                for item in all("items").iter().take(EMBEDS_MAX) {
                    let shows = text(item, "description").map(|text| format!(": {text}")).unwrap_or_default();
                    out.push(format!("[picture{shows}]"));
                }
            }
            Some(11) => {
                let shows =
                    text(component, "description").map(|text| format!(": {text}")).unwrap_or_default();
                out.push(format!("[picture{shows}]"));
            }
            Some(13) => out.push(format!("[file: {}]", text(component, "name").unwrap_or_default())),
            // A text display, and whatever else has text.
            _ => out.extend(
                ["label", "content", "description"].into_iter().filter_map(|key| text(component, key)),
            ),
        }
        components(all("components"), depth + 1, out);
        for key in ["accessory", "component"] {
            components(component.get(key).map_or(&[], std::slice::from_ref), depth + 1, out);
        }
    }
}

fn number(text: &str) -> Option<u64> {
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| text.parse().ok()).flatten().filter(|id| *id != 0)
}

fn push_block(words: &mut String, block: &str) {
    if block.is_empty() {
        return;
    }
    if !words.is_empty() {
        words.push('\n');
    }
    words.push_str(block);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use serenity::all::GuildId;

    use super::*;
    use crate::discord::wire::Server;

    fn places() -> Places {
        let places = Places::default();
        let server: Server = serde_json::from_value(json!({
            "id": "1", "roles": [{"id": "5", "name": "cairn", "tags": {"bot_id": "99"}}, {"id": "6", "name": "staff"}],
        }))
        .expect("is a server");
        assert_eq!(server.id, GuildId::new(1));
        places.learn_server(&server, UserId::new(99));
        places
    }

    fn message(more: Value) -> Message {
        let mut value = json!({"id": "7", "channel_id": "8", "author": {"id": "9", "username": "ann"}});
        let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) else { panic!("objects") };
        value.extend(more);
        serde_json::from_value(Value::Object(value.clone())).expect("is a message")
    }

    fn words(more: Value, last_own: Option<u64>) -> String {
        let places = places();
        Reading { me: UserId::new(99), places: &places, last_own }.words(&message(more))
    }

    #[test]
    fn tags_are_readable_and_what_is_none_stays() {
        let cases = [
            ("<@99> hello", "hello"),
            ("hello <@!99>", "hello"),
            ("tell <@99> it", "tell it"),
            ("<@2> and <@3>", "@Bob and @somebody"),
            ("<@&6> or <@&5>, <@&77>", "@staff or , @role"),
            ("<#44> has <:wave:123> <a:dance:456>", "#44 has :wave: :dance:"),
            ("try </memory:123>", "try /memory"),
            ("a < b > c <@> <@x> <:> <t:1:R> <@0>", "a < b > c <@> <@x> <:> <t:1:R> <@0>"),
            ("<<@2>", "<@Bob"),
            ("ends with <", "ends with <"),
        ];
        for (content, expected) in cases {
            let mentions = json!([{"id": "2", "username": "bob", "global_name": "Bob"}]);
            assert_eq!(words(json!({"content": content, "mentions": mentions}), None), expected, "{content}");
        }
    }

    #[test]
    fn what_is_answered_is_quoted_unless_it_is_the_bots_last_word() {
        let of = |author: &str, id: &str| {
            json!({"content": "yes", "referenced_message": {
                "id": id, "channel_id": "8", "content": "shall\nwe?", "author": {"id": author, "username": "bob"},
            }})
        };
        assert_eq!(words(of("2", "3"), None), "[in reply to bob: \"shall we?\"]\nyes");
        assert_eq!(words(of("99", "3"), Some(4)), "[in reply to you: \"shall we?\"]\nyes");
        assert_eq!(words(of("99", "4"), Some(4)), "yes");
    }

    #[test]
    fn a_long_quote_is_cut_and_stays_on_one_line() {
        let long = "word\n".repeat(400);
        let quoted = json!({"content": "yes", "referenced_message": {
            "id": "3", "channel_id": "8", "content": long, "author": {"id": "2", "username": "bob"},
        }});
        let words = words(quoted, None);
        let quote = words.lines().next().expect("has a quote");
        assert!(quote.chars().count() < 240 && quote.ends_with("…\"]"), "{quote}");
    }

    #[test]
    fn what_has_no_words_is_named() {
        let more = json!({
            "sticker_items": [{"name": "Wave"}],
            "poll": {"question": {"text": "Lunch?"}, "answers": [{"poll_media": {"text": "Yes"}}, {"poll_media": {"text": "No"}}]},
            "message_snapshots": [{"message": {"content": "old words"}}],
        });
        assert_eq!(words(more, None), "[forwarded] old words\n[sticker: Wave]\n[poll: Lunch? / Yes / No]");
        assert_eq!(words(json!({"content": "<@99>", "mentions": [{"id": "99"}]}), None), "(mentions you)");
        assert_eq!(words(json!({"embeds": [{"title": "A preview"}]}), None), "");
    }

    fn alert() -> Value {
        json!({"type": "rich", "title": "Disk alert", "url": "https://a.org", "description": "kelp is at\n97 %",
            "author": {"name": "watch"}, "fields": [{"name": "Mount", "value": "/srv for <@2>", "inline": true}],
            "footer": {"text": "since 04:11"}, "image": {"url": "https://a.org/p.png"}})
    }

    const ALERT: &str = "watch | Disk alert (https://a.org) | kelp is at 97 % | Mount: /srv for @somebody | since 04:11 | [a picture]";

    #[test]
    fn boxes_and_components_of_bots_are_told_wherever_they_are() {
        let robot = json!({"id": "9", "username": "alerts", "bot": true});
        let preview = json!({"type": "article", "title": "A page"});
        assert_eq!(words(json!({"author": robot, "embeds": [preview, alert()]}), None), ALERT);
        let answered = json!({"id": "3", "channel_id": "8", "author": robot, "embeds": [alert()]});
        let reply = json!({"content": "what?", "type": 19, "referenced_message": answered});
        assert_eq!(words(reply, None), format!("[in reply to alerts: \"{ALERT}\"]\nwhat?"));
        let forward = json!({"message_snapshots": [{"message": {"content": "", "embeds": [alert()]}}]});
        assert_eq!(words(forward, None), format!("[forwarded] {ALERT}"));
        let parts = json!([{"type": 17, "components": [
            {"type": 9, "components": [{"type": 10, "content": "## Deploy 88\nfailed"}],
                "accessory": {"type": 2, "style": 5, "label": "Log", "url": "https://a.org/l"}},
            {"type": 12, "items": [{"media": {"url": "x"}, "description": "a graph"}]},
            {"type": 1, "components": [{"type": 3, "placeholder": "Pick", "options": [{"label": "one"}, {"label": "two"}]}]},
            {"type": 14}, {"type": 13, "name": "log.txt"}, {"type": 99, "content": "new"}, 7, null,
        ]}]);
        assert_eq!(
            words(json!({"author": robot, "flags": 32768, "components": parts}), None),
            "## Deploy 88 failed\n[button: Log, https://a.org/l]\n[picture: a graph]\n[choice: Pick / one / two]\n\
             [file: log.txt]\nnew"
        );
    }

    #[test]
    fn what_boxes_and_components_say_is_bounded() {
        let robot = json!({"id": "9", "username": "alerts", "bot": true});
        let field = json!({"name": "n", "value": "v".repeat(5_000)});
        let embed = json!({"title": "t", "fields": vec![field; 100]});
        let mut nested = json!({"type": 10, "content": "deep"});
        for _ in 0..40 {
            nested = json!({"type": 17, "components": [nested]});
        }
        let many = vec![json!({"type": 10, "content": "c".repeat(100)}); 1_000];
        let told = words(json!({"author": robot, "embeds": vec![embed; 50], "components": many}), None);
        assert!(told.chars().count() < CARRIED_MAX + 100, "{}", told.chars().count());
        assert_eq!(words(json!({"author": robot, "components": [nested]}), None), "");
    }

    #[test]
    fn the_start_of_a_thread_is_told_and_calls_nobody() {
        let of = |author: &str| {
            json!({"type": 21, "referenced_message": {"id": "3", "channel_id": "8", "content": "How?", "author": {"id": author,
                "username": "bob"}, "attachments": [{"filename": "a.png", "content_type": "image/png"}]}})
        };
        assert_eq!(
            words(of("2"), None),
            "[this thread starts with a message of bob: \"How? [files: a.png]\"]"
        );
        assert_eq!(words(of("99"), Some(3)), "[this thread starts with a message of you: \"How?\"]");
        let places = places();
        let reading = Reading { me: UserId::new(99), places: &places, last_own: None };
        assert!(!reading.calls_me(&message(of("99"))));
        assert_eq!(message(of("2")).referenced_message.expect("is there").pictures().count(), 1);
        let gone = json!({"content": "so?", "type": 19, "message_reference": {"message_id": "3"}});
        assert_eq!(words(gone, None), "[in reply to somebody: the message is gone]\nso?");
    }

    #[test]
    fn the_bot_is_called_by_a_mention_its_role_or_a_reply() {
        let places = places();
        let reading = Reading { me: UserId::new(99), places: &places, last_own: None };
        let calls = |more| reading.calls_me(&message(more));
        assert!(calls(json!({"mentions": [{"id": "99"}]})));
        assert!(calls(json!({"mention_roles": ["5"]})));
        assert!(calls(json!({"referenced_message": {"id": "3", "channel_id": "8", "author": {"id": "99"}}})));
        assert!(!calls(json!({"content": "<@99> typed by hand in code", "mention_everyone": true})));
        assert!(!calls(json!({"mentions": [{"id": "2"}], "mention_roles": ["6"]})));
    }
}
