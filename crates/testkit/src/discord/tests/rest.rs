//! What the REST side gives and refuses.

use super::*;

async fn scene() -> (FakeDiscord, Rest) {
    let discord = FakeDiscord::start().await;
    discord.guild(100);
    discord.channel(100, 101);
    discord.channel(100, 102);
    let rest = Rest::of(&discord);
    (discord, rest)
}

fn rules(discord: &FakeDiscord) -> Vec<Rule> {
    discord.violations().iter().map(|violation| violation.rule).collect()
}

#[tokio::test]
async fn a_wrong_token_gets_discords_401() {
    let (discord, mut rest) = scene().await;
    assert_eq!(rest.get("/api/v10/users/@me").await.json["id"], BOT_ID.to_string());
    for authorization in ["Bot wrong", TOKEN, ""] {
        authorization.clone_into(&mut rest.authorization);
        let got = rest.get("/api/v10/users/@me").await;
        assert_eq!(got.refusal(), (401, 0), "{authorization}: {}", got.text);
    }
    discord.assert_clean();
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "waited 60s without success for 1 messages in 101; requests: {}; violations: []")]
async fn a_wait_for_what_never_comes_fails_and_says_what_came() {
    let (discord, _rest) = scene().await;
    discord.wait_sent(101, 1).await;
}

#[tokio::test]
async fn messages_over_the_limits_are_refused_and_recorded() {
    let (discord, rest) = scene().await;
    assert_eq!(rest.send(101, &"ä".repeat(2_000), json!({})).await.status, 200);
    discord.assert_clean();
    assert_eq!(rest.send(101, &"ä".repeat(2_001), json!({})).await.refusal(), (400, 50035));
    assert_eq!(rest.send(101, " \n ", json!({})).await.refusal(), (400, 50006));
    assert_eq!(rest.send(101, "x", json!({"nonce": "n".repeat(26)})).await.refusal(), (400, 50035));
    assert_eq!(rules(&discord), [Rule::Length, Rule::Length, Rule::Nonce]);
    assert_eq!(discord.sent(101).len(), 1);
}

#[tokio::test]
async fn mentions_and_previews_that_are_not_switched_off_are_recorded() {
    let (discord, rest) = scene().await;
    let alice = discord.user("alice");
    let text = format!("hey <@{alice}> and @everyone, see https://example.org");
    rest.send(101, &text, json!({"flags": 4})).await;
    discord.assert_clean();
    assert!(discord.sent(101)[0].pinged.is_empty());
    rest.send(101, &text, json!({"flags": 4, "allowed_mentions": null})).await;
    rest.send(101, &text, json!({})).await;
    rest.send(101, "see <https://example.org>", json!({})).await;
    assert_eq!(rules(&discord), [Rule::Mentions, Rule::Preview]);
    assert_eq!(discord.sent(101)[1].pinged, ["everyone".to_owned(), alice.to_string()]);
}

#[tokio::test]
async fn a_nonce_that_is_enforced_gives_the_earlier_message() {
    let (discord, rest) = scene().await;
    let nonce = json!({"nonce": "abc", "enforce_nonce": true});
    let first = rest.send(101, "once", nonce.clone()).await;
    let second = rest.send(101, "once", nonce.clone()).await;
    assert_eq!(first.json["id"], second.json["id"]);
    assert_eq!((discord.sent(101).len(), discord.sent(101)[0].repeats), (1, 1));
    discord.assert_clean();
    // Other words under the same nonce are not shown: whoever sends them must edit the message.
    rest.send(101, "other words", nonce.clone()).await;
    assert_eq!((discord.sent(101)[0].content.as_str(), rules(&discord)), ("once", vec![Rule::Nonce]));
    let path = format!("/api/v10/channels/101/messages/{}", discord.sent(101)[0].id);
    let words = json!({"content": "other words", "allowed_mentions": {"parse": []}});
    assert_eq!(rest.ask("PATCH", &path, words).await.status, 200);
    discord.assert_clean();
    // In another channel it is the bot's fault.
    rest.send(102, "once", nonce).await;
    assert_eq!(rules(&discord)[0], Rule::Nonce);
    // Without `enforce_nonce` it keeps nothing away.
    rest.send(101, "x", json!({"nonce": "plain"})).await;
    rest.send(101, "x", json!({"nonce": "plain"})).await;
    assert_eq!(discord.sent(101).len(), 3);
}

#[tokio::test]
async fn an_answer_names_a_message_of_its_channel_or_fails() {
    let (discord, rest) = scene().await;
    let question = discord.say(101, "alice", "hello");
    let reference = |fail: bool, id: u64| json!({"message_reference": {"message_id": id.to_string(), "fail_if_not_exists": fail}});
    let got = rest.send(101, "hi", reference(true, question)).await;
    assert_eq!(got.json["referenced_message"]["content"], "hello");
    assert_eq!(discord.sent(101)[0].reply_to, Some(question));
    assert_eq!(rest.send(101, "hi", reference(true, 5)).await.refusal(), (400, 50035));
    assert_eq!(rest.send(102, "hi", reference(true, question)).await.refusal(), (400, 50035));
    assert_eq!(rest.send(101, "hi", reference(false, 5)).await.status, 200);
    assert_eq!(discord.sent(101)[1].reply_to, None);
}

#[tokio::test]
async fn only_own_messages_are_edited() {
    let (discord, rest) = scene().await;
    let theirs = discord.say(101, "alice", "hello");
    let own = rest.send(101, "draft", json!({})).await.json["id"].as_str().unwrap().to_owned();
    let body = json!({"content": "final", "allowed_mentions": {"parse": []}});
    let path = |id: &str| format!("/api/v10/channels/101/messages/{id}");
    assert_eq!(rest.ask("PATCH", &path(&own), body.clone()).await.status, 200);
    assert_eq!(discord.sent(101)[0].wordings, ["draft", "final"]);
    assert_eq!(rest.ask("PATCH", &path("7"), body.clone()).await.refusal(), (404, 10008));
    discord.assert_clean();
    assert_eq!(rest.ask("PATCH", &path(&theirs.to_string()), body).await.refusal(), (403, 50005));
    assert_eq!(rules(&discord), [Rule::Foreign]);
}

#[tokio::test]
async fn what_people_said_is_fetched_newest_first_from_either_side() {
    let (discord, rest) = scene().await;
    let old = discord.post(101, "alice", "long ago").aged(Duration::from_secs(3_600)).send();
    let ids: Vec<u64> = (0..5).map(|n| discord.say(101, "alice", &format!("m{n}"))).collect();
    let fetch = async |query: &str| {
        let got = rest.get(&format!("/api/v10/channels/101/messages?{query}")).await;
        let texts =
            got.json.as_array().unwrap().iter().map(|one| one["content"].as_str().unwrap().to_owned());
        texts.collect::<Vec<String>>()
    };
    assert_eq!(fetch(&format!("after={}&limit=2", ids[0])).await, ["m2", "m1"]);
    assert_eq!(fetch(&format!("before={}&limit=2", ids[3])).await, ["m2", "m1"]);
    assert_eq!(fetch(&format!("after={old}")).await, ["m4", "m3", "m2", "m1", "m0"]);
    assert_eq!(fetch("limit=100").await.len(), 6);
    discord.assert_clean();
    let got = rest.get("/api/v10/channels/101/messages?limit=101").await;
    assert_eq!(got.refusal(), (400, 50035));
}

#[tokio::test]
async fn places_that_are_closed_say_why() {
    let (discord, rest) = scene().await;
    let dm = discord.dm("alice");
    discord.forum(100, 103);
    discord.deny(101);
    discord.hide(102);
    discord.block(dm);
    for (channel, code) in [(101, 50013), (102, 50001), (dm, 50007), (104, 10003)] {
        let got = rest.send(channel, "x", json!({})).await;
        assert_eq!(got.json["code"], code, "{}", got.text);
    }
    assert_eq!(rest.send(103, "x", json!({})).await.refusal(), (400, 50008));
    assert_eq!(rest.get("/api/v10/channels/101").await.status, 200);
    assert_eq!(rest.get("/api/v10/channels/102").await.refusal(), (403, 50001));
    discord.remove(101);
    assert_eq!(rest.get("/api/v10/channels/101").await.refusal(), (404, 10003));
    discord.assert_clean();
}

#[tokio::test]
async fn a_429_says_how_long_and_going_on_is_recorded() {
    let (discord, rest) = scene().await;
    let fine = rest.send(101, "a", json!({})).await;
    assert_eq!((fine.header("x-ratelimit-limit"), fine.header("x-ratelimit-remaining")), ("1000", "999"));
    discord.rate_limit(Route::Send, Duration::from_secs(600));
    let refused = rest.send(101, "b", json!({})).await;
    assert_eq!((refused.status, refused.json["global"].as_bool()), (429, Some(false)));
    assert_eq!((refused.json["retry_after"].as_f64(), refused.header("retry-after")), (Some(600.0), "600"));
    assert_eq!(refused.header("x-ratelimit-remaining"), "0");
    assert_eq!(rest.send(102, "other channel", json!({})).await.status, 200);
    discord.assert_clean();
    let going_on =
        async { while rest.send(101, "b", json!({})).await.status == 429 && rules(&discord).is_empty() {} };
    tokio::time::timeout(Duration::from_secs(30), going_on).await.unwrap();
    assert_eq!(rules(&discord)[0], Rule::RateLimit);
    assert_eq!(discord.sent(101).len(), 1);
}

#[tokio::test]
async fn a_full_bucket_refuses_by_itself() {
    let discord = FakeDiscord::builder().rate(2, Duration::from_secs(600)).start().await;
    discord.guild(100);
    discord.channel(100, 101);
    let rest = Rest::of(&discord);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(rest.send(101, "x", json!({})).await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
    discord.rate_limit_globally(Duration::from_secs(600));
    let got = rest.get("/api/v10/users/@me").await;
    assert_eq!((got.json["global"].as_bool(), got.header("x-ratelimit-global")), (Some(true), "true"));
}

#[tokio::test]
async fn files_are_served_without_the_token() {
    let (discord, mut rest) = scene().await;
    discord.post(101, "alice", "look").attach("a.txt", "text/plain", "words").send();
    discord.post(101, "alice", "big").attach_zeros("b.bin", "application/octet-stream", 100_000).send();
    let list = rest.get("/api/v10/channels/101/messages").await.json;
    let path = |n: usize| {
        let url = list[n]["attachments"][0]["url"].as_str().unwrap().to_owned();
        url.split_once(&discord.api_url()).unwrap().1.to_owned()
    };
    rest.authorization.clear();
    assert_eq!(rest.get(&path(1)).await.text, "words");
    assert_eq!(rest.get(&path(0)).await.text.len(), 100_000);
    assert_eq!(rest.get("/attachments/101/5/a.txt").await.status, 404);
    assert_eq!(discord.fetched(), 2);
    discord.assert_clean();
    rest.authorization = format!("Bot {TOKEN}");
    rest.get(&path(1)).await;
    assert_eq!(rules(&discord), [Rule::Leak]);
}

#[tokio::test]
async fn malformed_requests_and_unknown_paths_are_recorded() {
    let (discord, rest) = scene().await;
    assert_eq!(rest.post("/api/v10/channels/101/messages", json!(null)).await.refusal(), (400, 50109));
    assert_eq!(rest.get("/api/v9/users/@me").await.status, 404);
    assert_eq!(rest.get("/api/v10/nothing").await.status, 404);
    assert_eq!(rules(&discord), [Rule::Shape; 3]);
}

#[tokio::test]
async fn commands_are_checked_before_they_are_kept() {
    let (discord, rest) = scene().await;
    let path = format!("/api/v10/applications/{BOT_ID}/commands");
    let option = |name: &str, required: bool| json!({"name": name, "description": "d", "type": 3, "required": required});
    let good = json!([{"name": "memory", "description": "Shows", "options": [option("query", false)]}]);
    assert_eq!(rest.ask("PUT", &path, good).await.status, 200);
    assert_eq!(discord.commands()[0]["name"], "memory");
    discord.assert_clean();
    let bad = [
        json!([{"name": "Memory", "description": "d"}]),
        json!([{"name": "memory", "description": ""}]),
        json!([{"name": "memory", "description": "d".repeat(101)}]),
        json!([{"name": "m", "description": "d"}, {"name": "m", "description": "d"}]),
        json!([{"name": "m", "description": "d", "options": [option("a", false), option("b", true)]}]),
    ];
    for commands in bad {
        let got = rest.ask("PUT", &path, commands.clone()).await;
        assert_eq!(got.refusal(), (400, 50035), "{commands}");
    }
    assert_eq!(discord.commands().len(), 1);
}
