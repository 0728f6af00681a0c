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
    assert!(run.stderr.contains("a-file is a file") && run.stderr.contains("give a folder"), "{run:?}");
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

#[path = "../../../build/commit.rs"]
mod commit;

#[test]
fn a_build_names_the_commit_of_its_own_source_and_of_no_other() {
    let home = home();
    let (source, unpacked) = (home.path("source"), home.path("source/unpacked"));
    std::fs::create_dir_all(&unpacked).unwrap();
    let git = |args: &[&str]| {
        let names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        Command::new("git").arg("-C").arg(&source).args(names).args(args).output().unwrap()
    };
    assert_eq!((commit::of(&source), commit::files(&source)), (None, Vec::new()), "there is no history");
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "one"]);
    let first = commit::of(&source).unwrap();
    assert!(first.len() == 12 && first.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
    let watched = || -> Vec<_> {
        commit::files(&source).iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
    };
    let before = watched();
    git(&["commit", "-q", "--allow-empty", "-m", "two"]);
    assert_ne!(watched(), before, "the next build sees it");
    assert_ne!(commit::of(&source).unwrap(), first);
    assert_eq!(commit::of(&unpacked), None, "the history is another's");
}

#[test]
fn the_version_names_the_build_and_the_pages_for_man_do_not() {
    let home = home();
    let version = format!("cairn {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(home.cairn(&["-V"]).ended(0).stdout, version);
    let long = home.cairn(&["--version"]).ended(0).stdout;
    assert!(long.starts_with(&version), "{long}");
    for words in [
        "\ncommit:   ",
        "\nbuild:    ",
        "-linux-",
        "discord, telegram, bridges, local",
        "openai, anthropic, offline",
    ] {
        assert!(long.contains(words), "`{words}` in {long}");
    }
    assert!(!home.cairn(&["man"]).ended(0).stdout.contains("commit:"));
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
    assert!(unit.contains("\nUser=cairn\nGroup=cairn\n"), "{unit}");
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
        (&["--service", "user"][..], "without root"),
        (&["--service", "bogus"], "user, system or none"),
        (&["--prefix", "/a b"], "letters, digits"),
        (&["--binary", "/nonexistent"], "not a program"),
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

/// A release as `.ci/release` lays it out, of a script that becomes the binary.
fn release(install: &Install) -> PathBuf {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let name = format!("cairn-0.0.1-{target}");
    let (folder, tree) = (install.home.path("release"), install.home.path("trees").join(&name));
    std::fs::create_dir_all(tree.join("deploy")).unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(&install.binary, tree.join("cairn")).unwrap();
    for file in ["install.sh", "cairn.service", "cairn-user.service", "cairn.sysusers"] {
        std::fs::copy(deploy(file), tree.join("deploy").join(file)).unwrap();
    }
    for dir in ["prompts", "config"] {
        let done = Command::new("cp").arg("-R").arg(deploy("..").join(dir)).arg(&tree).status().unwrap();
        assert!(done.success());
    }
    let archive = format!("{name}.tar.gz");
    let trees = install.home.path("trees");
    let done =
        Command::new("tar").arg("-czf").arg(folder.join(&archive)).arg("-C").arg(trees).arg(&name).status();
    assert!(done.unwrap().success());
    let sum = Command::new("sha256sum").arg(&archive).current_dir(&folder).output().unwrap().stdout;
    std::fs::write(folder.join("SHA256SUMS"), sum).unwrap();
    folder
}

#[test]
fn a_release_is_installed_only_if_it_is_what_its_sums_say() {
    let install = Install::new();
    let folder = release(&install);
    // As it is fetched: alone, from another folder.
    let script = install.home.file("get.sh", std::fs::read_to_string(deploy("install.sh")).unwrap());
    let run = |from: &Path| {
        let mut command = Command::new("sh");
        command.arg(&script).env("DESTDIR", &install.root).env("CAIRN_RELEASES", from).output().unwrap()
    };
    let output = Command::new("sh").arg(&script).env("DESTDIR", &install.root).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("CAIRN_RELEASES="), "{said}");

    let sums = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let wrong = if sums.starts_with('0') { sums.replacen('0', "1", 1) } else { format!("0{}", &sums[1..]) };
    std::fs::write(folder.join("SHA256SUMS"), wrong).unwrap();
    let output = run(&folder);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("nothing was installed"), "{said}");
    assert!(!install.root.exists());

    std::fs::write(folder.join("SHA256SUMS"), sums.replace("x86_64", "sparc").replace("aarch64", "sparc"))
        .unwrap();
    assert!(String::from_utf8_lossy(&run(&folder).stderr).contains("has no archive for"));

    std::fs::write(folder.join("SHA256SUMS"), &sums).unwrap();
    let output = run(&folder);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(install.mode("usr/local/bin/cairn"), 0o755);
    assert!(
        install.text("etc/systemd/system/cairn.service").contains("\nExecStart=/usr/local/bin/cairn run\n")
    );
    assert!(run(&folder).status.success(), "an upgrade");
}

#[test]
fn a_release_is_not_begun_that_cannot_be_finished() {
    let script = deploy("../.ci/release");
    let run = |args: &[&str]| {
        let output = Command::new(&script).args(args).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let version = env!("CARGO_PKG_VERSION");
    assert!(run(&[]).contains("name the version"));
    assert!(run(&["9.9.9"]).contains(&format!("the source is version {version}")));
    assert!(run(&[version, "--only", "sparc"]).contains("x86_64 or aarch64"));
    let there = std::env::temp_dir();
    assert!(run(&[version, "--output", there.to_str().unwrap()]).contains("is there already"));
}

#[test]
fn every_script_of_the_package_parses() {
    for name in [
        "install.sh",
        "package.sh",
        "static.sh",
        "image.sh",
        "debian/postinst",
        "debian/prerm",
        "debian/postrm",
    ] {
        let parsed = Command::new("sh").arg("-n").arg(deploy(name)).output().unwrap();
        assert!(parsed.status.success(), "{name}: {}", String::from_utf8_lossy(&parsed.stderr));
        let mode = std::fs::metadata(deploy(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{name} cannot be run");
    }
}

/// Makes an image of a program, as it is made of binaries.
fn image(home: &Home, name: &str, program: &str) -> Output {
    let binary = home.file("static", program);
    let mut command = Command::new("sh");
    command
        .arg(deploy("image.sh"))
        .arg("--output")
        .arg(home.path(name))
        .env("SOURCE_DATE_EPOCH", "1700000000");
    for arch in ["amd64", "arm64"] {
        command.arg(format!("{arch}={}", binary.display()));
    }
    command.output().unwrap()
}

fn unpack(archive: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let done = Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(to).status().unwrap();
    assert!(done.success(), "{}", archive.display());
}

#[test]
fn an_image_is_made_without_a_daemon_and_runs_without_rights() {
    let home = home();
    let done = image(&home, "one.tar", "#!/bin/true\n");
    assert!(done.status.success(), "{done:?}");
    image(&home, "two.tar", "#!/bin/true\n");
    assert_eq!(std::fs::read(home.path("one.tar")).unwrap(), std::fs::read(home.path("two.tar")).unwrap());
    let layout = home.path("layout");
    unpack(&home.path("one.tar"), &layout);
    let blobs = layout.join("blobs/sha256");
    for blob in std::fs::read_dir(&blobs).unwrap() {
        let sum = Command::new("sha256sum").arg(blob.as_ref().unwrap().path()).output().unwrap().stdout;
        assert!(String::from_utf8(sum).unwrap().starts_with(blob.unwrap().file_name().to_str().unwrap()));
    }
    let read = |file: PathBuf| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    };
    let blob = |of: &serde_json::Value| {
        let file = blobs.join(of["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap());
        assert_eq!(std::fs::metadata(&file).unwrap().len(), of["size"].as_u64().unwrap());
        file
    };
    let index = read(blob(&read(layout.join("index.json"))["manifests"][0]));
    let images = index["manifests"].as_array().unwrap();
    assert_eq!(images.len(), 2);
    for (of, arch) in images.iter().zip(["amd64", "arm64"]) {
        let manifest = read(blob(of));
        let config = read(blob(&manifest["config"]));
        assert_eq!((&config["architecture"], &of["platform"]["architecture"]), (&arch.into(), &arch.into()));
        let settings = &config["config"];
        assert_eq!(settings["User"], "10001:10001");
        for volume in ["/etc/cairn", "/var/lib/cairn"] {
            assert!(settings["Volumes"][volume].is_object(), "{settings}");
        }
        assert_eq!(settings["Healthcheck"]["Test"], serde_json::json!(["CMD", "cairn", "status"]));
        let layer = blob(&manifest["layers"][0]);
        let list = Command::new("tar").args(["--numeric-owner", "-tvzf"]).arg(layer).output().unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        let has =
            |mode: &str, end: &str| list.lines().any(|line| line.starts_with(mode) && line.ends_with(end));
        assert!(
            has("-rwxr-xr-x 0/0", " usr/bin/cairn") && has("drwx------ 10001/10001", " var/lib/cairn/"),
            "{list}"
        );
        assert!(has("drwx------ 10001/10001", " etc/cairn/"), "`init` writes there: {list}");
        assert!(has("-rw-r--r-- 0/0", " usr/share/cairn/prompts/en/agent.md.j2"), "{list}");
    }
    // Where it is installed, what reads images reads this one.
    let archive = format!("oci-archive:{}", home.path("one.tar").display());
    if let Ok(read) = Command::new("skopeo").args(["inspect", "--config", &archive]).output() {
        assert!(read.status.success(), "{read:?}");
    }
    let dynamic = image(&home, "three.tar", "\u{7f}ELF /lib64/ld-linux-x86-64.so.2");
    let said = String::from_utf8_lossy(&dynamic.stderr);
    assert!(!dynamic.status.success() && said.contains("is not static"), "{said}");
}

#[test]
fn the_build_of_static_binaries_says_what_it_lacks() {
    let run = |target: &str, path: &str| {
        let output = Command::new("/bin/sh").arg(deploy("static.sh")).arg(target).env("PATH", path).output();
        let output = output.unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let home = home();
    for tool in ["dirname", "sed"] {
        let file = home.file(tool, format!("#!/bin/sh\nexec /usr/bin/{tool} \"$@\"\n"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = home.path("").display().to_string();
    let said = run("x86_64-unknown-linux-musl", &path);
    assert!(said.contains("cargo install cargo-zigbuild"), "{said}");
    for tool in ["cargo-zigbuild", "zig"] {
        let file = home.file(tool, "#!/bin/sh\nexit 1\n");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let said = run("x86_64-unknown-linux-gnu", &path);
    assert!(said.contains("no target of musl"), "{said}");
    home.file("rustc", "#!/bin/sh\necho /nonexistent\n");
    std::fs::set_permissions(home.path("rustc"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let said = run("aarch64-unknown-linux-musl", &path);
    assert!(said.contains("rustup target add aarch64-unknown-linux-musl"), "{said}");
}

#[test]
fn the_file_for_compose_has_what_a_service_needs() {
    let text = std::fs::read_to_string(deploy("compose.yaml")).unwrap();
    for words in [
        "test: [CMD, cairn, status]",
        "state:/var/lib/cairn",
        "read_only: true",
        "cap_drop: [ALL]",
        "deploy/Containerfile",
        "config:/etc/cairn:ro",
        "command: [init]",
        "127.0.0.1:9464:9464",
    ] {
        assert!(text.contains(words), "{words}");
    }
}
