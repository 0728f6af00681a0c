//! Calls that wait for a person's yes: asked, answered, left behind.

use std::sync::Arc;
use std::time::Duration;

use cairn_types::event::{Event, TurnEvent};
use cairn_types::ids::ChannelId;
use cairn_types::ports::{Answer, Progress, Tool};
use cairn_types::tool::approval::ApprovalOutcome;
use cairn_types::tool::defs::ToolDef;
use cairn_types::tool::{ToolFailure, ToolOutcome, ToolOutput};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::common::model::{Kind, Plan};
use super::common::*;
use crate::{ApprovalError, ApprovalTarget, Approver};

/// Changes something: it keeps what it was called with.
#[derive(Default)]
struct Changing(Mutex<Vec<Value>>);

impl Tool for Changing {
    fn def(&self) -> ToolDef {
        ToolDef {
            name: "change".to_owned(),
            description: "for tests".to_owned(),
            parameters: json!({ "type": "object" }),
        }
    }

    fn call(
        &self,
        _channel: ChannelId,
        arguments: Value,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        self.0.lock().push(arguments);
        Box::pin(std::future::ready(Ok(ToolOutput::text("changed"))))
    }
}

fn world() -> (World, Arc<Changing>) {
    let tool = Arc::new(Changing::default());
    (World::new().with_more_tools(vec![Arc::clone(&tool) as Arc<dyn Tool>]), tool)
}

fn outcomes(world: &World) -> Vec<ToolOutcome> {
    let used = |event: &Event| match event {
        Event::Turn(TurnEvent::ToolUsed(used)) => Some(used.outcome),
        _ => None,
    };
    world.store.events().iter().filter_map(used).collect()
}

#[tokio::test(start_paused = true)]
async fn two_calls_are_asked_for_at_once_and_each_gets_its_own_answer() {
    let (world, tool) = world();
    let live = world.start().await;
    let calls = vec![("change", json!({ "n": 1 })), ("change", json!({ "n": 2 }))];
    world.model.plan(Kind::Reply, Plan::Calls(calls));
    let mut progress = live.say("a", "do it").await.progress;
    let mut asked = Vec::new();
    while asked.len() < 2 {
        if let Some(Progress::Approval(approval)) = progress.next().await {
            asked.push(approval);
        }
    }
    assert!(tool.0.lock().is_empty());
    let channel = live.runtime.approvals()[0].0.clone();
    let only = live.runtime.decide(ApprovalTarget::OnlyOf(channel), true, Approver::Socket).await;
    assert!(matches!(only, Err(ApprovalError::Several(ids)) if ids.len() == 2));
    let stranger = Approver::Person("telegram/8".to_owned());
    let refused = live.runtime.decide(ApprovalTarget::Id(asked[0].id.clone()), true, stranger).await;
    assert_eq!(refused, Err(ApprovalError::NotAllowed));
    let no =
        live.runtime.decide(ApprovalTarget::Id(asked[0].id.clone()), false, Approver::Socket).await.unwrap();
    assert_eq!(no.outcome, ApprovalOutcome::Denied);
    let yes =
        live.runtime.decide(ApprovalTarget::Id(asked[1].id.clone()), true, Approver::Socket).await.unwrap();
    assert_eq!(yes.approval.arguments, json!({ "n": 2 }));
    let twice = live.runtime.decide(ApprovalTarget::Id(asked[1].id.clone()), true, Approver::Socket).await;
    assert_eq!(twice, Err(ApprovalError::Nothing));
    progress.collect::<Vec<_>>().await;
    assert_eq!(*tool.0.lock(), [json!({ "n": 2 })]);
    let mut ended = outcomes(&world);
    ended.sort_by_key(|outcome| outcome.name());
    assert_eq!(ended, [ToolOutcome::Denied, ToolOutcome::Done]);
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_nothing_is_done_and_the_turn_goes_on() {
    let (world, tool) = world();
    let live = world.start().await;
    world.model.plan(Kind::Reply, Plan::Calls(vec![("change", json!({}))]));
    let progress: Vec<_> = live.say("a", "do it").await.progress.collect().await;
    assert!(matches!(progress.last(), Some(Progress::Ended(_))));
    assert!(tool.0.lock().is_empty());
    assert_eq!(outcomes(&world), [ToolOutcome::Expired]);
    assert!(live.runtime.approvals().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_crash_makes_a_request_void_and_the_call_is_not_made_after_it() {
    let (world, tool) = world();
    let live = world.start().await;
    world.model.plan(Kind::Reply, Plan::Calls(vec![("change", json!({}))]));
    let mut progress = live.say("a", "do it").await.progress;
    while !matches!(progress.next().await, Some(Progress::Approval(_))) {}
    let id = live.runtime.approvals()[0].1.id.clone();
    let again = world.killed();
    drop(live);
    let live = again.start().await;
    again.store.until(1, is_turn_ended).await;
    assert_eq!(
        live.runtime.decide(ApprovalTarget::Id(id), true, Approver::Socket).await,
        Err(ApprovalError::Nothing)
    );
    assert!(tool.0.lock().is_empty());
    assert_eq!(outcomes(&again), [ToolOutcome::Stopped]);
}

#[tokio::test(start_paused = true)]
async fn an_approval_stops_the_clock_of_its_turn_and_gives_it_no_more_time() {
    let (mut world, _tool) = world();
    world.limits.turn_timeout = Duration::from_secs(100);
    let live = world.start().await;
    let gate = world.model.hold(Kind::Reply);
    world.model.plan(Kind::Reply, Plan::Calls(vec![("change", json!({}))]));
    let mut progress = live.say("a", "do it").await.progress;
    tokio::time::sleep(Duration::from_secs(60)).await;
    gate.add_permits(1);
    let approval = loop {
        if let Some(Progress::Approval(approval)) = progress.next().await {
            break approval;
        }
    };
    tokio::time::sleep(Duration::from_secs(200)).await;
    live.runtime.decide(ApprovalTarget::Id(approval.id), true, Approver::Socket).await.unwrap();
    let since = Instant::now();
    let told = progress.collect::<Vec<_>>().await;
    assert!(
        matches!(told.last(), Some(Progress::Ended(Answer::Failed(failure))) if failure.message.contains("100 s"))
    );
    assert_eq!(since.elapsed().as_secs(), 40, "it had used 60 of 100");
}
