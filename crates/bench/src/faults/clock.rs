//! A clock that jumps, forward and back, while the daemon works and between two runs of it: nothing stands still, nothing is
//! lost, nothing is answered twice.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use cairn_testkit::daemon::PATIENCE;
use cairn_testkit::random::Random;

use super::scene::Scene;
use super::{Case, Outcome, require};

pub(super) const PLACES: [&str; 2] = ["running", "between"];

const HOUR: i64 = 3_600;

/// What goes by the clock is on: limits, retention, expiry.
const CONFIG: &str =
    "[store]\nsegment_mib = 1\n\n[retention]\ncompress_days = 30\njournal_days = 60\nmemory_days = 90\n";

pub(super) async fn run(case: &Case<'_>, place: &str, seed: u64) -> io::Result<Outcome> {
    let mut random = Random::new(seed);
    let scene = Scene::set(case, CONFIG).await?;
    let mut daemon = case.daemon().await?;
    let mut offset = 0;
    for _ in 0..3 {
        let size = [HOUR, 24 * HOUR, 365 * 24 * HOUR][random.below(3) as usize];
        offset += if random.below(2) == 0 { size } else { -size };
        scene.talk(&daemon.client(), 2).await;
        if place == "between" {
            case.stop(daemon).await?;
            case.disk.set_clock(offset)?;
            daemon = case.daemon().await?;
        } else {
            // In the middle of the talk.
            let client = daemon.client();
            let jump = async {
                tokio::time::sleep(Duration::from_millis(100 + random.below(400))).await;
                case.disk.set_clock(offset)
            };
            let (jumped, ()) = tokio::join!(jump, scene.talk(&client, 2));
            jumped?;
        }
        let asked = daemon.client();
        let body = json!({ "user": "ben", "text": "and now?" });
        let path = "/v1/channels/other/messages";
        let answered = timeout(PATIENCE, asked.ask("POST", path, &body)).await;
        let (status, told) =
            answered.map_err(|_late| io::Error::other(format!("frozen at {offset} s")))??;
        require(status.is_success(), || format!("at {offset} s: {status}: {told}"))?;
        let health = asked.get("/v1/health").await?;
        require(health["status"] == "ok", || format!("at {offset} s: {health}"))?;
    }
    scene.end(case, daemon).await.map_err(|error| io::Error::other(format!("at {offset} s: {error}")))?;
    Ok(Outcome::Harmless)
}
