//! The text of the first config file: the answers, with comments about further settings.

use std::path::PathBuf;

use crate::commands::init::answers::{Answers, Bot, MODEL_KEY, Model, token_file};
use crate::commands::init::ask::Secret;
use cairn_config::{NetworkKind, Provider};

pub(super) fn text(answers: &Answers) -> String {
    let mut out = "\
# Cairn's configuration, begun by `cairn init`. What is not set here has its default: `cairn config show` shows everything.
# Every key is explained in the reference, config/config.toml of the source (in the Debian package
# /usr/share/doc/cairn/config.toml). After a change: `cairn config check`.
"
    .to_owned();
    match &answers.model {
        Some(model) => out.push_str(&model_table(model)),
        None => out.push_str(OFFLINE),
    }
    out.push_str(&agent_table(answers.model.is_some()));
    for bot in &answers.bots {
        out.push_str(&bot_table(bot, &answers.owners));
    }
    if !answers.owners.is_empty() {
        let owners = list(answers.owners.iter().map(|owner| quoted(owner)));
        out.push_str(&format!(
            "\n[commands]\n# Who may use every command, including approvals of tool calls.\noperators = {owners}\n"
        ));
    }
    out
}

const OFFLINE: &str = "
# No model server: the embedded model answers by looking things up. To use a server, remove the #:
#[[models]]
#id = \"main\"
#base_url = \"http://127.0.0.1:8080/v1\"
#model = \"any-name\"
#api_key_file = \"model.key\"
";

fn model_table(model: &Model) -> String {
    let provider = if model.provider == Provider::Anthropic { "anthropic" } else { "openai" };
    let mut out = format!(
        "\n[[models]]\n# The name by which agents refer to it.\nid = \"main\"\nprovider = \"{provider}\"\n"
    );
    match &model.base_url {
        Some(url) => out.push_str(&format!("base_url = {}\n", quoted(url))),
        None => out.push_str("# The provider's own server; to use another one: base_url = \"https://...\"\n"),
    }
    out.push_str(&format!("model = {}\n", quoted(&model.name)));
    out.push_str(&secret_line(
        "api_key",
        MODEL_KEY,
        &model.key,
        "# No key is sent; set one with api_key_env or api_key_file.\n",
    ));
    match model.window {
        Some(window) => out.push_str(&format!("context_window = {window}\n")),
        None => out.push_str("# The window in tokens, if the server does not list it or lists too much.\n#context_window = 32000\n"),
    }
    out.push_str("# The longest answer in tokens; this much of the window is kept free for it.\n#max_output_tokens = 1024\n");
    out
}

fn agent_table(has_model: bool) -> String {
    let models = if has_model { "models = [\"main\"]" } else { "#models = [\"main\"]" };
    format!(
        "
[[agents]]
id = \"main\"
# Models, tried in order: the next one answers where the first one fails.
{models}
# To give it a character of its own, copy prompts/en/agent.md.j2, change it, and name the copy.
#prompt = \"agent.md.j2\"
# When old messages are summarised, as shares of the window; the default is 0.80, 0.85, 0.95.
#[agents.compaction]
#background_threshold = 0.70
"
    )
}

fn bot_table(bot: &Bot, owners: &[String]) -> String {
    let network = bot.kind.name();
    let mut out = format!("\n[{network}]\n");
    out.push_str(&secret_line("token", token_file(bot.kind), &bot.token, ""));
    if let Some(url) = &bot.api_url {
        out.push_str(&format!("api_url = {}\n", quoted(url)));
    }
    let users = owners.iter().filter_map(|owner| owner.strip_prefix(network)?.strip_prefix('/'));
    out.push_str("# Who may write privately without a code (others: `cairn pair`).\n");
    out.push_str(&key_or_comment("users", users.map(str::to_owned).collect()));
    out.push_str(match bot.kind {
        NetworkKind::Discord => "# Servers that the bot serves, with all their channels.\n",
        NetworkKind::Telegram | NetworkKind::Bridge => {
            "# Groups that the bot serves; the log of `cairn run` shows the ids of other groups that write.\n"
        }
    });
    out.push_str(&match bot.kind {
        NetworkKind::Discord => key_or_comment("servers", bot.servers.clone()),
        NetworkKind::Telegram | NetworkKind::Bridge => key_or_comment("chats", Vec::new()),
    });
    out.push_str(
        "# In groups it answers when mentioned (\"mention\") or always (\"all\").\n#respond = \"mention\"\n",
    );
    out
}

/// A key with a list; commented out if the list is empty.
fn key_or_comment(key: &str, items: Vec<String>) -> String {
    let comment = if items.is_empty() { "#" } else { "" };
    format!("{comment}{key} = {}\n", list(items))
}

/// The line that names the place of a secret.
fn secret_line(key: &str, name: &'static str, secret: &Secret, none: &str) -> String {
    let file = |file: PathBuf| format!("{key}_file = {}\n", quoted(&file.to_string_lossy()));
    match secret {
        Secret::Variable(variable) => format!("{key}_env = {}\n", quoted(variable)),
        found => found.file(name).map_or_else(|| none.to_owned(), file),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}
