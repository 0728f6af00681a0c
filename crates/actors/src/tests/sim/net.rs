//! A chat network that is busy, refuses, loses its connection with a message under way, and guards against doubles and shows
//! what was sent, or neither.

use std::sync::Arc;
use std::time::Duration;

use cairn_types::ids::{ChannelId, MessageId};
use cairn_types::ports::{LinkState, Platform, PlatformStatus, PlatformTraits, SendError, SendPart};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

use super::chance::of;
use super::scene::Scene;

pub(super) const NET: &str = "net";

pub(super) struct SimNet(pub(super) Arc<Scene>);

impl SimNet {
    fn is_faulty(&self) -> bool {
        self.0.is_out(|outages| outages.net) || self.0.faulty(self.0.mood.net_faults)
    }
}

fn later() -> SendError {
    let after = *of(&[None, Some(Duration::from_secs(1)), Some(Duration::from_secs(90))]);
    SendError::Later { after, reason: "busy".to_owned() }
}

impl Platform for SimNet {
    fn name(&self) -> &'static str {
        NET
    }

    fn traits(&self) -> PlatformTraits {
        PlatformTraits {
            typing_every: Duration::from_secs(4),
            repeat_within: self.0.mood.guards.then(|| SignedDuration::from_secs(300)),
            draft_every: self.0.mood.drafts.then(|| Duration::from_millis(5)),
            marks: false,
        }
    }

    fn split(&self, words: &str) -> Vec<String> {
        let words: Vec<char> = words.trim().chars().collect();
        words.chunks(400).map(|part| part.iter().collect()).collect()
    }

    fn send(&self, part: SendPart) -> BoxFuture<'_, Result<MessageId, SendError>> {
        Box::pin(async move {
            let scene = &self.0;
            let (id, n) = (part.delivery.clone(), part.part);
            scene.checks.lock().is_sent(scene, &part);
            scene.step(|| format!("send {id} {n}")).await;
            if !self.is_faulty() {
                let message = scene.checks.lock().arrived(scene, &part);
                scene.step(|| format!("sent {id} {n}")).await;
                return Ok(message);
            }
            let error = match fastrand::u8(..6) {
                0 => SendError::Refused("kicked out".to_owned()),
                1 => SendError::Unknown("lost on its way".to_owned()),
                2 => {
                    scene.checks.lock().arrived(scene, &part);
                    SendError::Unknown("lost on its way back".to_owned())
                }
                3 => {
                    tokio::time::sleep(Duration::from_secs(40)).await;
                    later()
                }
                _ => later(),
            };
            scene.step(|| format!("not sent {id} {n}: {error:?}")).await;
            Err(error)
        })
    }

    fn find(
        &self,
        part: SendPart,
        _after: Option<MessageId>,
        _since: Timestamp,
    ) -> BoxFuture<'_, Result<Option<MessageId>, SendError>> {
        Box::pin(async move {
            let (id, n) = (part.delivery, part.part);
            self.0.step(|| format!("find {id} {n}")).await;
            if !self.0.mood.guards {
                return Err(SendError::Refused("it shows nothing".to_owned()));
            }
            if self.is_faulty() {
                return Err(if fastrand::bool() { later() } else { SendError::Unknown("lost".to_owned()) });
            }
            Ok(self.0.checks.lock().found(&id, n))
        })
    }

    fn edit(
        &self,
        channel: ChannelId,
        message: MessageId,
        _words: String,
    ) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(async move {
            self.0.step(|| format!("edit {channel} {message}")).await;
            match self.is_faulty() {
                false => Ok(()),
                true => Err(match fastrand::u8(..3) {
                    0 => SendError::Refused("no such message".to_owned()),
                    1 => SendError::Unknown("lost".to_owned()),
                    _ => later(),
                }),
            }
        })
    }

    fn typing(&self, _channel: ChannelId) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(async move {
            self.0.step(|| "typing".to_owned()).await;
            Ok(())
        })
    }

    fn status(&self) -> PlatformStatus {
        PlatformStatus {
            platform: NET.to_owned(),
            state: LinkState::Connected,
            name: None,
            reason: None,
            hint: None,
            connected_since: None,
            last_inbound: None,
            last_outbound: None,
            latency_ms: None,
            queue: 0,
            shards: None,
            troubles: Vec::new(),
            caught_up: None,
            invalid_requests: None,
        }
    }
}
