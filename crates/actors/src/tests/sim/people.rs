//! What people, operators and the world do in a schedule, as the seed decides.

use std::sync::Arc;
use std::time::Duration;

use cairn_types::command::Command;
use cairn_types::ids::{ChannelId, MessageId};
use cairn_types::message::{Amendment, Author, Change, Gather, Inbound, Part};
use cairn_types::ports::{Admission, Intake as _, Progress, Refusal};
use futures::StreamExt as _;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::chance::{at_each_poll, of, per_mille};
use super::net::NET;
use super::scene::Scene;
use super::{Sim, words};
use crate::{ApprovalTarget, Approver, Runtime};

pub(super) const APPROVER: &str = "net/ann";

/// By then an answer is there, where nothing but a compaction takes time.
const PROMPT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
struct Written {
    channel: ChannelId,
    id: MessageId,
    author: &'static str,
    text: String,
    addressed: bool,
}

/// Stands in whatever a message says, before and after an edit, and in nothing else that is said.
pub(super) fn mark(message: &MessageId) -> String {
    format!("{message};")
}

/// What was written so far.
#[derive(Default)]
pub(super) struct Letters(Mutex<Vec<Written>>);

impl Letters {
    /// Somebody writes something new.
    fn write(&self, channel: &ChannelId) -> Written {
        let mut all = self.0.lock();
        let n = match fastrand::u8(..50) {
            0 => 2_000,
            1..5 => 300,
            _ => fastrand::usize(2..40),
        };
        let id = MessageId::from(format!("m{:03}", all.len()));
        let written = Written {
            channel: channel.clone(),
            author: of::<&str>(&["ann", "ben"]),
            text: format!("{} {}", mark(&id), words(n)),
            id,
            addressed: channel.platform() != NET || per_mille(850),
        };
        all.push(written.clone());
        written
    }

    fn some(&self) -> Option<Written> {
        let all = self.0.lock();
        (!all.is_empty()).then(|| of(&all).clone())
    }
}

impl Written {
    fn author(&self) -> Author {
        let platform = self.channel.platform();
        Author { id: format!("{platform}/{}", self.author), name: self.author.to_owned() }
    }

    /// Half of what is written may go on in another message, or is part of an album.
    fn gather(&self) -> Gather {
        let n = self.text.len();
        let wait = Duration::from_millis(if n.is_multiple_of(2) { 0 } else { 1_500 });
        Gather { wait, album: n.is_multiple_of(5).then(|| "album".to_owned()), more: n.is_multiple_of(10) }
    }

    fn inbound(&self) -> Inbound {
        Inbound {
            channel: self.channel.clone(),
            message: self.id.clone(),
            author: self.author(),
            at: Timestamp::from_second(1_767_225_600).unwrap(),
            parts: vec![Part::text(&self.text)],
            addressed: self.addressed,
            direct: false,
            chat_name: None,
            language: None,
            reply_to: None,
            provenance: cairn_types::message::Provenance::default(),
            spoken: false,
            recordings: Vec::new(),
            gather: self.gather(),
        }
    }
}

/// Does it beside the script; whoever waits may wait for long.
fn beside(work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(at_each_poll(work));
}

impl Sim {
    /// The next thing that somebody does.
    pub(super) async fn act(&self, runtime: &Runtime) {
        let channel = of(&self.channels).clone();
        match fastrand::u32(..100) {
            0..45 => self.hand_in(runtime, self.letters.write(&channel)),
            45..53 => {
                if let Some(written) = self.letters.some() {
                    self.hand_in(runtime, written);
                }
            }
            53..58 => self.amend(runtime),
            58..70 => self.command(runtime, channel),
            70..76 => self.decide(runtime),
            76..79 => self.mend_delivery(runtime, channel),
            79..82 => self.jump(),
            82..88 => self.break_something(),
            88..89 => {
                self.scene.note(|| "the router is killed".to_owned());
                runtime.shared().directory.kill_router();
            }
            89..90 => {
                self.scene.note(|| "the outbox is killed".to_owned());
                runtime.shared().directory.kill_outbox();
            }
            90..92 => {
                self.scene.note(|| "a reload".to_owned());
                runtime.set_agents(vec![self.agent(*of(&[0.5, 0.8]))]);
            }
            _ => {}
        }
        let pause = match fastrand::u8(..40) {
            0 => Duration::from_secs(fastrand::u64(..4_000)),
            1..6 => Duration::from_secs(fastrand::u64(..20)),
            6..30 => Duration::from_millis(fastrand::u64(..60)),
            _ => return tokio::task::yield_now().await,
        };
        tokio::time::sleep(pause).await;
    }

    fn hand_in(&self, runtime: &Runtime, written: Written) {
        let (scene, runtime) = (Arc::clone(&self.scene), runtime.clone());
        beside(async move {
            let id = &written.id;
            scene.step(|| format!("{id} is handed in to {}", written.channel)).await;
            match runtime.submit(written.inbound()).await {
                Ok(admission) => {
                    scene.note(|| format!("{id} is acknowledged"));
                    scene.checks.lock().acknowledged(&scene, &written.channel, id);
                    wait(&scene, &written, admission).await;
                }
                Err(Refusal::Decided { .. }) => scene.note(|| format!("{id} is an answer")),
                Err(refusal) => scene.note(|| format!("{id} is refused: {refusal}")),
            }
        });
    }

    fn amend(&self, runtime: &Runtime) {
        let Some(written) = self.letters.some().filter(|written| written.channel.platform() == NET) else {
            return;
        };
        let change = if fastrand::bool() {
            Change::Deleted
        } else {
            let parts = vec![Part::text(format!("rather {} {}", mark(&written.id), words(6)))];
            Change::Edited { author: written.author(), parts, addressed: fastrand::bool() }
        };
        let (scene, runtime) = (Arc::clone(&self.scene), runtime.clone());
        beside(async move {
            let kind = if change == Change::Deleted { "deleted" } else { "edited" };
            scene.step(|| format!("{} is {kind}", written.id)).await;
            let (channel, message) = (written.channel, written.id);
            scene.checks.lock().amended(&channel, &message);
            let (at, known) = (scene_time(&scene), (channel.clone(), message.clone()));
            let done = runtime.amend(Amendment { channel, message, at, change }).await;
            if kind == "deleted" && done.is_ok() {
                scene.checks.lock().is_gone(known);
            }
            scene.note(|| format!("{kind}: {done:?}"));
        });
    }

    fn command(&self, runtime: &Runtime, channel: ChannelId) {
        let (scene, runtime) = (Arc::clone(&self.scene), runtime.clone());
        let command = match fastrand::u8(..8) {
            0 | 1 => Command::New,
            2 | 3 => Command::Stop,
            4 => Command::Undo,
            _ => Command::Compact { instruction: fastrand::bool().then(|| "names".to_owned()) },
        };
        let n = fastrand::u32(..30);
        beside(async move {
            let name = command.name();
            scene.step(|| format!("/{name} in {channel}")).await;
            if channel.platform() == NET {
                let caller = Author { id: APPROVER.to_owned(), name: "ann".to_owned() };
                let id = MessageId::from(format!("c{n}"));
                match runtime.claim(channel.clone(), id, command.clone(), caller).await {
                    Ok(true) => {}
                    Ok(false) | Err(_) => return,
                }
            }
            let done = match command {
                Command::New => runtime.new_generation(&channel).await.map(drop),
                Command::Stop => runtime.stop_turn(&channel).await.map(drop),
                Command::Undo => runtime.undo(&channel).await.map(drop),
                Command::Compact { instruction } => {
                    match runtime.compact(&channel, instruction, true).await {
                        Ok(compaction) => {
                            if let Some(ticket) = compaction.run() {
                                drop(ticket.ended.await);
                            }
                            Ok(())
                        }
                        Err(error) => Err(error),
                    }
                }
                _ => Ok(()),
            };
            scene.note(|| format!("/{name}: {done:?}"));
        });
    }

    fn decide(&self, runtime: &Runtime) {
        let open = runtime.approvals();
        if open.is_empty() {
            return;
        }
        let id = of(&open).1.id.clone();
        let granted = per_mille(700);
        let by = if fastrand::bool() { Approver::Socket } else { Approver::Person(APPROVER.to_owned()) };
        let (scene, runtime) = (Arc::clone(&self.scene), runtime.clone());
        beside(async move {
            scene.step(|| format!("{id} is answered: {granted}")).await;
            let decided = runtime.decide(ApprovalTarget::Id(id), granted, by).await;
            scene.note(|| format!("decided: {}", decided.is_ok()));
        });
    }

    /// An operator has a delivery tried again, or gives it up.
    fn mend_delivery(&self, runtime: &Runtime, channel: ChannelId) {
        let known = self.scene.checks.lock().undelivered(&channel);
        if known.is_empty() {
            return;
        }
        let (id, again) = (of(&known).clone(), per_mille(800));
        let (scene, runtime) = (Arc::clone(&self.scene), runtime.clone());
        beside(async move {
            scene.step(|| format!("{id} is to be mended: {again}")).await;
            let done = match again {
                true => runtime.retry_delivery(&channel, &id).await,
                false => runtime.drop_delivery(&channel, &id).await,
            };
            scene.note(|| format!("mended: {}", done.is_ok()));
        });
    }

    fn jump(&self) {
        let seconds = *of(&[3_600, 86_400, 31_536_000]) * *of(&[1, -1]);
        self.scene.note(|| format!("the clock jumps by {seconds} s"));
        self.scene.jump(seconds);
    }

    fn break_something(&self) {
        if self.scene.mood.lazy_runs {
            return;
        }
        let until = self.scene.passed() + Duration::from_secs(fastrand::u64(1..120));
        let mut outages = self.scene.outages.lock();
        let (what, outage) = match fastrand::u8(..4) {
            0 => ("the disk", &mut outages.disk),
            1 => ("the views", &mut outages.views),
            2 => ("the model", &mut outages.model),
            _ => ("the network", &mut outages.net),
        };
        *outage = until;
        drop(outages);
        self.scene.note(|| format!("{what} is out until {} ms", until.as_millis()));
    }
}

fn scene_time(scene: &Scene) -> Timestamp {
    cairn_types::ports::Clock::now(scene)
}

async fn wait(scene: &Arc<Scene>, written: &Written, admission: Admission) {
    let since = scene.passed();
    scene.checks.lock().waits(&written.channel, &written.id);
    let mut progress = admission.progress;
    while let Some(news) = progress.next().await {
        let Progress::Ended(answer) = news else { continue };
        scene.note(|| format!("{} is answered", written.id));
        scene.checks.lock().answered(scene, &written.channel, &answer);
        let took = scene.passed().saturating_sub(since);
        let is_owed = written.addressed && !scene.checks.lock().is_amended(&written.channel, &written.id);
        scene.check(!scene.mood.lazy_runs || took < PROMPT || !is_owed, || {
            format!("a reply does not wait for a compaction: {} took {took:?}", written.id)
        });
    }
    scene.checks.lock().waits_no_more(&written.channel, &written.id);
}
