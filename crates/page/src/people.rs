//! People and groups: who waits for approval, who is let in, who is banned or private.

use axum::Form;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::seen_again;
use crate::pieces::{command, table, text, time};
use crate::visitor::Visitor;
use cairn_api::records::{BanRecord, BanRequest, PairingRecord, PrivateRecord, PrivateRequest};
use cairn_api::text::one_line;
use cairn_server::api::{Body, Segment, Shared, people};
use cairn_types::people::pairing::is_group;

const HERE: &str = "/people";

/// `GET /people`.
pub(super) async fn view(State(admin): State<Shared>, visitor: Visitor) -> Result<Markup, PageError> {
    let pairings = people::list(State(Shared::clone(&admin))).await.0;
    let private = people::private(State(Shared::clone(&admin))).await.0;
    let bans = people::bans(State(admin)).await.0;
    let of = |state: &str| pairings.iter().filter(|one| one.state == state).collect::<Vec<_>>();
    let body = html! {
        section aria-labelledby="waiting" {
            h2 #waiting { "Waiting for approval" }
            @let waiting = of("waiting");
            @if waiting.is_empty() { p { "Nobody is waiting." } }
            @for one in waiting { (request(one, visitor)) }
        }
        (known("let-in", "Let in", &of("paired"), visitor))
        (known("revoked", "Revoked or refused", &of("revoked"), visitor))
        section aria-labelledby="banned" {
            h2 #banned { "Banned" }
            p.note { "Banned people are ignored everywhere, even if allow-listed. Their earlier messages stay in the history." }
            @if bans.is_empty() { p { "Nobody is banned." } } @else { (banned(&bans, visitor)) }
            @if visitor.may_operate() { (ban_form()) }
        }
        section aria-labelledby="private" {
            h2 #private { "Private" }
            p.note { "No memories are saved from private people and chats. Their messages stay in the history." }
            @if private.is_empty() { p { "Nobody is private." } } @else { (private_ones(&private, visitor)) }
            @if visitor.may_operate() { (private_form()) }
        }
    };
    let frame =
        Frame { title: "People", section: Section::People, visitor, command: command(&["pair", "list"]) };
    Ok(layout(&frame, &body))
}

/// A button that sends one value.
fn button(
    visitor: Visitor,
    what: &str,
    name: &str,
    value: &str,
    label: &str,
    whom: &str,
    grave: bool,
) -> Markup {
    html! {
        @if visitor.may_operate() {
            form method="post" action={ (HERE) "/" (what) } {
                input type="hidden" name=(name) value=(value);
                button.grave[grave] { (label) span.unseen { " " (one_line(whom)) } }
            }
        }
    }
}

fn request(one: &PairingRecord, visitor: Visitor) -> Markup {
    html! {
        article.item aria-label={ "Request of " (text(&one.name)) } {
            h3 { (one_line(&one.name)) @if is_group(&one.user) { " (group)" } }
            p.note { code { (text(&one.user)) } " · code " code { (text(&one.code)) } " · asked at " (time(one.asked_at)) }
            div.actions {
                (button(visitor, "approve", "code", &one.code, "Approve", &one.name, false))
                (button(visitor, "revoke", "user", &one.user, "Refuse", &one.name, true))
            }
        }
    }
}

fn known(id: &str, heading: &str, known: &[&PairingRecord], visitor: Visitor) -> Markup {
    let row = |one: &&PairingRecord| {
        let act = match one.state.as_str() {
            "paired" => button(visitor, "revoke", "user", &one.user, "Revoke", &one.name, true),
            _ => button(visitor, "approve", "code", &one.user, "Approve", &one.name, false),
        };
        vec![
            text(one_line(&one.name)),
            text(if is_group(&one.user) { "group" } else { "person" }),
            html! { code { (text(&one.user)) } },
            time(one.approved_at.unwrap_or(one.asked_at)),
            act,
        ]
    };
    let rows: Vec<_> = known.iter().map(row).collect();
    let columns = [("name", ""), ("kind", ""), ("id", ""), ("since", ""), ("action", "")];
    html! {
        @if !rows.is_empty() {
            section aria-labelledby=(id) { h2 id=(id) { (heading) } (table(heading, &columns, &rows)) }
        }
    }
}

fn banned(bans: &[BanRecord], visitor: Visitor) -> Markup {
    let row = |ban: &BanRecord| {
        vec![
            html! { code { (text(&ban.user)) } },
            time(ban.since),
            ban.until.map_or_else(|| text("lifted manually"), time),
            text(&ban.by),
            text(ban.reason.as_deref().unwrap_or("-")),
            button(visitor, "unban", "user", &ban.user, "Lift", &ban.user, false),
        ]
    };
    let rows: Vec<_> = bans.iter().map(row).collect();
    let columns = [("id", ""), ("since", ""), ("until", ""), ("by", ""), ("reason", ""), ("action", "")];
    table("Bans", &columns, &rows)
}

fn private_ones(private: &[PrivateRecord], visitor: Visitor) -> Markup {
    let row = |one: &PrivateRecord| {
        let (kind, name) = if one.is_chat { ("chat", "chat") } else { ("person", "user") };
        vec![
            text(kind),
            html! { code { (text(&one.who)) } },
            time(one.since),
            button(visitor, "private", name, &one.who, "End", &one.who, false),
        ]
    };
    let rows: Vec<_> = private.iter().map(row).collect();
    table("Private", &[("kind", ""), ("id", ""), ("since", ""), ("action", "")], &rows)
}

fn private_form() -> Markup {
    html! {
        h3 { "Make somebody private" }
        form.filter method="post" action={ (HERE) "/private" } {
            input type="hidden" name="on" value="true";
            p { label for="private-user" { "Person" } input #private-user name="user" placeholder="telegram/123456789"; }
            p { label for="private-chat" { "or chat" } input #private-chat name="chat" placeholder="telegram/-1001234"; }
            p { button { "Make private" } }
        }
    }
}

fn ban_form() -> Markup {
    html! {
        h3 { "Ban somebody" }
        form.filter method="post" action={ (HERE) "/ban" } {
            p { label for="user" { "Person" } input #user name="user" required placeholder="telegram/123456789"; }
            p { label for="lasts" { "For" } input #lasts name="lasts" placeholder="until lifted; 3d, 12h"; }
            p { label for="reason" { "Reason" } input #reason name="reason"; }
            p { button.grave { "Ban" } }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct CodeForm {
    code: String,
}

#[derive(Deserialize)]
pub(super) struct UserForm {
    user: String,
}

#[derive(Deserialize)]
pub(super) struct BanForm {
    user: String,
    #[serde(default)]
    lasts: String,
    #[serde(default)]
    reason: String,
}

/// `POST /people/approve`.
pub(super) async fn approve(
    admin: State<Shared>,
    Form(CodeForm { code }): Form<CodeForm>,
) -> Result<Response, PageError> {
    let _approved = people::approve(admin, Segment(code)).await?;
    Ok(seen_again(HERE))
}

/// `POST /people/revoke`.
pub(super) async fn revoke(
    admin: State<Shared>,
    Form(UserForm { user }): Form<UserForm>,
) -> Result<Response, PageError> {
    let _revoked = people::revoke(admin, Segment(user)).await?;
    Ok(seen_again(HERE))
}

/// `POST /people/ban`.
pub(super) async fn ban(
    admin: State<Shared>,
    Form(BanForm { user, lasts, reason }): Form<BanForm>,
) -> Result<Response, PageError> {
    let given = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let request = BanRequest { user: user.trim().to_owned(), lasts: given(lasts), reason: given(reason) };
    let _banned = people::ban(admin, Body(request)).await?;
    Ok(seen_again(HERE))
}

#[derive(Deserialize)]
pub(super) struct PrivateForm {
    #[serde(default)]
    user: String,
    #[serde(default)]
    chat: String,
    #[serde(default)]
    on: bool,
}

/// `POST /people/private`: sets it, or ends it.
pub(super) async fn private(
    admin: State<Shared>,
    Form(PrivateForm { user, chat, on }): Form<PrivateForm>,
) -> Result<Response, PageError> {
    let given = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let request = PrivateRequest { user: given(user), chat: given(chat), on };
    let _private = people::set_private(admin, Body(request)).await?;
    Ok(seen_again(HERE))
}

/// `POST /people/unban`.
pub(super) async fn unban(
    admin: State<Shared>,
    Form(UserForm { user }): Form<UserForm>,
) -> Result<Response, PageError> {
    let _lifted = people::unban(admin, Segment(user)).await?;
    Ok(seen_again(HERE))
}
