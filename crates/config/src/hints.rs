//! What to write instead, for mistakes that people often make.

/// Keys of other programs, and what they are called here: the end of the table's path, the key, the hint. An empty table is
/// any.
const OTHER_NAMES: [(&str, &str, &str); 20] = [
    ("places", "guild_id", "`server`, in quotes"),
    ("places", "guild", "`server`, in quotes"),
    ("places", "channel_id", "`chat`, in quotes"),
    ("places", "chat_id", "`chat`, in quotes"),
    ("", "guild_id", "a list: servers = [\"123456789012345678\"]"),
    ("", "guild_ids", "a list: servers = [\"123456789012345678\"]"),
    ("", "guilds", "a list: servers = [\"123456789012345678\"]"),
    ("", "channel_id", "a list: chats = [\"123456789012345678\"]"),
    ("", "channel_ids", "a list: chats = [\"123456789012345678\"]"),
    ("", "chat_id", "a list: chats = [\"123456789012345678\"]"),
    ("", "user_id", "a list: users = [\"123456789012345678\"]"),
    ("", "allow_from", "a list: users = [\"123456789012345678\"]"),
    ("", "allowed_users", "a list: users = [\"123456789012345678\"]"),
    (
        "",
        "system_prompt",
        "prompt_text = \"…\" in [defaults] or [[agents]], or a file: prompt = \"prompt.md\"",
    ),
    (
        "",
        "instructions",
        "prompt_text = \"…\" in [defaults] or [[agents]], or a file: prompt = \"prompt.md\"",
    ),
    ("agents", "name", "`id`"),
    ("store", "path", "the option --state of the command, or $CAIRN_STATE"),
    ("store", "dir", "the option --state of the command, or $CAIRN_STATE"),
    ("", "state_dir", "the option --state of the command, or $CAIRN_STATE"),
    ("models", "name", "`id` for Cairn's own name of it, `model` for the server's"),
];

/// How a key is called here that people write from other programs. `above`: the path of its table.
pub(super) fn of_key(key: &str, above: &str) -> Option<String> {
    let (.., instead) = OTHER_NAMES
        .iter()
        .find(|(table, name, _)| *name == key && (table.is_empty() || above.ends_with(table)))?;
    Some(format!("here that is {instead}"))
}

/// What to write for a value of another type. `message`: the deserializer's; `value`: as the file has it.
pub(super) fn of_type(message: &str, key: &str, value: &str) -> Option<String> {
    let is_string = message.starts_with("invalid type: string");
    let is_whole =
        ["u64", "u32", "usize", "f64"].iter().any(|kind| message.contains(&format!("expected {kind}")));
    if message.starts_with("invalid type: map, expected a sequence") {
        return Some("write it as a list of tables, with two brackets: [[models]], [[agents]]".to_owned());
    }
    if message.starts_with("invalid type:") && message.contains("expected a sequence") {
        let quoted = if is_string { value.to_owned() } else { format!("\"{value}\"") };
        return Some(format!("write it as a list, in brackets: {key} = [{quoted}]"));
    }
    if is_string && is_whole {
        let number = value.trim_matches(['"', '\'']);
        return Some(match written_out(number) {
            Some(whole) => format!("write it out, without quotes: {key} = {whole}"),
            None => "write the number without quotes".to_owned(),
        });
    }
    if message.starts_with("unknown variant") && key.ends_with("provider") {
        return Some(
            "a server with OpenAI's API, as Ollama, llama.cpp, vLLM, OpenRouter and most others have it, takes \
             provider = \"openai\" and its address, such as base_url = \"http://127.0.0.1:11434/v1\""
                .to_owned(),
        );
    }
    None
}

/// What to write for a line that is not TOML.
pub(super) fn of_syntax(line: &str) -> Option<String> {
    if line.contains(['“', '”', '„', '‘', '’', '«', '»']) {
        return Some("the quotes are typographic: write straight ones, \" or '".to_owned());
    }
    let (key, value) = line.split_once('=')?;
    let whole = written_out(value.trim())?;
    Some(format!("write the number out: {} = {whole}", key.trim()))
}

/// A number such as `128k` or `1M` in digits.
fn written_out(number: &str) -> Option<u64> {
    let digits = number.strip_suffix(['k', 'K', 'm', 'M'])?;
    let unit = if number.ends_with(['k', 'K']) { 1_000 } else { 1_000_000 };
    digits.trim().parse::<u64>().ok()?.checked_mul(unit)
}
