//! `kill -9` in the midst of reloads and backups: what was acknowledged is there, and the next start is as good as any.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cairn_testkit::daemon::{Client, Daemon, said_in};
use cairn_testkit::model::FakeModel;
use cairn_testkit::systemd::Systemd;
use serde_json::{Value, json};

use crate::service::rig::{CAIRN, cairn_on, config};

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
    let dir = tempfile::tempdir().unwrap();
    let model = FakeModel::builder().expect_stable_prefix(false).start().await;
    let lower = "[agents.compaction]\nbackground_threshold = 0.5\n";
    let texts = [config(&model, "", "", ""), config(&model, "", "", lower)];
    let (file, state) = (dir.path().join("config.toml"), dir.path().join("state"));
    let mut acknowledged = Vec::new();
    for life in 0..KILLS {
        std::fs::write(&file, &texts[life % 2]).unwrap();
        let systemd = Systemd::of(&state).unwrap();
        let daemon = Daemon::start_under(&systemd, &[], Path::new(CAIRN), &state, Some(&file)).await.unwrap();
        let client = daemon.client();
        let (told, mut heard) = tokio::sync::mpsc::channel(64);
        let talking = tokio::spawn(talk(client.clone(), life, told));
        let reloading = tokio::spawn(reload(client.clone(), file.clone(), texts.clone()));
        let backing_up = tokio::spawn(back_up(client, dir.path().to_owned(), life));
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
    std::fs::write(&file, &texts[0]).unwrap();
    let (code, verified, err) = cairn_on(dir.path(), &["store", "verify", "--json"]).await;
    assert_eq!(code, 0, "{verified}{err}");
    let (_, history, _) = cairn_on(dir.path(), &["history", "main", "--json", "--limit", "10000"]).await;
    let history: Value = serde_json::from_str(&history).unwrap();
    let said = said_in(&history);
    let once: BTreeSet<&str> = said.iter().copied().collect();
    assert_eq!(once.len(), said.len(), "something is there twice");
    let lost: Vec<_> = acknowledged.iter().filter(|text| !once.contains(text.as_str())).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    check_backups(dir.path()).await;
}

/// What stands there under a backup's name is a whole one, whatever broke off.
async fn check_backups(dir: &Path) {
    let mut last = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
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
        let path = dir.join(format!("backup-{life}-{n}"));
        let (code, _, err) =
            cairn_on(dir, &["store", "restore", path.to_str().unwrap(), "--force", "--json"]).await;
        assert_eq!(code, 0, "{path:?}: {err}");
    }
    assert_eq!(cairn_on(dir, &["store", "verify", "--json"]).await.0, 0);
}
