//! What is said about a wrong file: where, what, and what to do.

use rstest::rstest;

use super::{error, load};

#[test]
fn an_unknown_key_is_shown_in_its_line_with_the_nearest_known_key() {
    let text = "[defaults]\ncontext_window = 9000\n\n[defaults.compaction]\nbackground_treshold = 0.7\n";
    assert_eq!(
        error(text),
        "/etc/cairn/config.toml:5:1: unknown key `background_treshold` in [defaults.compaction]\n   \
         |\n 5 | background_treshold = 0.7\n   | ^^^^^^^^^^^^^^^^^^^\n   = did you mean `background_threshold`?"
    );
}

#[rstest]
#[case::table("[default]\ncontext_window = 9000", "1:2: unknown key `default`", "`defaults`")]
#[case::singular("[[agent]]\nid = \"x\"", "unknown key `agent`", "`agents`")]
#[case::dashes("[defaults]\ncontext-window = 9000", "2:1: unknown key", "`context_window`")]
#[case::agent("[[agents]]\nid = \"a\"\nmodel = \"x\"", "3:1: unknown key `model` in [[agents]]", "`models`")]
#[case::second("[[agents]]\nid = \"a\"\n[[agents]]\nid = \"b\"\ntimezon = \"UTC\"", "5:1: ", "`timezone`")]
#[case::nested("[[agents]]\nid = \"a\"\n[agents.compaction]\nenable = false", "4:1: ", "`enabled`")]
#[case::elsewhere("[defaults]\nbackground_threshold = 0.5", "2:1: ", "belongs in [defaults.compaction]")]
#[case::top("context_window = 9000", "1:1: ", "belongs in [defaults]")]
#[case::name_of_an_agent("[[agents]]\nname = \"x\"", "2:", "here that is `id`")]
#[case::state("[store]\npath = \"/srv/cairn\"", "2:", "--state")]
#[case::id("[defaults]\nid = \"x\"", "2:", "belongs in [[agents]]")]
#[case::nothing_near("[log]\nzzzzzzzzzzzz = 1", "2:1: ", "known keys here: level, format")]
fn a_mistyped_key_is_an_error_that_names_what_was_meant(
    #[case] text: &str,
    #[case] place: &str,
    #[case] hint: &str,
) {
    let message = error(text);
    assert!(message.contains(place) && message.contains(hint), "{message}");
}

#[test]
fn all_mistyped_keys_are_named_at_once() {
    let problems = load("[log]\nlevl = \"info\"\n[store]\nsegment = 3\n").unwrap_err().problems;
    assert_eq!(problems.len(), 2);
}

#[rstest]
#[case("[defaults]\ncontext_window = \"big\"", "2:18: `defaults.context_window`", "a whole number")]
#[case("[defaults]\ncontext_window = -5", "2:18: ", "a whole number")]
#[case("[defaults.compaction]\nenabled = \"yes\"", "2:11: `defaults.compaction.enabled`", "true or false")]
#[case("[defaults.compaction]\nbackground_threshold = \"0.8\"", "2:24: ", "without quotes")]
#[case("[agents]\nid = \"a\"", "1:", "[[agents]]")]
#[case("[[agents]]\nid = \"a\"\nmodels = \"main\"", "3:10: ", "models")]
#[case("[[models]]\nid = \"a\"\nprovider = \"opnai\"", "3:12: ", "openai")]
#[case("[log]\nformat = 3", "2:10: ", "format")]
#[case("[defaults.result_guard]\nclasses = { browse = \"never\" }", "2:", "always_offload")]
#[case("[defaults.result_guard]\nartifact_days = -1", "2:17: ", "a whole number")]
fn a_wrong_type_names_key_place_and_what_is_expected(
    #[case] text: &str,
    #[case] place: &str,
    #[case] expected: &str,
) {
    let message = error(text);
    assert!(message.contains(place) && message.contains(expected), "{message}");
    assert!(message.contains("| ") && message.contains('^'), "no excerpt with a caret: {message}");
}

#[rstest]
#[case::one_for_a_list("[[agents]]\nid = \"a\"\nmodels = \"main\"", "models = [\"main\"]")]
#[case::one_for_a_list_of_ids("[discord]\nservers = \"123\"", "servers = [\"123\"]")]
#[case::a_number_for_a_list("[discord]\nservers = 123", "servers = [\"123\"]")]
#[case::thousands("[defaults]\ncontext_window = \"128k\"", "context_window = 128000")]
#[case::thousands_without_quotes("[defaults]\ncontext_window = 128k", "context_window = 128000")]
#[case::quoted("[defaults]\ncontext_window = \"9000\"", "without quotes")]
#[case::provider(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\nprovider = \"ollama\"",
    "provider = \"openai\" and its address, such as base_url = \"http://127.0.0.1:11434/v1\""
)]
#[case::guild("[discord]\nguild_id = 123", "servers = [")]
#[case::guild_of_a_place("[[discord.places]]\nguild_id = 123", "`server`, in quotes")]
#[case::prompt("[[agents]]\nid = \"a\"\nsystem_prompt = \"Be nice.\"", "prompt_text = ")]
#[case::smart_quotes("[defaults]\ntimezone = “UTC”", "typographic")]
#[case::command_line(
    "[[mcp]]\nid = \"m\"\ncommand = \"npx -y @x/files /srv\"",
    "command = \"npx\" and args = [\"-y\", \"@x/files\", \"/srv\"]"
)]
fn a_common_mistake_is_told_with_what_to_write(#[case] text: &str, #[case] instead: &str) {
    let message = error(text);
    assert!(message.contains(instead), "{message}");
}

#[test]
fn a_program_may_have_spaces_in_its_path() {
    load("[[mcp]]\nid = \"m\"\ncommand = \"/opt/my tools/serve\"\n").unwrap();
}

#[test]
fn broken_toml_is_shown_where_it_breaks() {
    let message = error("[defaults]\ncontext_window = = 3\n");
    assert!(message.starts_with("/etc/cairn/config.toml:2:18: this is not TOML"), "{message}");
    assert!(message.contains("2 | context_window = = 3"), "{message}");
}

#[rstest]
#[case("background_threshold = 80", &["2:24", "`background_threshold` = 80", "above 0 and below 1", "such as 0.8"])]
#[case("background_threshold = 0.9", &["2:24", "`aggressive_threshold` = 0.85", "background_threshold = 0.9", "rise"])]
#[case("stack_tokens = 99", &["2:16", "`stack_tokens` = 99", "or 100 or more"])]
#[case("max_messages = 1", &["2:16", "`max_messages` = 1", "or 2 or more"])]
#[case("target_tokens = 800\nstack_tokens = 700", &["2:17", "`target_tokens` = 800 must not be above stack_tokens"])]
#[case("aggressive_threshold = 0.99", &["2:24", "`emergency_threshold` = 0.95", "aggressive_threshold = 0.99"])]
#[case("emergency_threshold = 1.5", &["`emergency_threshold` = 1.5", "below 1"])]
#[case("background_threshold = nan", &["`background_threshold` = NaN"])]
#[case("reserve_ratio = 0.9", &["`reserve_ratio` = 0.9", "0.5"])]
#[case("fan_out = 1", &["`fan_out` = 1", "write a number that is 2 or more"])]
#[case("timeout_secs = 90000", &["2:16", "`timeout_secs` = 90000", "write a number of seconds from 1 to 86400"])]
#[case("emergency_fraction = 1.0", &["`emergency_fraction` = 1", "from 0 and below 1"])]
fn a_threshold_out_of_range_or_order_names_key_value_and_what_would_be_right(
    #[case] line: &str,
    #[case] parts: &[&str],
) {
    for table in ["[defaults.compaction]", "[[agents]]\nid = \"a\"\n[agents.compaction]"] {
        let message = error(&format!("{table}\n{line}\n"));
        for part in parts.iter().filter(|part| !part.starts_with("2:") || table.starts_with("[defaults")) {
            assert!(message.contains(part), "`{part}` is missing in:\n{message}");
        }
    }
}

#[test]
fn an_agents_threshold_that_contradicts_a_default_is_shown_where_the_agent_sets_it() {
    let text = "[defaults.compaction]\nbackground_threshold = 0.5\naggressive_threshold = 0.6\n\n[[agents]]\n\
                id = \"a\"\n[agents.compaction]\nbackground_threshold = 0.7\n";
    let message = error(text);
    assert!(message.contains(":8:24: `aggressive_threshold` = 0.6"), "{message}");
}

#[rstest]
#[case(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\n[[models]]\nid = \"m\"\nmodel = \"y\"",
    "5:6: two models have the id `m`"
)]
#[case("[[agents]]\nid = \"a\"\n[[agents]]\nid = \"a\"", "4:6: two agents have the id `a`")]
#[case(
    "[[agents]]\nid = \"a\"\nmodels = [\"mian\"]\n[[models]]\nid = \"main\"\nmodel = \"x\"",
    "did you mean `main`?"
)]
#[case(
    "[defaults]\nmodels = [\"nope\"]",
    "2:11: agent `main` names the model `nope`, which is not in [[models]]"
)]
#[case("[[agents]]\ntimezone = \"UTC\"", "has no `id`")]
#[case("[[agents]]\nid = \"a b\"", "2:6: `id` = \"a b\" is no name")]
#[case("[[models]]\nmodel = \"x\"", "has no `id`")]
#[case("[[models]]\nid = \"m\"", "model `m` has no `model`")]
#[case("[[models]]\nid = \"offline\"\nmodel = \"x\"", "belongs to the embedded model")]
#[case("[[models]]\nid = \"m\"\nprovider = \"anthropic\"", "such as model = \"claude-sonnet-5-5\"")]
#[case(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\nprovider = \"anthropic\"\nbase_url = \"http://h/v1/messages\"",
    "must end before /messages"
)]
#[case(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\nbase_url = \"localhost:8080\"",
    "must begin with http:// or https://"
)]
#[case(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\nbase_url = \"http://h/v1/chat/completions\"",
    "must end before /chat/completions"
)]
#[case(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\nbase_url = \"http://h/v1/responses?api-version=1\"",
    "must end before /responses"
)]
#[case(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\nbase_url = \"http://h:99999/v1\"",
    "is no address: invalid port number"
)]
#[case(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\nbase_url = \"http://[::1/v1\"",
    "is no address: invalid IPv6 address"
)]
#[case("[[mcp]]\nid = \"m\"\nurl = \"http://h:99999/mcp\"", "is no address: invalid port number")]
#[case(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\napi_key_env = \"A\"\napi_key_file = \"f\"",
    "keep one of the two"
)]
#[case(
    "[store]\nurl = \"postgres://h/d\"\n[retention]\njournal_days = 3",
    "`journal_days` of [retention] is for a journal in the state folder alone"
)]
#[case("[store]\nurl = \"mysql://h/d\"", "must begin with postgres://")]
#[case("[store]\nurl = \"postgres://cairn:s3cret@h/d\"", "`url` of [store] has a password in it")]
#[case("[store]\nurl = \"postgres://h/d?password=s3cret\"", "has a password in it")]
#[case("[store]\nurl = \"postgres:///d\"", "names no server")]
#[case("[store]\npassword_env = \"P\"", "`password_env` of [store] is of use with a database alone")]
#[case(
    "[store]\nurl = \"postgres://h/d\"\npassword_env = \"A\"\npassword_file = \"f\"",
    "4:17: [store] has both password_env and password_file"
)]
#[case("[store]\nurl = \"postgres://h/d\"\nnode = \"a b\"", "`node` = \"a b\" is no name of a machine")]
#[case(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\ncontext_window = 1000\nmax_output_tokens = 1000",
    "5:21: `max_output_tokens` = 1000 leaves no room"
)]
#[case(
    "[[agents]]\nid = \"a\"\ncontext_window = 1000\nmodels = [\"m\"]\n[[models]]\nid = \"m\"\nmodel = \"x\"\nmax_output_tokens = 2000",
    "3:18: agent `a`: `context_window` = 1000 has no room"
)]
#[case(
    "[defaults]\ntimezone = \"Mars/Olympus\"",
    "2:12: `timezone` = \"Mars/Olympus\" is not a known time zone"
)]
#[case("[defaults]\nengine = \"standrad\"", "2:10: `engine` = \"standrad\" is no context engine")]
#[case(
    "[defaults.compaction]\nmodel = \"mian\"\n[[models]]\nid = \"main\"\nmodel = \"x\"",
    "2:9: agent `main` summarises with the model `mian`, which is not in [[models]]"
)]
#[case("[defaults.compaction]\ncall_timeout_secs = 400", "2:21: `call_timeout_secs` = 400 is above")]
#[case("[defaults.window_guard]\nmin_tokens = 40000", "2:14: `min_tokens` = 40000 must not be above")]
#[case("[[agents]]\nid = \"a\"\n[agents.window_guard]\nwarn_tokens = 10", "4:15: `min_tokens` = 16000")]
#[case("[defaults.pruning]\nkeep_chars = 2000", "2:14: `keep_chars` = 2000 must be below half")]
#[case("[defaults.pruning]\nsoft_ratio = 0.6", "2:14: `hard_ratio` = 0.5 must not be below")]
#[case(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\ninput_price = nan",
    "4:15: `input_price` = NaN is out of range"
)]
#[case("[limits]\nmodel_cool_down_secs = 600", "2:24: `model_cool_down_secs` = 600 is above")]
#[case("[log]\nlevel = \"loud=very=much\"", "2:9: `level`")]
#[case("[log]\nlevel = \"inof\"", "did you mean `info`?")]
#[case("[log]\nlevel = \"\"", "is not a level of the log")]
fn a_value_that_makes_no_sense_is_an_error_at_its_place(#[case] text: &str, #[case] expected: &str) {
    let message = error(text);
    assert!(message.contains(expected), "{message}");
    assert!(message.contains("\n   = "), "no remedy in: {message}");
}

#[rstest]
#[case("[[models]]\nid = \"m\"\napi_key = \"sk-verysecret\"\n")]
#[case("models = [{ id = \"m\", api_key = \"sk-verysecret\" }]\n")]
#[case("[[models]]\nid = \"m\"\napi_key = sk-verysecret\n")]
#[case("[[models]]\nid = \"m\"\nmodel = \"x\"\nbase_url = \"https://me:sk-verysecret@host/v1\"\n")]
fn a_secret_in_the_file_is_refused_and_never_repeated(#[case] text: &str) {
    let message = error(text);
    assert!(!message.contains("verysecret"), "{message}");
    assert!(message.contains("api_key"), "{message}");
}

#[rstest]
#[case::for_a_table("telegram = {}")]
#[case::for_a_number("[limits]\nmodel_cool_down_secs = {}")]
#[case::for_a_word("[log]\nformat = {}")]
#[case::as_a_key("[telegram]\n{} = true")]
#[case::as_a_table("[{}]")]
#[case::on_a_line_of_its_own("[telegram]\ntoken_env = [\n  {},\n]")]
#[case::within_an_address("[telegram]\napi_url = \"x\"\nnote = \"https://api.example.org/bot{}/getMe\"")]
fn a_token_pasted_anywhere_is_never_repeated(#[case] text: &str) {
    let token = "123456789:AAExampleExampleExampleExampleExam";
    let text = if text.contains("bot{}") {
        text.replace("{}", token)
    } else {
        text.replace("{}", &format!("\"{token}\""))
    };
    let message = error(&text);
    assert!(!message.contains("AAExample"), "{message}");
}

#[test]
fn the_caret_stands_below_its_character_after_tabs_and_wide_letters() {
    let message = error("[defaults]\n\ttimezone = \"Ünknown/Zöne\"\n");
    assert!(message.contains(":2:13: "), "{message}");
    assert!(message.contains("\n   | \t           ^^^^^^^^^^^^^^"), "{message}");
}

#[rstest]
#[case("files/", "names no tool")]
#[case("files/re*", "names no tool")]
#[case("", "names no tool")]
#[case("web/browse", "the server `web`, which is not in [[mcp]]")]
#[case("web/*", "the server `web`, which is not in [[mcp]]")]
fn an_entry_that_can_name_no_tool_is_refused_where_it_would_allow_and_warned_about_where_it_classes(
    #[case] entry: &str,
    #[case] words: &str,
) {
    let servers = "\n[[mcp]]\nid = \"files\"\ncommand = \"x\"\n";
    let message = error(&format!("[defaults.trust]\nalways_allow = [{entry:?}]\n{servers}"));
    assert!(message.contains(":2:16: ") && message.contains(words), "{message}");
    let text = format!(
        "[defaults.result_guard]\nclasses = {{ {entry:?} = \"auto\" }}\n{servers}[[agents]]\nid = \"a\"\n[[agents]]\nid = \"b\"\n"
    );
    let warnings = load(&text).unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains(words), "once for all agents: {warnings:?}");
}

#[test]
fn entries_that_may_name_tools_are_taken() {
    let entries = "[\"*\", \"files/*\", \"files/read\", \"files__read\", \"read\", \"memory_save\"]";
    let text =
        format!("[defaults.trust]\nalways_allow = {entries}\n[[mcp]]\nid = \"files\"\ncommand = \"x\"\n");
    assert_eq!(load(&text).unwrap().config.agents[0].trust.always_allow.len(), 6);
}

const KEY: &str = "sk-proj-Zx81hQvLp0TrWq72mNbYc5Kd";

#[rstest]
#[case::as_variable(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\napi_key_env = \"KEY\"\n",
    "holds the secret itself"
)]
#[case::of_a_server(
    "[[mcp]]\nid = \"s\"\ncommand = \"x\"\n[mcp.env_from_env]\nTOKEN = \"KEY\"\n",
    "`env_from_env.TOKEN` holds the secret itself"
)]
#[case::of_an_agent("[[agents]]\nid = \"a\"\nkey = \"KEY\"\n", "`api_key_file` of [[models]]")]
#[case::under_any_name(
    "[[models]]\nid = \"m\"\nmodel = \"x\"\nauth = \"KEY\"\n",
    "keys are not written into this file"
)]
#[case::as_a_value("[[agents]]\nid = \"a\"\nmodels = [\"KEY\"]\n", "which is not in [[models]]")]
#[case::of_a_wrong_type("[defaults]\nmax_rounds = \"KEY\"\n", "defaults.max_rounds")]
#[case::as_a_table("[[models]]\nid = \"m\"\nmodel = \"x\"\n[KEY]\na = 1\n", "unknown key")]
#[case::no_toml("[[models]]\nid = KEY\n", "not TOML")]
#[case::a_bot("[discord]\nauth = \"KEY\"\n", "tokens are not written into this file")]
fn what_looks_like_a_key_is_told_as_one_and_never_shown(#[case] text: &str, #[case] told: &str) {
    let message = error(&text.replace("KEY", KEY));
    assert!(message.contains(told), "{message}");
    assert!(!message.contains("Zx81hQvLp0TrWq72mNbYc5Kd"), "{message}");
}

#[test]
fn a_secret_where_none_belongs_is_left_out_of_what_is_shown_of_the_configuration() {
    let text = format!("[[mcp]]\nid = \"s\"\ncommand = \"x\"\nargs = [\"--token={KEY}\", \"--verbose\"]\n");
    let shown = load(&text).unwrap().show();
    assert!(!shown.contains(KEY) && shown.contains("--verbose"), "{shown}");
}

#[test]
fn a_key_of_a_table_below_an_agent_is_placed_below_that_agent() {
    let message = error("[[agents]]\nid = \"a\"\nbackground_threshold = 0.7\n");
    assert!(message.contains("`background_threshold` belongs in [agents.compaction]"), "{message}");
}

#[test]
fn a_prompt_may_be_given_as_text() {
    let text = "[defaults]\nprompt_text = \"You serve {{ timezone }}.\"\n[[agents]]\nid = \"a\"\n[[agents]]\nid = \"b\"\n\
                prompt_text = \"You are {{ agent }}.\"\n";
    let config = load(text).unwrap().config;
    assert_eq!(config.agents[0].system_prompt, "You serve UTC.");
    assert_eq!(config.agents[1].system_prompt, "You are b.");
    let message = error("[[agents]]\nid = \"a\"\nprompt = \"You are a gardener\"\n");
    assert!(message.contains("3:10: ") && message.contains("`prompt_text`"), "{message}");
    let message = error("[defaults]\nprompt_text = \"You are {{ nobody }}\"\n");
    assert!(message.contains("2:15: `prompt_text`: the template fails"), "{message}");
    let message = error("[[agents]]\nid = \"a\"\nprompt = \"x.md\"\nprompt_text = \"x\"\n");
    assert!(message.contains("both prompt and prompt_text"), "{message}");
}
