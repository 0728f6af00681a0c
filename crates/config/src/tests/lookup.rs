//! Where files and folders are looked for, and what is said when they cannot be read.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{
    Config, Environment, FixedEnvironment, StateOrigin, config_file, socket_to_bind, sockets_to_try,
    state_dir,
};

/// A folder with `cwd/`, `etc/` and `home/`, and the environment of a process in it.
fn place() -> (TempDir, FixedEnvironment) {
    let dir = tempfile::tempdir().unwrap();
    for name in ["cwd", "etc", "home/.config/cairn", "xdg/cairn"] {
        std::fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    let env = FixedEnvironment::new(dir.path().join("cwd")).with("HOME", dir.path().join("home"));
    (dir, env)
}

fn put(dir: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_config_file_is_looked_for_in_the_order_of_the_contract() {
    let (dir, env) = place();
    assert_eq!(config_file(None, &env), None);

    let home = put(&dir, "home/.config/cairn/config.toml", "");
    assert_eq!(config_file(None, &env), Some(home));
    let env = env.with("XDG_CONFIG_HOME", dir.path().join("xdg"));
    assert_eq!(config_file(None, &env), None, "with XDG_CONFIG_HOME set, ~/.config is not looked at");
    let xdg = put(&dir, "xdg/cairn/config.toml", "");
    assert_eq!(config_file(None, &env), Some(xdg));
    let cwd = put(&dir, "cwd/config.toml", "");
    assert_eq!(config_file(None, &env), Some(cwd));
    let env = env.with("CONFIGURATION_DIRECTORY", dir.path().join("etc"));
    let etc = put(&dir, "etc/config.toml", "");
    assert_eq!(config_file(None, &env), Some(etc));
    let env = env.with("CAIRN_CONFIG", "named.toml");
    assert_eq!(
        config_file(None, &env),
        Some(dir.path().join("cwd/named.toml")),
        "taken though it is missing"
    );
    let flag = config_file(Some(Path::new("/other.toml")), &env);
    assert_eq!(flag, Some(PathBuf::from("/other.toml")));
}

#[test]
fn a_variable_set_to_nothing_counts_as_unset() {
    let (dir, env) = place();
    let env = env.with("CAIRN_CONFIG", "").with("XDG_CONFIG_HOME", "").with("CAIRN_STATE", "");
    let home = put(&dir, "home/.config/cairn/config.toml", "");
    assert_eq!(env.var("CAIRN_CONFIG"), None);
    assert_eq!(config_file(None, &env), Some(home));
    assert_eq!(state_dir(None, &env).unwrap().origin, StateOrigin::UserData);
}

#[test]
fn without_a_config_file_the_built_in_defaults_hold() {
    let (_dir, env) = place();
    let loaded = Config::load(None, &env).unwrap();
    assert_eq!(loaded.file, None);
    assert_eq!(loaded.config.default_agent().as_str(), "main");
    assert_eq!(loaded.config.agents[0].model(), "offline");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn a_named_file_that_cannot_be_read_is_an_error_that_names_it() {
    let (dir, env) = place();
    let missing = Config::load(Some(Path::new("nope.toml")), &env).unwrap_err().to_string();
    assert!(missing.contains("cwd/nope.toml") && missing.contains("correct the path"), "{missing}");

    std::fs::create_dir(dir.path().join("cwd/config.toml")).unwrap();
    let folder = Config::load(None, &env).unwrap_err().to_string();
    assert!(folder.contains("cwd/config.toml") && folder.contains("config.toml"), "{folder}");

    let latin1 = put(&dir, "latin1.toml", b"[log]\nlevel = \"gr\xfc\xdfe\"\n");
    let latin1 = Config::load(Some(&latin1), &env).unwrap_err().to_string();
    assert!(latin1.contains("latin1.toml:2:12: ") && latin1.contains("UTF-8"), "{latin1}");
}

#[test]
fn a_byte_order_mark_is_no_error() {
    let (dir, env) = place();
    let file = put(&dir, "bom.toml", "\u{feff}[defaults]\ncontext_window = 9000\n");
    let loaded = Config::load(Some(&file), &env).unwrap();
    assert_eq!(loaded.config.default_window(), 9000);
}

#[test]
fn relative_paths_in_a_file_start_at_its_folder() {
    let (dir, env) = place();
    put(&dir, "etc/me.j2", "I am {{ agent }}.");
    put(&dir, "etc/key", "sk-1\n");
    let text = "[[models]]\nid = \"m\"\nmodel = \"x\"\napi_key_file = \"key\"\n\
                [[agents]]\nid = \"ada\"\nmodels = [\"m\"]\nprompt = \"me.j2\"\n";
    let file = put(&dir, "etc/config.toml", text);
    let loaded = Config::load(Some(&file), &env).unwrap();
    assert_eq!(loaded.config.agents[0].system_prompt, "I am ada.");
    assert!(loaded.api_key("m").is_some());
}

#[test]
fn the_state_folder_is_looked_for_in_the_order_of_the_contract() {
    let check = |flag: Option<&str>, env: &FixedEnvironment, path: &str, origin| {
        let state = state_dir(flag.map(Path::new), env).unwrap();
        assert_eq!((state.path, state.origin), (PathBuf::from(path), origin));
    };
    let env = FixedEnvironment::new("/work").with("HOME", "/home/u");
    check(None, &env, "/home/u/.local/share/cairn", StateOrigin::UserData);
    let env = env.with("XDG_DATA_HOME", "/data");
    check(None, &env, "/data/cairn", StateOrigin::UserData);
    let env = env.with("STATE_DIRECTORY", "/var/lib/cairn:/var/lib/other");
    check(None, &env, "/var/lib/cairn", StateOrigin::StateDirectory);
    let env = env.with("CAIRN_STATE", "./here");
    check(None, &env, "/work/here", StateOrigin::CairnState);
    check(Some("there"), &env, "/work/there", StateOrigin::Flag);

    let error = state_dir(None, &FixedEnvironment::new("/")).unwrap_err().to_string();
    assert!(error.contains("--state"), "{error}");
}

#[test]
fn sockets_are_tried_in_the_order_of_the_contract() {
    let env = FixedEnvironment::new("/").with("CAIRN_STATE", "/s");
    let state = state_dir(None, &env).unwrap();
    let system = PathBuf::from("/run/cairn/cairn.sock");
    assert_eq!(sockets_to_try(&state, &env), [system.clone(), "/s/cairn.sock".into()]);
    assert_eq!(socket_to_bind(&state, &env).unwrap(), PathBuf::from("/s/cairn.sock"));

    let env = env.with("RUNTIME_DIRECTORY", "/run/other");
    let other = PathBuf::from("/run/other/cairn.sock");
    assert_eq!(sockets_to_try(&state, &env), [other.clone(), system, "/s/cairn.sock".into()]);
    assert_eq!(socket_to_bind(&state, &env).unwrap(), other);
}

#[test]
fn a_socket_path_over_the_limit_is_an_error_that_names_the_limit() {
    let env = FixedEnvironment::new("/");
    let fits = format!("/{}", "s".repeat(107 - "//cairn.sock".len()));
    assert!(socket_to_bind(&state_dir(Some(Path::new(&fits)), &env).unwrap(), &env).is_ok());
    let long = format!("{fits}s");
    let error = socket_to_bind(&state_dir(Some(Path::new(&long)), &env).unwrap(), &env).unwrap_err();
    assert!(error.to_string().contains("has 108 bytes") && error.to_string().contains("107"), "{error}");
}
