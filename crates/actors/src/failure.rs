//! Everything that can go wrong, with a hint what to do next: runtime errors, turn failures, notes to chats.

use std::collections::BTreeMap;

use cairn_core::conversation::FoldError;
use cairn_core::limits::Limited;
use cairn_core::settings::InstructionTooLong;
use cairn_core::window::AssembleError;
use cairn_types::ids::{AgentId, ChannelId, OutboxId};
use cairn_types::message::REFUSED;
use cairn_types::model::ModelError;
use cairn_types::ports::{Refusal, StoreError, TurnFailure};
use cairn_types::texts::{Key, Saying};
use ractor::ActorProcessingErr;

/// Why the runtime could not do what was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RuntimeError {
    #[error("no channel `{0}`; `cairn channels` lists them")]
    NoSuchChannel(ChannelId),
    #[error("no agent `{0}` is configured")]
    UnknownAgent(AgentId),
    #[error("no agent is configured")]
    NoAgent,
    #[error("no delivery `{0}` is pending; `cairn outbox list` shows what is")]
    NoSuchDelivery(OutboxId),
    /// There is no turn to take back.
    #[error("nothing to undo: {0}")]
    NothingToUndo(Saying),
    /// A reminder cannot be set or cancelled, for this reason.
    #[error("{0}")]
    Reminder(Saying),
    /// The instruction for a compaction is too long.
    #[error(transparent)]
    Instruction(#[from] InstructionTooLong),
    #[error("{0}")]
    Limited(Saying),
    #[error("the daemon is stopping")]
    Stopping,
    /// The channel's actor failed each time it was asked.
    #[error("channel `{0}` failed while it was asked; it is started again, try once more")]
    Interrupted(ChannelId),
    /// Nothing can be imported between a message and its answer.
    #[error("an answer is under way in channel `{0}`")]
    Answering(ChannelId),
    #[error("cannot start the {actor}: {message}")]
    Spawn { actor: &'static str, message: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a channel's actor cannot go on. It restarts from the store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelFault {
    /// A record does not fit the state.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// It is unknown whether the records were written.
    #[error("the journal failed in the middle of an append: {0}")]
    Journal(String),
}

/// The reason for refusing messages while the views are far behind the journal: it is unknown which messages are new.
pub(crate) const BEHIND: &str = "bringing its views up to the journal";

/// Turns a runtime error into a refusal of a message, an amendment or a command.
pub(crate) fn refusal(error: RuntimeError) -> Refusal {
    match error {
        RuntimeError::UnknownAgent(agent) => Refusal::UnknownAgent(agent),
        RuntimeError::Stopping => Refusal::Unavailable("stopping"),
        RuntimeError::Store(error) => refusal_of_store(error),
        RuntimeError::NoAgent
        | RuntimeError::NoSuchChannel(_)
        | RuntimeError::Interrupted(_)
        | RuntimeError::Spawn { .. }
        | RuntimeError::NoSuchDelivery(_)
        | RuntimeError::Limited(_)
        | RuntimeError::Instruction(_)
        | RuntimeError::Reminder(_)
        | RuntimeError::Answering(_)
        | RuntimeError::NothingToUndo(_) => Refusal::Unavailable("starting a channel again"),
    }
}

/// Turns a store error into a refusal. Views repair themselves from the journal, so a message that needs them only has to
/// be sent again.
pub(crate) fn refusal_of_store(error: StoreError) -> Refusal {
    match error {
        StoreError::View { .. } => {
            tracing::warn!(%error, "a message was refused and has to be sent again: the views are being repaired");
            Refusal::Unavailable(BEHIND)
        }
        error => Refusal::Store(error),
    }
}

fn failure(code: &str, message: impl Into<String>, hint: &str) -> TurnFailure {
    TurnFailure { code: code.to_owned(), message: message.into(), hint: hint.to_owned() }
}

/// The channel failed before the turn ended.
pub(crate) fn lost() -> TurnFailure {
    let hint = "nothing accepted is lost; ask again with the same id";
    failure("turn_failed", "the channel failed before the turn ended", hint)
}

/// The turn was answered, but the answer's text has expired.
pub(crate) fn expired() -> TurnFailure {
    let hint = "`cairn history` shows that there was one; ask again with another id";
    failure("turn_failed", "the answer to this message has expired", hint)
}

pub(crate) fn stopping() -> TurnFailure {
    let hint = "the message is kept and answered after the next start; ask again with the same id";
    failure("stopping", "the daemon stopped before the turn ended", hint)
}

pub(crate) fn stopped() -> TurnFailure {
    failure("stopped", "the turn was stopped by a command", "send the message again to have it answered")
}

/// A chat network delivered a message again whose turn had failed.
pub(crate) fn stored(code: &str, message: &str) -> TurnFailure {
    failure(code, message, "send it again as a message of its own")
}

/// A chat network delivered a message again with a different text.
pub(crate) fn repeated() -> TurnFailure {
    failure("repeated", "the message was taken in before", "its newer words were taken as an edit of it")
}

pub(crate) fn dead_letter() -> TurnFailure {
    let hint = "its words are in the history; send them again, under another id, if they are to be answered";
    failure("dead_letter", "the turn was given up after three unclean stops while it was open", hint)
}

pub(crate) fn of_model(model: &str, error: &ModelError) -> TurnFailure {
    let hint = match error {
        ModelError::Auth(_) => "set api_key_env or api_key_file of this model",
        ModelError::BadRequest { cause, .. } => cause.hint(),
        ModelError::RateLimited { .. } => "wait a little, or use a model with a higher limit",
        ModelError::Overloaded { .. } | ModelError::Failed(_) => {
            "the fault is on the server's side: see its own log or the provider's status page, then send the message again"
        }
        ModelError::Timeout(_) => {
            "check that the model's server runs, or raise first_timeout_secs of this model, then send the message again"
        }
        ModelError::Transport(_) => {
            "check that the model's server runs and that base_url leads to it, then send the message again"
        }
        ModelError::Broken(_) => "check that the model's server still runs, then send the message again",
        ModelError::NoTools(_) => "set tools = false for this model",
        ModelError::Declined | ModelError::Filtered => {
            "put the message another way, or add a model of another provider to the agent's chain"
        }
        ModelError::CutOff(_) => "raise max_output_tokens of this model, or lower its reasoning_effort",
        ModelError::ContextOverflow { .. } => "lower context_window to what the model really takes",
        ModelError::Protocol(_) => "send the message again; if it stays so, the server's own log may say why",
    };
    let code = match error {
        ModelError::CutOff(_) | ModelError::Declined | ModelError::Filtered => error.code(),
        ModelError::ContextOverflow { .. }
        | ModelError::NoTools(_)
        | ModelError::RateLimited { .. }
        | ModelError::Overloaded { .. }
        | ModelError::Failed(_)
        | ModelError::Auth(_)
        | ModelError::BadRequest { .. }
        | ModelError::Timeout(_)
        | ModelError::Transport(_)
        | ModelError::Broken(_)
        | ModelError::Protocol(_) => "turn_failed",
    };
    failure(code, format!("model `{model}`: {error}"), hint)
}

/// The failure of a chain. `model` failed last, with `error`; `errors` has the last error of each model.
pub(crate) fn of_models(
    model: &str,
    error: &ModelError,
    errors: &BTreeMap<String, ModelError>,
) -> TurnFailure {
    let of_last = of_model(model, error);
    if errors.len() < 2 {
        return of_last;
    }
    let all: Vec<_> = errors.iter().map(|(model, error)| format!("`{model}`: {error}")).collect();
    let message = format!("no model of the chain answered: {}", all.join("; "));
    failure(
        &of_last.code,
        message,
        "`cairn status` shows how each of them is; send the message again when one is well",
    )
}

/// The model's server refused the message both with and without the conversation.
pub(crate) fn refused(model: &str, error: &ModelError) -> TurnFailure {
    let hint = "put the message another way; it is left out of further requests, and the rest of the conversation goes on";
    let code = match error {
        ModelError::Declined | ModelError::Filtered => error.code(),
        _ => REFUSED,
    };
    failure(code, format!("model `{model}`: {error}"), hint)
}

/// The model found every request too large.
pub(crate) fn overflow(attempts: u32) -> TurnFailure {
    let times = if attempts == 1 { "once".to_owned() } else { format!("{attempts} times") };
    let message =
        format!("the model found the request too large {times}, although it was shortened each time");
    failure("compaction_failure", message, "lower context_window to what the model really takes")
}

pub(crate) fn no_room(error: &AssembleError) -> TurnFailure {
    failure("turn_failed", error.to_string(), "raise context_window or shorten the agent's prompt")
}

/// The store did not accept the turn's events.
pub(crate) fn of_store(error: &StoreError) -> TurnFailure {
    failure("turn_failed", error.to_string(), "send the message again when the store is well")
}

/// The model kept calling tools and never answered.
pub(crate) fn too_many_rounds(rounds: u32) -> TurnFailure {
    let message = format!("the model called tools {rounds} times without an answer");
    failure("turn_failed", message, "raise max_rounds of the agent, or ask for less at once")
}

/// The model kept calling tools that do not exist.
pub(crate) fn no_such_calls(answers: u32) -> TurnFailure {
    let message = format!("{answers} answers of the model in a row called nothing that can be called");
    let advice =
        "use a model that calls tools well, set tools = false for it, or have its server read its calls";
    failure("turn_failed", message, advice)
}

pub(crate) fn too_long(limit: std::time::Duration) -> TurnFailure {
    let message = format!("the turn took longer than {} s", limit.as_secs());
    failure("turn_failed", message, "send the message again; check that the model's server is well")
}

/// The day's money was spent before the first call of the turn.
pub(crate) fn no_money(limited: &Limited) -> TurnFailure {
    failure(
        "limited",
        limited.words.to_string(),
        "raise spend_per_day under [limits], or send it again tomorrow",
    )
}

/// Why an actor failed, for logs. A panic's message is left out, since it may quote what people wrote.
pub(crate) fn of_actor(error: &ActorProcessingErr) -> String {
    if error.is::<ChannelFault>() || error.is::<StoreError>() {
        error.to_string()
    } else {
        "it panicked".to_owned()
    }
}

pub(crate) fn panicked(message: &str) -> TurnFailure {
    let message = format!("the turn failed by a fault of the program: {message}");
    failure("turn_failed", message, "please report this; the conversation is intact")
}

/// The note to a chat whose turn ended without an answer.
pub(crate) fn note(code: &str) -> Key {
    match code {
        "compaction_failure" => Key::FailedTooLarge,
        REFUSED => Key::FailedRefused,
        "dead_letter" => Key::FailedDeadLetter,
        "refusal" => Key::FailedDeclined,
        "content_filter" => Key::FailedFiltered,
        "limited" => Key::FailedLimited,
        "cut_off" => Key::FailedCutOff,
        _ => Key::FailedOther,
    }
}
