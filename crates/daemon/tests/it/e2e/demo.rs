//! `cairn demo`: what it shows of a real daemon, in a pipe and on a terminal, and that nothing of it is left.

use std::path::Path;
use std::process::Command;

use cairn_testkit::home::{Home, Run};
use cairn_testkit::terminal::Terminal;
use rustix::process::{Pid, test_kill_process};

use crate::home;

/// The demo with temporary files in this home.
fn demo(home: &Home, args: &[&str]) -> Command {
    let tmp = home.path("tmp");
    std::fs::create_dir_all(&tmp).unwrap();
    let mut command = home.command(&[&["demo"], args].concat());
    command.env("TMPDIR", tmp);
    command
}

fn left(home: &Home) -> usize {
    std::fs::read_dir(home.path("tmp")).unwrap().count()
}

/// The processes of daemons that it named.
fn pids(said: &str) -> Vec<i32> {
    let named = said.split("$ cairn run   process ").skip(1);
    named.map(|rest| rest.split(',').next().unwrap().parse().unwrap()).collect()
}

fn runs(pid: i32) -> bool {
    test_kill_process(Pid::from_raw(pid).unwrap()).is_ok()
}

#[test]
fn it_fills_a_window_answers_with_its_source_and_survives_a_kill() {
    let home = home();
    let run = Run::from(demo(&home, &["--fast"]).output().unwrap()).ended(0);
    let said = &run.stdout;
    assert_eq!(run.stderr, "");
    assert!(!said.contains('\u{1b}'), "colours in a pipe: {said}");
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
    let place = |words: &str| said.find(words).unwrap_or_else(|| panic!("`{words}` in {said}"));
    // A run ends when it does: before or after the end of the month that it began in.
    let run = [place("January 2026"), place("r1 ends after"), place("85 messages, 85 answers, ")];
    assert!(run.is_sorted(), "{run:?} in {said}");
    let places: Vec<_> = [
        "January 2026",
        "of 4,500 usable tokens",
        "March 2026",
        "85 messages, 85 answers, ",
        "> The piano tuner is called Mr Okafor. He comes on 19 March at ten and takes 85 euros.",
        "Its source: entry 1",
        "said by Wanda on 2026-03-03 18:40",
        "The window no longer holds these words: the summary s",
        "$ kill -9 ",
        "killed by SIGKILL",
        "Nothing is lost.",
        "> All seventeen boards are in the back room. They cost 527 euros in the end.",
        "Its folder is removed",
        "cairn chat ",
    ]
    .map(place)
    .into();
    assert!(places.is_sorted(), "{places:?} in {said}");
    let pids = pids(said);
    assert!(pids.len() == 2 && pids[0] != pids[1] && !pids.iter().any(|pid| runs(*pid)), "{pids:?}");
    assert_eq!(left(&home), 0);
    assert!(!home.state().exists(), "the visitor's own state was touched");
}

#[test]
fn what_is_kept_is_what_was_shown() {
    let home = home();
    let run = Run::from(demo(&home, &["--fast", "--keep"]).output().unwrap()).ended(0);
    let look = run.stdout.lines().find(|line| line.contains("cairn context reading-room --config")).unwrap();
    let args: Vec<_> = look.split_whitespace().skip(1).chain(["--json"]).collect();
    let context = home.cairn(&args).ended(0).json();
    let state = Path::new(args[args.iter().position(|arg| *arg == "--state").unwrap() + 1]);
    assert!(state.starts_with(home.path("tmp")), "{look}");
    let summaries = context["summaries"].as_array().unwrap();
    assert!(run.stdout.contains(&format!("{} summaries. Nothing is lost.", summaries.len())), "{context}");
    let history = home.cairn(&[&["history"], &args[1..], &["--limit", "1000"]].concat()).ended(0).json();
    assert!(run.stdout.contains(&format!("Now:             {} entries", history.as_array().unwrap().len())));
    let state = state.display().to_string();
    home.cairn(&["store", "verify", "--state", &state]).ended(0);
}

#[test]
fn on_a_terminal_the_window_is_drawn_in_place_and_ctrl_c_leaves_nothing() {
    let home = home();
    let mut terminal = Terminal::start(demo(&home, &[]));
    terminal.wait_for("$ cairn run");
    terminal.wait_for("process ");
    terminal.wait_for("January 2026");
    // A window, and after the next message another one in its place.
    for _ in 0..2 {
        terminal.wait_for("of 4,500 usable tokens");
        terminal.wait_for("~ recalled");
        terminal.wait_for("\u{1b}[2K");
    }
    assert_eq!(left(&home), 1);
    terminal.interrupt();
    terminal.wait_for("stopped early; its daemon and its folder are gone");
    assert_eq!(terminal.end(), Some(1));
    assert_eq!(left(&home), 0);
}

#[test]
fn it_takes_no_state_of_the_visitors_and_says_so() {
    let home = home();
    for args in [&["--json"][..], &["--state", "elsewhere"], &["--config", "config.toml"]] {
        let run = Run::from(demo(&home, args).output().unwrap());
        run.told(2, &["uses its own configuration", "leave out"]);
    }
    let mut nowhere = demo(&home, &["--fast"]);
    nowhere.env("TMPDIR", home.path("nowhere"));
    Run::from(nowhere.output().unwrap()).told(1, &["temporary folder", "TMPDIR"]);
}
