//! What comes with the binary: completions, pages, the schema, and `deploy/install.sh` into a folder of the test's.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cairn_testkit::home::Home;

use crate::{CAIRN, home};

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

#[test]
fn completions_and_pages_are_what_their_readers_take() {
    let home = home();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.cairn(&["completions", shell]).ended(0).stdout;
        for word in ["doctor", "store", "verify"] {
            assert!(script.contains(word), "`{word}` in the script for {shell}");
        }
        let file = home.file(shell, &script);
        // A shell that is not installed cannot be asked.
        if let Ok(parsed) = Command::new(shell).arg("-n").arg(&file).output()
            && ["bash", "zsh", "fish"].contains(&shell)
        {
            assert!(parsed.status.success(), "{shell}: {}", String::from_utf8_lossy(&parsed.stderr));
        }
    }
    home.cairn(&["completions", "cobol"]).ended(2);
    let page = home.cairn(&["man"]).ended(0).stdout;
    assert!(page.contains(".TH cairn 1") && page.contains("Exit codes"), "{page}");
    assert!(page.contains("\n.SH EXAMPLES\n") && !page.contains(".SH EXTRA"), "{page}");
    let file = home.file("a-file", "");
    let run = home.cairn(&["man", file.to_str().unwrap()]).ended(2);
    assert!(run.stderr.contains("a-file is a file") && run.stderr.contains("name a folder"), "{run:?}");
    let dir = home.state().with_file_name("man1");
    home.cairn(&["man", dir.to_str().unwrap()]).ended(0);
    for name in ["cairn.1", "cairn-doctor.1", "cairn-store-verify.1"] {
        let file = dir.join(name);
        assert!(file.is_file(), "{name} is missing");
        if let Ok(shown) =
            Command::new("man").args(["-l", "-P", "cat"]).arg(&file).env("MANWIDTH", "80").output()
        {
            let said = String::from_utf8_lossy(&shown.stderr);
            assert!(shown.status.success() && said.is_empty(), "{name}: {said}");
        }
    }
    let schema = home.cairn(&["config", "schema"]).ended(0).json();
    assert_eq!(schema["properties"]["models"]["items"]["required"][0], "id");
}

struct Install {
    home: Home,
    root: PathBuf,
    binary: PathBuf,
}

impl Install {
    fn new() -> Self {
        let home = home();
        let root = home.state().with_file_name("root");
        // The binary of tests is large; a script that becomes it does as well.
        let binary = home.file("cairn", format!("#!/bin/sh\nexec {CAIRN} \"$@\"\n"));
        std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { home, root, binary }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new("sh");
        command.arg(deploy("install.sh")).arg("--binary").arg(&self.binary).args(args);
        command.env("DESTDIR", &self.root).output().unwrap()
    }

    fn done(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn text(&self, name: &str) -> String {
        let file = self.root.join(name);
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    fn mode(&self, name: &str) -> u32 {
        std::fs::metadata(self.root.join(name)).unwrap().permissions().mode() & 0o777
    }
}

#[test]
fn the_script_says_each_step_puts_everything_in_place_and_keeps_what_is_the_users() {
    let install = Install::new();
    let said = install.done(&["--dry-run"]);
    assert!(said.contains("==> put the unit to /etc/systemd/system/cairn.service"), "{said}");
    assert!(!install.root.exists(), "a dry run did something");
    assert_eq!(install.done(&[]), said, "a dry run says what is done");
    assert_eq!(install.mode("usr/local/bin/cairn"), 0o755);
    let unit = install.text("etc/systemd/system/cairn.service");
    assert!(
        unit.contains("\nExecStart=/usr/local/bin/cairn run\n") && !unit.contains("/usr/bin/cairn"),
        "{unit}"
    );
    assert!(
        unit.contains("\nUser=cairn\nGroup=cairn\n")
            && unit.contains("MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=65536"),
        "{unit}"
    );
    assert!(install.text("etc/sysusers.d/cairn.conf").contains("\nu cairn - "));
    for name in [
        "etc/cairn/config.toml",
        "usr/local/share/bash-completion/completions/cairn",
        "usr/local/share/zsh/site-functions/_cairn",
        "usr/local/share/fish/vendor_completions.d/cairn.fish",
        "usr/local/share/man/man1/cairn-doctor.1",
        "usr/local/share/cairn/prompts/en/agent.md.j2",
        "usr/local/share/cairn/config.schema.json",
    ] {
        assert!(!install.text(name).is_empty());
        assert_eq!(install.mode(name), 0o644, "{name}");
    }
    let config = install.root.join("etc/cairn/config.toml");
    std::fs::write(&config, "[log]\nlevel = \"debug\"\n").unwrap();
    let state = install.root.join("var/lib/cairn/journal");
    std::fs::create_dir_all(&state).unwrap();
    assert!(install.done(&[]).contains("keep /etc/cairn/config.toml"), "an upgrade");
    install.done(&["--uninstall"]);
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "[log]\nlevel = \"debug\"\n");
    assert!(state.is_dir());
    for gone in
        ["usr/local/bin/cairn", "etc/systemd/system/cairn.service", "usr/local/share/man/man1/cairn.1"]
    {
        assert!(!install.root.join(gone).exists(), "{gone} is left");
    }
    install.done(&["--prefix", "/opt/cairn"]);
    assert!(
        install.text("etc/systemd/system/cairn.service").contains("ExecReload=/opt/cairn/bin/cairn reload")
    );
}

#[test]
fn the_script_refuses_what_it_cannot_do() {
    let install = Install::new();
    for (args, word) in [
        (&["--binary", "/nonexistent"][..], "not a program"),
        (&["--bogus"], "unknown option"),
        (&["--prefix", "relative"], "whole path"),
        (&["--binary"], "takes a file"),
    ] {
        let output = install.run(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(word), "{args:?}: {said}");
    }
    assert!(!install.root.exists());
    let help = install.done(&["--help"]);
    assert!(help.contains("--uninstall") && help.contains("DESTDIR"), "{help}");
    assert!(install.home.state().parent().unwrap().is_dir());
}

#[test]
fn every_script_of_the_package_parses() {
    for name in ["install.sh", "package.sh", "debian/postinst", "debian/prerm", "debian/postrm"] {
        let parsed = Command::new("sh").arg("-n").arg(deploy(name)).output().unwrap();
        assert!(parsed.status.success(), "{name}: {}", String::from_utf8_lossy(&parsed.stderr));
        let mode = std::fs::metadata(deploy(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{name} cannot be run");
    }
}
