//! Reminders: what fires when, and where. They are set and cancelled here.

use axum::Form;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{channel_link, path, seen_again};
use crate::pieces::{command, said, text, time};
use crate::visitor::Visitor;
use cairn_api::records::{ReminderRecord, ReminderRequest};
use cairn_server::api::{Body, Channel, Params, ReminderParams, Shared, reminders};

const HERE: &str = "/reminders";

/// `GET /reminders`.
pub(super) async fn view(State(admin): State<Shared>, visitor: Visitor) -> Result<Markup, PageError> {
    let axum::Json(items) = reminders::list(State(admin), Params(ReminderParams::default())).await?;
    let body = html! {
        p.note { "Each reminder fires in its channel, as a turn of the agent. Schedules are set in the configuration." }
        @if items.is_empty() { p { "There are no reminders." } }
        @for item in &items { (reminder(item, visitor)) }
        @if visitor.may_operate() { (add_form()) }
    };
    let command = command(&["reminder", "list"]);
    Ok(layout(&Frame { title: "Reminders", section: Section::Reminders, visitor, command }, &body))
}

fn reminder(ReminderRecord { channel, reminder }: &ReminderRecord, visitor: Visitor) -> Markup {
    let id = reminder.id.as_str();
    html! {
        article.item aria-label={ "Reminder " (text(id)) } {
            h2 { (time(reminder.due)) " in " (channel_link(channel)) }
            p.note {
                code { (text(id)) } " · set by " (text(&reminder.by.id)) " at " (time(reminder.set_at))
                @if let Some(rule) = &reminder.rule { " · every " code { (text(rule)) } " (" (text(&reminder.zone)) ")" }
            }
            (said(&reminder.text))
            @if visitor.may_operate() && !reminder.id.is_schedule() {
                div.actions {
                    form method="post" action=(path(&["reminders", channel.as_str(), id, "cancel"])) {
                        button.grave { "Cancel" }
                    }
                }
            }
        }
    }
}

fn add_form() -> Markup {
    html! {
        h2 { "Set a reminder" }
        form.filter method="post" action=(HERE) {
            p { label for="channel" { "Channel" } input #channel name="channel" required; }
            p { label for="words" { "Time and text" } input #words name="words" required placeholder="tomorrow 9:00 water the plants"; }
            p { button { "Set" } }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct AddForm {
    channel: String,
    words: String,
}

/// `POST /reminders`.
pub(super) async fn add(
    State(admin): State<Shared>,
    Form(AddForm { channel, words }): Form<AddForm>,
) -> Result<Response, PageError> {
    let channel = Channel(admin.resolve(channel.trim())?, ());
    let _set = reminders::add(State(admin), channel, Body(ReminderRequest { words })).await?;
    Ok(seen_again(HERE))
}

/// `POST /reminders/{channel}/{id}/cancel`.
pub(super) async fn cancel(admin: State<Shared>, of: Channel<String>) -> Result<Response, PageError> {
    let _cancelled = reminders::cancel(admin, of).await?;
    Ok(seen_again(HERE))
}
