//! Looking back from outside: parts of a history, a search over all channels, and where a memory comes from.

use cairn_testkit::daemon::Client;
use cairn_testkit::home::Home;
use serde_json::{Value, json};

use crate::home;

/// Days of January 2026, with one message of Ann and one of Bo each.
fn talked(days: usize) -> Home {
    let home = home();
    let line = |day: usize, hour: usize, user: &str, text: &str| {
        let at = format!("2026-01-{day:02}T{hour:02}:00:00Z");
        json!({ "user": user, "text": format!("{text} {day}"), "at": at }).to_string() + "\n"
    };
    let talk: String = (1..=days)
        .map(|day| line(day, 9, "ann", "sails on day") + &line(day, 17, "bo", "oars on day"))
        .collect();
    let file = home.file("talk.jsonl", talk);
    home.cairn(&["import", "--answer", file.to_str().unwrap(), "--channel", "main"]).ended(0);
    home
}

/// A page of a list, and what the next one comes after.
async fn page(client: &Client, path: &str) -> (Value, Option<String>) {
    let (_, items, next) = client.page(path).await.unwrap();
    (items, next)
}

fn seqs(history: &Value) -> Vec<u64> {
    history.as_array().unwrap().iter().map(|entry| entry["seq"].as_u64().unwrap()).collect()
}

#[test]
fn a_history_shows_its_newest_part_unless_asked_otherwise() {
    let home = talked(30);
    let of = |args: &[&str]| seqs(&home.json(&[&["history", "main"], args].concat()));
    let all: Vec<u64> = (1..=120).collect();
    assert_eq!(of(&[]), all[20..], "newest last");
    assert_eq!(of(&["--tail", "3"]), [118, 119, 120]);
    assert_eq!(of(&["--limit", "2", "--to", "50"]), [49, 50]);
    assert_eq!(of(&["--from", "1", "--limit", "2"]), [1, 2]);
    assert_eq!(of(&["--from", "2", "--to", "4"]), [2, 3, 4]);
    assert_eq!(of(&["--since", "2026-01-02", "--limit", "3"]), [5, 6, 7], "from there on");
    assert_eq!(of(&["--since", "2026-01-02", "--until", "2026-01-02"]), [5, 6, 7, 8], "a day has an end");
    assert_eq!(of(&["--until", "2026-01-30 08:59", "--tail", "1"]), [116]);
    assert_eq!(of(&["--user", "ann", "--tail", "2"]), [113, 117], "by name");
    assert_eq!(of(&["--user", "local/bo", "--since", "2026-01-29"]), [115, 119], "by id");
    assert_eq!(of(&["--since", "2h"]), [] as [u64; 0]);
    assert_eq!(home.cairn(&["history", "main", "--since", "2h"]).ended(0).stdout, "nothing fits\n");

    let run = home.cairn(&["history", "main", "--tail", "2", "--until", "2026-01-20"]).ended(0);
    assert!(run.stdout.contains("oars on day 20") && !run.stdout.contains("sails on day 20"), "{run:?}");
    assert!(run.stderr.contains("older ones: --to 78"), "{run:?}");
    let run = home.cairn(&["history", "main", "--from", "5", "--limit", "2"]).ended(0);
    assert!(run.stderr.contains("the next page: --from 7"), "{run:?}");
    let run = home.cairn(&["history", "main", "--since", "soon"]).ended(2);
    assert!(run.stderr.contains("`soon` is no time") && run.stderr.contains("yesterday"), "{run:?}");
    home.cairn(&["history", "main", "--tail", "1", "--limit", "1"]).ended(2);
}

#[test]
fn the_last_entry_of_a_turn_says_which_it_was_and_how_it_ended() {
    let home = talked(2);
    let turn = home.json(&["history", "main", "--turn", "t2"]);
    assert_eq!(seqs(&turn), [3, 4]);
    assert!(turn[0].get("end").is_none(), "{turn}");
    assert_eq!(
        (&turn[1]["end"]["outcome"], &turn[1]["end"]["model"]),
        (&json!("answered"), &json!("offline"))
    );
    let shown = home.cairn(&["history", "main", "--turn", "t2"]).ended(0).stdout;
    let heads: Vec<&str> = shown.lines().filter(|line| !line.starts_with("        ")).collect();
    assert!(heads[0].ends_with("bo  [live]"), "{shown}");
    assert!(heads[1].ends_with("[live]  t2  0 + 0 tokens of offline  answered"), "{shown}");
    home.cairn(&["history", "main", "--turn", "t99"]).told(4, &["no turn t99 in main/local/main"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_pages_a_history_from_either_end() {
    let home = talked(5);
    let daemon = home.daemon(None).await;
    let client = daemon.client();
    let mut paged = Vec::new();
    let mut path = "/v1/channels/main/history?tail=3&user=ann".to_owned();
    loop {
        let (items, next) = page(&client, &path).await;
        paged.splice(0..0, seqs(&items));
        let Some(next) = next else { break };
        path = format!("/v1/channels/main/history?tail=3&user=ann&to={next}");
    }
    assert_eq!(paged, [1, 5, 9, 13, 17]);
    let (items, next) = page(&client, "/v1/channels/main/history?limit=4").await;
    assert_eq!((seqs(&items), next.as_deref()), (vec![1, 2, 3, 4], Some("5")));
    let (status, error) =
        client.ask("GET", "/v1/channels/main/history?limit=4&tail=4", &Value::Null).await.unwrap();
    assert_eq!((status.as_u16(), error["error"]["code"].as_str()), (400, Some("malformed")), "{error}");
    assert!(daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_long_texts_is_short_and_goes_on() {
    /// Of one text, and the most of an answer: what fills a page, one more text, and what is around them.
    const BYTES: usize = 180_000;
    const PAGE_MAX: usize = 512 * 1024 + BYTES + 50_000;
    let home = home();
    let line = |n: usize| {
        let text = format!("heron {n} {}", "tall ".repeat(BYTES / 5));
        json!({ "user": "ann", "text": text, "at": format!("2026-01-01T{n:02}:00:00Z") }).to_string() + "\n"
    };
    let file = home.file("talk.jsonl", (0..16).map(line).collect::<String>());
    home.cairn(&["import", "--answer", file.to_str().unwrap(), "--channel", "main"]).ended(0);
    let daemon = home.daemon(None).await;
    let client = daemon.client();
    for (path, goes_on) in [
        ("/v1/channels/main/history?limit=10000", "from"),
        ("/v1/channels/main/history?tail=10000", "to"),
        ("/v1/channels/main/search?q=heron&kind=entry&limit=10000", "after"),
    ] {
        let (mut ids, mut n_pages, mut asked) = (Vec::new(), 0, path.to_owned());
        loop {
            let (items, next) = page(&client, &asked).await;
            let bytes = items.to_string().len();
            assert!(bytes < PAGE_MAX, "{asked}: {bytes}");
            let items = items.as_array().unwrap().iter();
            let heard = items.filter(|item| !item["author"].is_null());
            ids.extend(heard.map(|item| item["seq"].as_u64().unwrap()));
            n_pages += 1;
            let Some(next) = next else { break };
            asked = format!("{path}&{goes_on}={next}");
        }
        ids.sort_unstable();
        assert_eq!(ids, (0..16).map(|n| 2 * n + 1).collect::<Vec<u64>>(), "{path}");
        assert!(n_pages > 2, "{path}: {n_pages}");
    }
    assert_eq!(seqs(&home.json(&["history", "main", "--limit", "100"])), (1..=32).collect::<Vec<u64>>());
    let out = home.path("out");
    let wrote = home.json(&["history", "main", "--export", out.to_str().unwrap()]);
    assert_eq!(wrote["entries"], 32, "{wrote}");
    assert!(daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_goes_over_all_channels_and_wakes_none() {
    let home = home();
    for (channel, user, text) in [
        ("garden", "ann", "the secateurs hang in the shed"),
        ("garden", "ben", "what a fine day"),
        ("boats", "ann", "we sharpened the secateurs for the rigging"),
    ] {
        home.cairn(&["chat", "--channel", channel, "--user", user, text]).ended(0);
    }
    home.cairn(&["memory", "add", "Secateurs need oil.", "--kind", "fact", "--scope", "agent"]).ended(0);
    let daemon = home.daemon(None).await;
    let hits = home.json(&["search", "secateurs"]);
    for args in
        [&["garden", "--kind", "entry", "secateurs"][..], &["--kind", "entry", "garden", "--", "-secateurs"]]
    {
        let in_one = home.cairn(&[&["search"], args].concat()).ended(0).stdout;
        assert!(in_one.contains("hang in the shed") && !in_one.contains("rigging"), "{in_one}");
    }
    home.cairn(&["search", "garden", "fine", "day"]).told(2, &["put the words in quotes"]);
    let of = |kind: &str, near: bool| -> Vec<&Value> {
        let hits = hits.as_array().unwrap().iter();
        hits.filter(|hit| hit["kind"] == kind && hit["near"].as_bool().unwrap_or(false) == near).collect()
    };
    let mut channels: Vec<_> =
        of("entry", false).iter().map(|hit| hit["channel"].as_str().unwrap()).collect();
    channels.sort_unstable();
    assert_eq!(channels, ["main/local/boats", "main/local/garden"], "{hits}");
    assert_eq!(of("memory", false).len(), 1, "{hits}");
    for hit in of("entry", false) {
        let (text, mark) = (hit["text"].as_str().unwrap(), &hit["marks"][0]);
        let [from, to] = [&mark[0], &mark[1]].map(|at| at.as_u64().unwrap() as usize);
        assert_eq!(&text[from..to], "secateurs", "{hit}");
        assert_eq!(hit["turn"], "t1");
    }
    let near = of("entry", true);
    assert!(near.iter().any(|hit| hit["text"] == "what a fine day"), "a neighbour is told apart: {hits}");
    assert!(near.iter().all(|hit| hit.get("marks").is_none()), "{hits}");

    let shown = home.cairn(&["search", "secateurs"]).ended(0).stdout;
    let line = |words: &str| shown.lines().find(|line| line.contains(words)).unwrap_or_default().to_owned();
    assert!(line("hang in the shed").starts_with("* "), "{shown}");
    assert!(line("hang in the shed").contains("  main/local/garden  "), "{shown}");
    assert!(line("what a fine day").starts_with("~ "), "{shown}");
    for (query, told) in [("hello", "not indexed"), ("zeppelins", "nothing found\n")] {
        assert!(home.cairn(&["search", query]).ended(0).stdout.contains(told), "{query}");
    }
    let one = home.json(&["search", "boats", "secateurs", "--kind", "entry"]);
    assert!(one.as_array().unwrap().iter().all(|hit| hit["channel"] == "main/local/boats"), "{one}");

    let client = daemon.client();
    let (mut paged, mut path) = (Vec::new(), "/v1/search?q=secateurs&limit=1".to_owned());
    loop {
        let (items, next) = page(&client, &path).await;
        paged.extend(items.as_array().unwrap().clone());
        let Some(next) = next else { break };
        path = format!("/v1/search?q=secateurs&limit=1&after={next}");
    }
    assert_eq!(Value::Array(paged), hits, "page by page it is the same");
    let states = client.get("/v1/channels").await.unwrap();
    assert!(states.as_array().unwrap().iter().all(|channel| channel["state"] == "asleep"), "{states}");
    for bad in
        ["/v1/search?q=", "/v1/search?q=x&kind=song", "/v1/search?q=x&after=7", "/v1/search?q=x&since=soon"]
    {
        let (status, error) = client.ask("GET", bad, &Value::Null).await.unwrap();
        assert_eq!(status.as_u16(), 400, "{bad}: {error}");
    }
    assert!(daemon.stop().await.unwrap().success());
}

#[test]
fn a_search_can_be_of_one_persons_words_and_of_a_time() {
    let home = talked(9);
    let found = |args: &[&str]| {
        let hits = home.json(&[&["search"], args].concat());
        let texts = hits.as_array().unwrap().iter().map(|hit| hit["text"].as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>()
    };
    let bo = found(&["day", "--user", "bo", "--since", "2026-01-03", "--until", "2026-01-04"]);
    assert_eq!(bo.len(), 2, "{bo:?}");
    assert!(bo.contains(&"oars on day 3".to_owned()) && bo.contains(&"oars on day 4".to_owned()), "{bo:?}");
    assert_eq!(found(&["main", "sails", "--until", "2025-12-31"]), [] as [&str; 0]);
}

#[test]
fn a_memory_shows_what_it_said_before_and_which_turns_had_it() {
    let home = home();
    let add = ["memory", "add", "The ferry leaves at noon.", "--kind", "fact", "--scope", "agent"];
    let id = home.json(&add)["id"].as_str().unwrap().to_owned();
    home.cairn(&["chat", "when does the ferry leave?"]).ended(0);
    home.cairn(&["memory", "edit", &id, "The ferry leaves at one."]).ended(0);
    home.cairn(&add).ended(0);
    let check = |home: &Home| {
        let view = home.json(&["memory", "show", &id]);
        let steps = view["history"].as_array().unwrap();
        let whats: Vec<_> = steps.iter().map(|step| (&step["what"], &step["text"])).collect();
        let expected = [
            (json!("made"), json!("The ferry leaves at noon.")),
            (json!("edited"), json!("The ferry leaves at one.")),
            (json!("seen"), json!("The ferry leaves at noon.")),
        ];
        assert_eq!(whats, expected.iter().map(|(what, text)| (what, text)).collect::<Vec<_>>(), "{view}");
        assert_eq!(
            (&view["trust"], &view["weight"], &view["text"]),
            (&json!("operator"), &json!(1.0), &json!("The ferry leaves at one."))
        );
        let used = &view["used_in"];
        assert_eq!(used.as_array().unwrap().len(), 1, "{view}");
        assert_eq!(
            (&used[0]["channel"], &used[0]["turn"], &used[0]["outcome"]),
            (&json!("main/local/main"), &json!("t1"), &json!("answered"))
        );
    };
    check(&home);
    home.cairn(&["store", "rebuild"]).ended(0);
    check(&home);
    let shown = home.cairn(&["memory", "show", &id]).ended(0).stdout;
    for words in
        ["an operator's word", "  made  ", "The ferry leaves at noon.", "  edited", "Used in\n", "  t1  "]
    {
        assert!(shown.contains(words), "{words} in {shown}");
    }
    let turn = home.json(&["history", "main", "--turn", "t1"]);
    assert_eq!(turn[1]["end"]["recalled"], json!([id]), "{turn}");
    let context = home.json(&["context", "main"]);
    assert_eq!(
        context["recalled"],
        json!([{ "id": id, "kind": "fact", "text": "The ferry leaves at one." }])
    );
    let drawn = home.cairn(&["context", "main"]).ended(0).stdout;
    assert!(
        drawn.contains("recalled 1 memory") && drawn.contains(&format!("  {id}  fact  The ferry")),
        "{drawn}"
    );
    home.cairn(&["memory", "forget", &id]).ended(0);
    assert_eq!(home.json(&["context", "main"])["recalled"], json!([{ "id": id }]), "it is gone since");
    home.cairn(&["memory", "show", &id]).ended(4);
}
