//! Emoji of `reaction_seen`, `reaction_working` and `reaction_failed`, by themselves or by name.

use super::NetworkKind;

/// Names of emoji that suit.
const NAMES: [(&str, &str); 12] = [
    ("check", "✅"),
    ("cross", "❌"),
    ("eyes", "👀"),
    ("fire", "🔥"),
    ("hourglass", "⏳"),
    ("lightning", "⚡"),
    ("ok", "👌"),
    ("shrug", "🤷"),
    ("sob", "😭"),
    ("thinking", "🤔"),
    ("thumbs_down", "👎"),
    ("writing", "✍"),
];

/// All that Telegram takes of a bot ("ReactionTypeEmoji" in the documentation of its Bot API).
const TELEGRAM: &str = "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤\u{200d}🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 \
                        😴 😭 🤓 👻 👨\u{200d}💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷\u{200d}♂ 🤷 🤷\u{200d}♀ 😡";

/// Longest emoji of Discord's, in bytes; several code points may join.
const EMOJI_MAX: usize = 64;

/// The reaction as the network takes it: an emoji, on Discord also `name:id` of a custom one.
///
/// # Errors
/// What is wrong with the text, and what may stand there.
pub fn reaction(kind: NetworkKind, text: &str) -> Result<String, String> {
    let text = text.trim();
    let named = NAMES.iter().find(|(name, _)| *name == text).map(|(_, emoji)| *emoji);
    let emoji = named.unwrap_or(text);
    match kind {
        NetworkKind::Telegram => {
            // People's keyboards add the selector of the coloured form, which Telegram's list has not.
            let bare = emoji.replace('\u{fe0f}', "");
            match TELEGRAM.split_whitespace().any(|known| known == bare) {
                true => Ok(bare),
                false => {
                    Err(format!("Telegram takes of a bot one of {TELEGRAM}, or by name {}", names(kind)))
                }
            }
        }
        // Bridges set none; the configuration's check says so.
        NetworkKind::Discord | NetworkKind::Bridge if is_custom(emoji) || is_emoji(emoji) => {
            Ok(emoji.to_owned())
        }
        NetworkKind::Discord | NetworkKind::Bridge => Err(format!(
            "write an emoji, one of the names {}, or name:id of one of the server's own",
            names(kind)
        )),
    }
}

fn names(kind: NetworkKind) -> String {
    let fits =
        |emoji: &str| kind == NetworkKind::Discord || TELEGRAM.split_whitespace().any(|known| known == emoji);
    let names: Vec<&str> = NAMES.iter().filter(|(_, emoji)| fits(emoji)).map(|(name, _)| *name).collect();
    names.join(", ")
}

fn is_emoji(text: &str) -> bool {
    let fits = |c: char| !c.is_alphabetic() && !c.is_whitespace() && !c.is_control();
    (1..=EMOJI_MAX).contains(&text.len()) && !text.is_ascii() && text.chars().all(fits)
}

fn is_custom(text: &str) -> bool {
    text.split_once(':').is_some_and(|(name, id)| {
        let is_name = (2..=32).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name && id.parse::<u64>().is_ok_and(|id| id > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emoji_is_given_by_itself_or_by_name_and_fits_its_network() {
        let check = |kind, text: &str, expected: Option<&str>| {
            assert_eq!(reaction(kind, text).ok().as_deref(), expected, "{kind:?} {text}");
        };
        for kind in [NetworkKind::Discord, NetworkKind::Telegram] {
            check(kind, "eyes", Some("👀"));
            check(kind, "👀", Some("👀"));
            for wrong in ["", "eye", "👀👀 ", "a", "<b>"] {
                check(kind, wrong, (wrong == "👀👀 " && kind == NetworkKind::Discord).then_some("👀👀"));
            }
        }
        check(NetworkKind::Discord, "hourglass", Some("⏳"));
        check(NetworkKind::Discord, "party_cat:123", Some("party_cat:123"));
        check(NetworkKind::Discord, "1️⃣", Some("1️⃣"));
        check(NetworkKind::Telegram, "hourglass", None);
        check(NetworkKind::Telegram, "party_cat:123", None);
        check(NetworkKind::Telegram, "✍️", Some("✍"));
        check(NetworkKind::Telegram, "❤️\u{200d}🔥", Some("❤\u{200d}🔥"));
        let told = reaction(NetworkKind::Telegram, "⏳").unwrap_err();
        assert!(told.contains("👨\u{200d}💻") && told.contains("by name eyes, fire"), "{told}");
    }
}
