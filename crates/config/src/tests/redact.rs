//! No secret is ever shown, whatever key it stands under.

use std::path::Path;

use rstest::rstest;

use super::{error, fine};
use crate::{FixedEnvironment, shown_text};

const MODEL: &str = "[[models]]\nid = \"m\"\nmodel = \"x\"\n";
const SERVER: &str = "[[mcp]]\nid = \"s\"\ncommand = \"x\"\n";

#[rstest]
#[case::headers(
    MODEL,
    "extra_headers = { Authorization = \"Bearer secr3t987654\", X-Api-Key = \"plainsecr3tvalue\" }",
    "Authorization = \"…\""
)]
#[case::a_table_of_headers(
    MODEL,
    "[models.extra_headers]\nCookie = \"secr3t\" # secr3t",
    "Cookie = \"…\" # …"
)]
#[case::headers_as_text(MODEL, "extra_headers = \"Bearer secr3tabc\"", "extra_headers = \"…\"")]
#[case::of_a_server(
    SERVER,
    "headers = { Authorization = \"Bearer secr3t8888888\" }",
    "Authorization = \"…\""
)]
#[case::variables(SERVER, "env = \"TOKEN=secr3t\"", "env = \"…\"")]
#[case::key(MODEL, "key = \"secr3t\"", "keys are not written into this file")]
#[case::a_bare_key(MODEL, "api_key = c2Vjsecr3t==", "not TOML")]
#[case::a_list(MODEL, "api_key_env = [\"secr3tabc\"]", "api_key_env = [\"…\"]")]
#[case::a_list_of_lines(MODEL, "api_key_env = [\n  \"secr3tabc\",\n  3\n]", "models.api_key_env")]
#[case::below_a_key(MODEL, "api_key_env = [\n  secr3t\n]", "not TOML")]
#[case::a_long_text(MODEL, "api_key_env = \"\"\"\nsecr3t = \\q\"\"\"", "not TOML")]
#[case::no_variable(
    MODEL,
    "extra_headers_from_env = { Authorization = \"Bearer secr3tabc def\" }",
    "is not the name of a variable"
)]
fn an_error_shows_the_keys_of_its_line_and_no_secret(
    #[case] table: &str,
    #[case] lines: &str,
    #[case] told: &str,
) {
    let message = error(&format!("{table}{lines}\n"));
    assert!(message.contains(told), "{message}");
    assert!(!message.contains("secr3t"), "{message}");
}

#[test]
fn a_line_about_no_secret_is_shown_as_it_is() {
    let message = error(&format!("{MODEL}api_key_env = \"K\"\nprovider = \"opnai\"\n"));
    assert!(message.contains("5 | provider = \"opnai\""), "{message}");
}

#[rstest]
#[case::body(
    MODEL,
    "extra_body = { api_key = \"secr3tbody1234567\", password = \"secr3t2\", top = \"kept\" }",
    "kept"
)]
#[case::a_table_in_the_body(
    MODEL,
    "extra_body = { auth = { user = \"secr3t\", n = [\"secr3t\"] }, seed = 42 }",
    "42"
)]
#[case::headers(SERVER, "headers = { X-Token = \"secr3t\", X-Team = \"kept\" }", "kept")]
#[case::scheme(SERVER, "headers = { X-Team = \"Bearer secr3t\" }", "Bearer …")]
#[case::variables(SERVER, "env = { DB_PASSWORD = \"secr3t\", TOKEN_FILE = \"/run/kept\" }", "/run/kept")]
#[case::flag(SERVER, "args = [\"--token\", \"secr3t5555\", \"--kept\"]", "--kept")]
#[case::flag_with_value(SERVER, "args = [\"--api-key=secr3t\", \"kept\"]", "kept")]
#[case::header_flag(SERVER, "args = [\"-H\", \"Authorization: Bearer secr3t\"]", "Authorization:…")]
#[case::account(SERVER, "args = [\"postgres://me:secr3t@db/kept\", \"kept\"]", "kept")]
#[case::command(
    "[[mcp]]\nid = \"s\"\n",
    "command = \"/bin/tool --api-key secr3tcmd\"",
    "/bin/tool --api-key …"
)]
#[case::named_apart(SERVER, "headers_from_env = { Authorization = \"KEPT_TOKEN\" }", "KEPT_TOKEN")]
fn what_is_shown_of_the_configuration_has_no_secret(
    #[case] table: &str,
    #[case] lines: &str,
    #[case] kept: &str,
) {
    let loaded = fine(&format!("{table}{lines}\n"));
    for shown in [loaded.show(), loaded.to_json().to_string(), loaded.show_sources()] {
        assert!(!shown.contains("secr3t") && shown.contains(kept), "{shown}");
    }
}

#[rstest]
#[case("extra_headers_from_env = { Authorization = \"Bearer secr3tabc def\" }")]
#[case("api_key_file = \"sk-secr3t123456789abc\"")]
#[case("api_key_env = \"secr3t abc\"")]
fn a_secret_in_the_place_of_its_name_is_in_no_warning(#[case] line: &str) {
    let text = format!("{MODEL}{line}\n");
    let file = Path::new("/etc/cairn/config.toml");
    let (loaded, problems) = crate::examined(file, &text, &FixedEnvironment::new("/")).unwrap();
    assert!(!loaded.warnings.is_empty());
    let all = format!("{:?}{problems:?}", loaded.warnings);
    assert!(!all.contains("secr3t"), "{all}");
}

#[test]
fn a_command_line_ends_before_its_first_secret() {
    assert_eq!(shown_text("/bin/tool --verbose in=/srv"), "/bin/tool --verbose in=/srv");
    assert_eq!(shown_text("sh -c 'TOKEN=secr3t tool'"), "sh -c 'TOKEN=…");
}
