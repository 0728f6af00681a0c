//! Who speaks in the log, how lines look, and that the level changes while the log runs.

use cairn_core::window::is_hidden;
use rstest::rstest;
use serde_json::Value;

use super::*;

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl std::io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs `work` with a log as `start` makes it, and returns what was written.
fn logged(level: &str, shape: Shape, work: impl FnOnce(&LogHandle)) -> String {
    let buffer = Buffer::default();
    let writer = buffer.clone();
    let (filter, handle) = reload::Layer::new(EnvFilter::try_new(level).unwrap());
    let lines = Lines::new(shape, move || writer.clone()).with_filter(filter_fn(is_ours).and(filter));
    let subscriber = tracing_subscriber::registry().with(lines);
    let handle = LogHandle { filter: handle, level: Arc::new(Mutex::new(level.to_owned())) };
    tracing::subscriber::with_default(subscriber, || work(&handle));
    buffer.text()
}

const PLAIN: Shape = Shape::Text { colours: false };

#[test]
fn libraries_are_silent_even_when_the_level_names_them() {
    let text = logged("trace,serenity::gateway=trace", PLAIN, |_| {
        tracing::error!(target: "serenity::gateway::shard", "a secret payload");
        tracing::warn!(target: "reqwest::connect", "https://host/bot1:secret/getMe");
        tracing::error!(target: "a_library_of_tomorrow", "secret");
        let span = tracing::error_span!(target: "hyper", "request", body = "secret");
        span.in_scope(|| tracing::info!(target: "cairn_daemon", "ready"));
    });
    assert!(text.contains("ready") && !text.contains("secret"), "{text}");
}

#[test]
fn the_level_changes_live_and_nonsense_changes_nothing() {
    let text = logged("warn", PLAIN, |handle| {
        let say = |words: &str| tracing::debug!(target: "cairn_store", "{words}");
        say("too early");
        handle.set_level("warn,cairn_store=debug").unwrap();
        say("now");
        tracing::debug!(target: "cairn_llm", "another module");
        assert!(handle.set_level("info,cairn_store=chatty").is_err());
        assert_eq!(handle.level(), "warn,cairn_store=debug");
        say("still");
        handle.set_level("error").unwrap();
        say("too late");
    });
    let said: Vec<_> = text.lines().map(|line| line.rsplit(' ').next().unwrap_or_default()).collect();
    assert_eq!(said, ["now", "still"]);
}

#[test]
fn every_line_within_a_turn_carries_it_once() {
    let work = |_: &LogHandle| {
        let turn = tracing::error_span!(target: "cairn_actors", "turn", turn = "t1", agent = "main", run = tracing::field::Empty);
        let _turn = turn.enter();
        tracing::warn!(target: "cairn_actors", turn = "t1", "its own");
        let call = tracing::error_span!(target: "cairn_actors", "tool", tool = "fetch", agent = "nearest");
        call.in_scope(|| tracing::warn!(target: "cairn_tools", took = 3, "a call\nof \u{1b}[31mtwo lines"));
        turn.record("run", "r9");
        tracing::warn!(target: "cairn_actors", level = "odd", "later");
    };
    let text = logged("warn", PLAIN, work);
    let lines: Vec<_> = text.lines().map(|line| line.split_once(": ").unwrap().1).collect();
    let expected = [
        r#"its own turn="t1" agent="main""#,
        r#"a call\nof \u{1b}[31mtwo lines took=3 tool="fetch" agent="nearest" turn="t1""#,
        r#"later level="odd" turn="t1" agent="main" run="r9""#,
    ];
    assert_eq!(lines, expected, "{text}");
    let text = logged("warn", Shape::Json, work);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() == 3 && lines.iter().all(|line| line["turn"] == "t1"), "{text}");
    assert_eq!((&lines[1]["took"], &lines[1]["tool"]), (&Value::from(3), &Value::from("fetch")));
    assert_eq!((&lines[2]["level"], &lines[2]["level_"]), (&Value::from("WARN"), &Value::from("odd")));
}

#[test]
fn nothing_in_a_line_turns_its_direction_or_hides() {
    let hidden = "A\u{202e}n\u{200b}n\u{3164}\u{2028}\u{9b}!";
    let work =
        |_: &LogHandle| tracing::warn!(target: "cairn_actors", shown = %hidden, quoted = hidden, "{hidden}");
    let text = logged("warn", PLAIN, work);
    let escaped = r"A\u{202e}n\u{200b}n\u{3164}\u{2028}\u{9b}!";
    let expected = format!("{escaped} shown={escaped} quoted=\"{escaped}\"\n");
    assert!(text.ends_with(&expected), "{text}");
    let text = logged("warn", Shape::Json, work);
    assert!(!text.trim_end().contains(is_hidden), "{text}");
    let line: Value = serde_json::from_str(&text).unwrap();
    assert!(["message", "shown", "quoted"].iter().all(|field| line[field] == hidden), "{text}");
}

#[rstest]
#[case::terminal(LogFormat::Auto, false, true, To::Stderr(Shape::Text { colours: true }))]
#[case::pipe(LogFormat::Auto, false, false, To::Stderr(PLAIN))]
#[case::under_systemd(LogFormat::Auto, true, false, To::Journald)]
#[case::text_is_asked_for(LogFormat::Text, true, true, To::Stderr(PLAIN))]
#[case::json_is_asked_for(LogFormat::Json, true, false, To::Stderr(Shape::Json))]
#[case::journald_is_asked_for(LogFormat::Journald, false, true, To::Journald)]
fn where_lines_go(#[case] format: LogFormat, #[case] journal: bool, #[case] colours: bool, #[case] to: To) {
    assert_eq!(choose(format, journal, colours), to);
}

#[test]
fn the_journal_is_known_by_its_device_and_inode_alone() {
    use cairn_config::FixedEnvironment;
    let env = FixedEnvironment::new("/");
    assert!(!is_journal(&env), "no variable");
    assert!(!is_journal(&env.clone().with("JOURNAL_STREAM", "1:1")), "another stream: stderr was redirected");
    let stat = rustix::fs::fstat(std::io::stderr()).unwrap();
    assert!(is_journal(&env.with("JOURNAL_STREAM", format!("{}:{}", stat.st_dev, stat.st_ino))));
}
