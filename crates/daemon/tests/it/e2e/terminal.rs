//! `cairn chat` on a real terminal: nothing that is typed or pasted is lost.

use cairn_testkit::home::Home;
use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_testkit::rig::one_model;
use cairn_testkit::terminal::Terminal;

use crate::home;

fn said(home: &Home) -> Vec<String> {
    let history = home.json(&["history", "main"]);
    let entries = history.as_array().unwrap().iter().filter(|entry| entry["role"] == "user");
    entries.map(|entry| entry["parts"][0]["text"].as_str().unwrap().to_owned()).collect()
}

/// `cairn chat` with that model.
fn chat(home: &Home, model: &FakeModel, args: &[&str]) -> Terminal {
    let config = home.config(&one_model(&model.base_url(), 64_000));
    Terminal::start(home.command(&[&["chat", "--config", config.to_str().unwrap()], args].concat()))
}

fn leave(mut terminal: Terminal) {
    terminal.type_keys("/quit\r");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn lines_that_are_pasted_at_once_are_messages_each() {
    let home = home();
    let mut terminal = Terminal::start(home.command(&["chat"]));
    terminal.wait_for("the built-in offline model answers");
    terminal.wait_for("`cairn init` configures a real model");
    terminal.type_keys("first harbour\rsecond harbour\rthird harbour\r/quit\r");
    assert_eq!(terminal.end(), Some(0));
    assert_eq!(said(&home), ["first harbour", "second harbour", "third harbour"]);
}

#[test]
fn a_marked_paste_and_alt_enter_make_one_message_of_several_lines() {
    let home = home();
    let mut terminal = Terminal::start(home.command(&["chat"]));
    terminal.wait_for("> ");
    terminal.type_keys("\x1b[200~one\rtwo\x1b[201~\r");
    terminal.wait_for("> ");
    terminal.type_keys("three\x1b\rfour\r");
    terminal.wait_for("four");
    leave(terminal);
    assert_eq!(said(&home), ["one\ntwo", "three\nfour"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_typed_during_an_answer_is_sent_after_it_and_answers_no_question() {
    let (home, model) = (home(), FakeModel::start().await);
    let gate = model.hold(Kind::Reply);
    let mut terminal = chat(&home, &model, &[]);
    terminal.wait_for("answers, with a window of 64,000 tokens");
    terminal.wait_for("> ");
    terminal.type_keys("first\r");
    model.wait_for(Kind::Reply, 1).await;
    terminal.wait_for("(working, ");
    terminal.type_keys("second\rthi");
    gate.open();
    model.wait_for(Kind::Reply, 2).await;
    terminal.wait_for("thi");
    terminal.type_keys("rd\r");
    model.wait_for(Kind::Reply, 3).await;
    leave(terminal);
    assert_eq!(said(&home), ["first", "second", "third"]);
    model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_stops_an_answer_and_the_next_message_is_answered() {
    let (home, model) = (home(), FakeModel::start().await);
    let gate = model.hold(Kind::Reply);
    let mut terminal = chat(&home, &model, &[]);
    terminal.wait_for("> ");
    terminal.type_keys("first\r");
    model.wait_for(Kind::Reply, 1).await;
    terminal.wait_for("(working, ");
    terminal.interrupt();
    terminal.wait_for("stopped");
    gate.open();
    terminal.wait_for("> ");
    terminal.type_keys("second\r");
    model.wait_for(Kind::Reply, 2).await;
    terminal.wait_for("> ");
    leave(terminal);
    assert_eq!(said(&home), ["first", "second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_typed_before_ctrl_c_is_sent_and_the_stop_is_no_error() {
    let (home, model) = (home(), FakeModel::start().await);
    let gate = model.hold(Kind::Reply);
    let mut terminal = chat(&home, &model, &[]);
    terminal.wait_for("> ");
    terminal.type_keys("first\r");
    model.wait_for(Kind::Reply, 1).await;
    terminal.wait_for("(working, ");
    // The terminal is not the command's own, so it gets no signal for that key.
    terminal.type_keys("second\r\x03");
    terminal.interrupt();
    terminal.wait_for("(stopped)");
    gate.open();
    model.wait_for(Kind::Reply, 2).await;
    terminal.wait_for("> ");
    leave(terminal);
    assert_eq!(said(&home), ["first", "second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_shows_its_answer_as_it_comes_and_ctrl_c_stops_it() {
    let (home, model) = (home(), FakeModel::start().await);
    let ask = |text: &str| chat(&home, &model, &[text]);
    model.push(Kind::Reply, Answer::text("The harbour lies north of here").hanging());
    let mut terminal = ask("where is it?");
    terminal.wait_for("The harbour");
    terminal.interrupt();
    terminal.wait_for("stopped");
    assert_eq!(terminal.end(), Some(1));
    let history = home.json(&["history", "main"]);
    assert!(history.to_string().contains("The harbour"), "{history}");
    assert_eq!(ask("and now?").end(), Some(0));
    assert_eq!(said(&home), ["where is it?", "and now?"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_log_warns_of_during_an_answer_comes_above_the_next_prompt() {
    let (home, model) = (home(), FakeModel::start().await);
    model.push(Kind::Reply, Answer::error(503, "busy"));
    model.push(Kind::Reply, Answer::text("The harbour lies north of here."));
    let mut terminal = chat(&home, &model, &[]);
    terminal.wait_for("> ");
    terminal.type_keys("where is it?\r");
    terminal.wait_for("north of here.");
    terminal.wait_for("model call failed");
    terminal.wait_for("> ");
    leave(terminal);
}

#[test]
fn commands_are_completed_and_lines_of_earlier_starts_come_back() {
    let home = home();
    let mut terminal = Terminal::start(home.command(&["chat"]));
    terminal.wait_for("> ");
    terminal.type_keys("/stat\t\r");
    terminal.wait_for("is well");
    leave(terminal);
    let mut terminal = Terminal::start(home.command(&["chat"]));
    terminal.wait_for("> ");
    terminal.type_keys("\x1b[A\x1b[A");
    terminal.wait_for("/status");
    terminal.type_keys("\r");
    terminal.wait_for("is well");
    leave(terminal);
    let kept = std::fs::metadata(home.path(".local/state/cairn/chat_history")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&kept.permissions()) & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_attached_to_the_next_message_and_its_path_is_completed() {
    let (home, model) = (home(), FakeModel::start().await);
    home.file("the plan.md", "feed the quokka at nine");
    let mut terminal = chat(&home, &model, &[]);
    terminal.wait_for("> ");
    terminal.type_keys("/file nowhere.md\r");
    terminal.wait_for("`nowhere.md` is not attached: it cannot be read: No such file");
    terminal.wait_for("> ");
    terminal.type_keys("/file th\t\r");
    terminal.wait_for("(attached to the next message: the plan.md (23 bytes))");
    terminal.wait_for("> ");
    terminal.type_keys("/file\r");
    terminal.wait_for("(no file is attached)");
    terminal.wait_for("> ");
    terminal.type_keys("/file ~/the plan.md\r");
    terminal.wait_for("(attached");
    terminal.wait_for("> ");
    terminal.type_keys("when?\r");
    model.wait_for(Kind::Reply, 1).await;
    terminal.wait_for("> ");
    terminal.type_keys("and now?\r");
    model.wait_for(Kind::Reply, 2).await;
    terminal.wait_for("> ");
    leave(terminal);
    let history = home.json(&["history", "main"]);
    let n_parts = |at: usize| history[at]["parts"].as_array().unwrap().len();
    assert_eq!((said(&home), n_parts(0), n_parts(2)), (vec!["when?".into(), "and now?".into()], 2, 1));
    assert!(model.requests_of(Kind::Reply)[0].to_string().contains("feed the quokka at nine"));
}
