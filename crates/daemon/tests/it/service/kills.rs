//! `kill -9` in the midst of reloads and backups: what was acknowledged is there, and the next start is as good as any.

use std::collections::{BTreeMap, BTreeSet};

use cairn_testkit::daemon::{Client, said_in};
use cairn_testkit::home::Home;
use cairn_testkit::model::FakeModel;
use serde_json::{Value, json};

use crate::service::rig::config;

const KILLS: usize = 20;

/// Reloads with one threshold and another in turn, for as long as the daemon lives.
async fn reload(client: Client, file: std::path::PathBuf, texts: [String; 2]) {
    for n in 0.. {
        let beside = file.with_extension("new");
        std::fs::write(&beside, &texts[n % 2]).unwrap();
        std::fs::rename(beside, &file).unwrap();
        if client.ask("POST", "/v1/reload", &Value::Null).await.is_err() {
            return;
        }
    }
}

/// Makes backups, one after the other, for as long as the daemon lives.
async fn back_up(client: Client, dir: std::path::PathBuf, life: usize) {
    for n in 0.. {
        let call = json!({ "dir": dir.join(format!("backup-{life}-{n}")) });
        match client.ask("POST", "/v1/store/backup", &call).await {
            Ok((status, answer)) => assert_eq!(status, 200, "{answer}"),
            Err(_) => return,
        }
    }
}

/// Talks for as long as the daemon lives; the texts that were answered.
async fn talk(client: Client, life: usize, told: tokio::sync::mpsc::Sender<()>) -> Vec<String> {
    let mut answered = Vec::new();
    for n in 0.. {
        let text = format!("life {life} message {n}");
        let body = json!({ "user": "ann", "text": text, "id": format!("{life}-{n}") });
        match client.ask("POST", "/v1/channels/main/messages", &body).await {
            Ok((status, _)) if status == 200 => answered.push(text),
            Ok((status, answer)) => panic!("{status}: {answer}"),
            Err(_) => break,
        }
        let _ = told.try_send(());
    }
    answered
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_kills_lose_nothing() {
    let home = crate::home();
    let model = FakeModel::builder().expect_stable_prefix(false).start().await;
    let lower = "[agents.compaction]\nbackground_threshold = 0.5\n";
    let texts = [config(&model, "", "", ""), config(&model, "", "", lower)];
    let mut acknowledged = Vec::new();
    for life in 0..KILLS {
        let file = home.config(&texts[life % 2]);
        let daemon = home.daemon(Some(&file)).await;
        let client = daemon.client();
        let (told, mut heard) = tokio::sync::mpsc::channel(64);
        let talking = tokio::spawn(talk(client.clone(), life, told));
        let reloading = tokio::spawn(reload(client.clone(), file, texts.clone()));
        let backing_up = tokio::spawn(back_up(client, home.path(""), life));
        // Each life is another number of answers long.
        for _ in 0..=life % 7 {
            heard.recv().await.unwrap();
        }
        daemon.kill().await.unwrap();
        acknowledged.extend(talking.await.unwrap());
        reloading.await.unwrap();
        backing_up.await.unwrap();
    }
    assert!(acknowledged.len() >= KILLS);
    home.config(&texts[0]);
    home.cairn(&["store", "verify"]).ended(0);
    let history = home.json(&["history", "main", "--limit", "10000"]);
    let said = said_in(&history);
    let once: BTreeSet<&str> = said.iter().copied().collect();
    assert_eq!(once.len(), said.len(), "something is there twice");
    let lost: Vec<_> = acknowledged.iter().filter(|text| !once.contains(text.as_str())).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    check_backups(&home);
}

/// What stands there under a backup's name is a whole one, whatever broke off.
fn check_backups(home: &Home) {
    let mut last = BTreeMap::new();
    for entry in std::fs::read_dir(home.path("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let of = name.strip_prefix("backup-").and_then(|name| name.split_once('-'));
        let number = |text: &str| text.parse::<usize>().ok();
        // One that was broken off has another name.
        if let Some((Some(life), Some(n))) = of.map(|(life, n)| (number(life), number(n))) {
            let newest = last.entry(life).or_insert(n);
            *newest = n.max(*newest);
        }
    }
    assert!(!last.is_empty(), "no life was long enough for a backup");
    for (life, n) in last {
        home.cairn(&["store", "restore", &format!("backup-{life}-{n}"), "--force"]).ended(0);
    }
    home.cairn(&["store", "verify"]).ended(0);
}
