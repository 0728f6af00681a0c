//! Keys: where they come from, what is worth a warning, and that they are never shown.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rstest::rstest;
use secrecy::ExposeSecret;

use crate::{Config, FixedEnvironment, Loaded};

/// Loads a config with one model whose key is given by `line`, in a folder of its own.
fn load(dir: &Path, line: &str, env: FixedEnvironment) -> Loaded {
    let file = dir.join("config.toml");
    let text =
        format!("[[models]]\nid = \"m\"\nmodel = \"x\"\n{line}\n[[agents]]\nid = \"a\"\nmodels = [\"m\"]\n");
    std::fs::write(&file, text).unwrap();
    Config::load(Some(&file), &env).unwrap()
}

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn key(loaded: &Loaded) -> Option<&str> {
    loaded.api_key("m").map(ExposeSecret::expose_secret)
}

#[test]
fn a_key_comes_from_the_variable_or_the_file_that_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let env = FixedEnvironment::new("/").with("KEY", "sk-env");
    assert_eq!(key(&load(dir.path(), "", env.clone())), None);
    assert_eq!(key(&load(dir.path(), "api_key_env = \"KEY\"", env.clone())), Some("sk-env"));
    write(&dir.path().join("key"), "sk-file\n", 0o600);
    let loaded = load(dir.path(), "api_key_file = \"key\"", env);
    assert_eq!(key(&loaded), Some("sk-file"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn a_key_may_end_with_the_signs_of_base64() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("key"), "QUJDRA==", 0o600);
    assert_eq!(
        key(&load(dir.path(), "api_key_file = \"key\"", FixedEnvironment::new("/"))),
        Some("QUJDRA==")
    );
}

#[test]
fn a_tilde_is_the_home_folder() {
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(&home.path().join("key"), "sk-home", 0o600);
    write(&home.path().join("prompt.md"), "You are at home.", 0o600);
    let env = FixedEnvironment::new("/").with("HOME", home.path());
    let line = "api_key_file = \"~/key\"\n[defaults]\nprompt = \"~/prompt.md\"\n\
                [[mcp]]\nid = \"t\"\ncommand = \"~/bin/serve\"\ncwd = \"~\"";
    let loaded = load(dir.path(), line, env);
    assert_eq!(key(&loaded), Some("sk-home"));
    assert!(loaded.config.agents[0].system_prompt.contains("at home"));
    let server = &loaded.config.mcp[0];
    let command = home.path().join("bin/serve").display().to_string();
    assert_eq!((server.command.as_deref(), server.cwd.as_deref()), (Some(&*command), Some(home.path())));
}

#[test]
fn a_bare_file_name_is_looked_for_among_the_credentials_first() {
    let (dir, credentials) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let env = FixedEnvironment::new("/").with("CREDENTIALS_DIRECTORY", credentials.path());
    write(&dir.path().join("key"), "sk-beside", 0o600);
    assert_eq!(key(&load(dir.path(), "api_key_file = \"key\"", env.clone())), Some("sk-beside"));
    write(&credentials.path().join("key"), "sk-credential", 0o400);
    assert_eq!(key(&load(dir.path(), "api_key_file = \"key\"", env)), Some("sk-credential"));
}

#[rstest]
#[case::unset("api_key_env = \"NOPE\"", "$NOPE is not set")]
#[case::missing("api_key_file = \"nope\"", "cannot read the key file")]
#[case::empty("api_key_file = \"empty\"", "its key is empty")]
#[case::open("api_key_file = \"open\"", "chmod 600")]
fn a_key_that_is_missing_or_open_is_a_warning(#[case] line: &str, #[case] said: &str) {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("empty"), " \n", 0o600);
    write(&dir.path().join("open"), "sk-open", 0o644);
    let loaded = load(dir.path(), line, FixedEnvironment::new("/"));
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    assert!(loaded.warnings[0].contains(said) && loaded.warnings[0].contains("`m`"), "{:?}", loaded.warnings);
}

#[rstest]
#[case::mark("\u{feff}sk-file\r\n")]
#[case::marks("\u{feff}\u{feff} sk-file")]
#[case::blanks("\n\t sk-file \n\n")]
#[case::quotes("\"sk-file\"\n")]
#[case::single_quotes("'sk-file'")]
#[case::assignment("OPENAI_API_KEY=sk-file\n")]
#[case::export("export OPENAI_API_KEY=\"sk-file\"")]
fn what_editors_put_around_a_secret_is_left_out(#[case] text: &str) {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("key"), text, 0o600);
    let loaded = load(dir.path(), "api_key_file = \"key\"", FixedEnvironment::new("/"));
    assert_eq!((key(&loaded), &loaded.warnings[..]), (Some("sk-file"), &[][..]));
    let env = FixedEnvironment::new("/").with("KEY", text);
    assert_eq!(key(&load(dir.path(), "api_key_env = \"KEY\"", env)), Some("sk-file"));
    // Tokens of bots are read by the same rules.
    let config = "[discord]\ntoken_file = \"key\"\n";
    let loaded =
        Config::of_text(&dir.path().join("config.toml"), config, &FixedEnvironment::new("/")).unwrap();
    assert_eq!(loaded.token("discord").unwrap().expose_secret(), "sk-file");
}

#[rstest]
#[case::two_words(b"sk-canary two", "has a blank (U+0020) as character 10")]
#[case::two_lines(b"sk-canary\nsk-other", "has a line break as character 10")]
#[case::invisible("sk-canary\u{200b}".as_bytes(), "has a sign that is not ASCII (U+200B) as character 10")]
#[case::quotes("\u{201c}sk-canary\u{201d}".as_bytes(), "(U+201C) as character 1")]
#[case::accent("sk-canary\u{e9}".as_bytes(), "has a letter that is not ASCII as character 10")]
#[case::control(b"sk-canary\x00", "has a control character (U+0000)")]
#[case::utf16(b"\xff\xfes\0k\0", "is UTF-16; save it as UTF-8")]
#[case::latin1(b"sk-canary\xe9", "is not UTF-8; save it as UTF-8")]
fn a_key_that_no_header_takes_is_refused_at_the_start(#[case] text: &[u8], #[case] why: &str) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("key"), text).unwrap();
    let config = "[[models]]\nid = \"m\"\nmodel = \"x\"\napi_key_file = \"key\"\n";
    let error = Config::of_text(&dir.path().join("config.toml"), config, &FixedEnvironment::new("/"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains(why) && error.contains("config.toml:4:"), "{error}");
    assert!(!error.contains("canary"), "{error}");
}

#[test]
fn a_key_is_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let env = FixedEnvironment::new("/").with("KEY", "sk-canary");
    let loaded = load(dir.path(), "api_key_env = \"KEY\"", env);
    assert_eq!(key(&loaded), Some("sk-canary"));
    let all = format!("{}{loaded:?}{:?}", loaded.show(), loaded.warnings);
    assert!(!all.contains("canary"), "{all}");
    assert!(loaded.show().contains("api_key_env = \"KEY\""));
}

#[test]
fn the_password_of_a_database_is_read_apart_and_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[store]\nurl = \"postgres://cairn@db.example:5433/cairn?sslmode=require\"\npassword_env = \"PW\"\nnode = \"north\"\n";
    let load = |env| Config::of_text(&dir.path().join("config.toml"), text, &env).unwrap();
    let loaded = load(FixedEnvironment::new("/").with("PW", "canary/ @1"));
    let database = loaded.database().unwrap().unwrap();
    let url = "postgres://cairn:canary%2F%20%401@db.example:5433/cairn?sslmode=require";
    assert_eq!((database.url.expose_secret(), &*database.node), (url, "north"));
    let all = format!("{}{loaded:?}{database:?}{:?}", loaded.show(), loaded.to_json());
    assert!(!all.contains("canary"), "{all}");
    let missing = load(FixedEnvironment::new("/")).database().unwrap_err().to_string();
    assert!(missing.contains("`password_env` of [store]: $PW is not set"), "{missing}");
    assert!(missing.contains("config.toml:3:"), "{missing}");
    let own = Config::of_text(&dir.path().join("config.toml"), "", &FixedEnvironment::new("/")).unwrap();
    assert!(own.database().unwrap().is_none());
}
