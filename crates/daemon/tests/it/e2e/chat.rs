//! `cairn chat` through a pipe, with the offline model.

use crate::home;

#[test]
fn every_line_gets_its_reply_in_order_and_is_kept() {
    let home = home();
    let run = home
        .cairn_with(&["chat", "--user", "ann", "--json"], b"my name is Ann\r\nwhat is my name?\nlast")
        .ended(0);
    let replies: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replies.len(), 3, "{run:?}");
    let turns: Vec<_> = replies.iter().map(|reply| reply["turn"].as_str().unwrap()).collect();
    assert_eq!(turns, ["t1", "t2", "t3"]);
    assert!(replies.iter().all(|reply| !reply["reply"].as_str().unwrap().is_empty()));

    let history = home.json(&["history", "main"]);
    let said: Vec<_> = history
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["role"] == "user")
        .map(|entry| (entry["author"]["name"].as_str().unwrap(), entry["parts"][0]["text"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [("ann", "my name is Ann"), ("ann", "what is my name?"), ("ann", "last")]);
}

#[test]
fn a_bad_line_is_told_and_the_next_ones_are_answered() {
    let home = home();
    let mut input = b"one\n\xff\xfe\n\nwith \0 in it\n".to_vec();
    input.extend(vec![b' '; 1_000_000]);
    input.extend(b"\n");
    input.extend(vec![b'x'; 1_000_000]);
    input.extend(b"\ntwo\n");
    let run = home.cairn_with(&["chat", "--json"], &input).ended(1);
    let said: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<Option<u64>> = said.iter().map(|said| said["line"].as_u64()).collect();
    assert_eq!(lines, [None, Some(2), Some(3), Some(4), Some(5), Some(6), None], "{run:?}");
    let is_told =
        |said: &&serde_json::Value| !said["error"]["message"].as_str().unwrap_or_default().is_empty();
    assert_eq!(said.iter().filter(is_told).count(), 5, "{run:?}");
    assert_eq!(run.stderr, "");
}

#[test]
fn the_last_word_holds_and_what_is_said_to_be_saved_is() {
    let home = home();
    let talk = "I live in Hamburg.\nThe cat has moved in, too.\nI have just moved to Berlin.\nWhere do I live?\n\
                Remember my locker is number 81.\n";
    let run = home.cairn_with(&["chat", "--user", "ann"], talk.as_bytes()).ended(0);
    assert!(
        run.stdout.contains("> I have just moved to Berlin.") && !run.stdout.contains("> I live in"),
        "{run:?}"
    );
    assert!(run.stdout.contains("Saved: I will remember “ann's locker is number 81”"), "{run:?}");
    assert_eq!(run.stdout.matches("remember “").count(), 1, "{run:?}");
    let memories = home.json(&["memory", "list"]);
    assert!(memories.as_array().unwrap().len() == 1 && memories.to_string().contains("81"), "{memories}");
}

#[test]
fn nothing_to_say_is_no_error() {
    let home = home();
    let run = home.cairn_with(&["chat"], b"").ended(0);
    assert_eq!(run.stdout, "");
}

#[test]
fn a_message_on_the_command_line_is_asked_once() {
    let home = home();
    let run = home.cairn(&["chat", "my name is Ann", "--user", "ann"]).ended(0);
    assert!(!run.stdout.trim().is_empty() && run.stderr.is_empty(), "{run:?}");
    let history = home.json(&["history", "main"]);
    assert_eq!(history.as_array().unwrap().len(), 2, "{history}");
    home.cairn(&["chat", ""]).told(1, &["empty"]);
}

#[test]
fn commands_of_chats_work_through_a_pipe_too() {
    let home = home();
    let input = b"/remember the harbour code is blue 17\n/memory harbour\n//memory is a word\n/dance\n/hist\n/statsu\n\
        /status\n/new\n";
    let run = home.cairn_with(&["chat"], input).ended(1);
    for words in ["Remembered", "blue 17", "is well", "starts"] {
        assert!(run.stdout.contains(words), "`{words}` in {run:?}");
    }
    for words in ["error: line 4: there is no command `dance`", "mean `cairn history`", "mean `status`"] {
        assert!(run.stderr.contains(words), "`{words}` in {run:?}");
    }
    let history = home.json(&["history", "main"]);
    assert_eq!(history[0]["parts"][0]["text"], "/memory is a word", "{history}");
    assert_eq!(home.json(&["memory", "list"])[0]["text"], "the harbour code is blue 17");
    let run = home.cairn_with(&["chat", "--json"], b"/memory\n").ended(0);
    assert!(run.json()["words"].as_str().unwrap().contains("harbour"), "{run:?}");
}
