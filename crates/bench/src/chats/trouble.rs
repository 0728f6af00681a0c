//! What goes wrong while people talk: one thing after another, always in the same order.

use std::time::Duration;

use super::scene::{Scene, Spot};
use cairn_testkit::discord::{self, Route};
use cairn_testkit::telegram;

const PAUSE: Duration = Duration::from_millis(400);

pub(super) const KINDS: usize = 20;

/// Makes the trouble of that number; the place is where people are about to talk.
pub(super) async fn make(scene: &Scene, n: usize, place: usize) {
    let (discord, telegram) = (&scene.discord, &scene.telegram);
    match n % KINDS {
        0 => discord.disconnect(),
        1 => telegram.fail_next("getUpdates", telegram::Fault::internal()),
        2 => discord.rate_limit(Route::Send, PAUSE),
        3 => telegram.fail_next("sendMessage", telegram::Fault::internal()),
        4 => discord.fail_next(Route::Send, discord::Fault::Status(500)),
        5 => flood(scene, place),
        6 => discord.ask_reconnect(),
        7 => telegram.fail_next("getUpdates", telegram::Fault::CloseAfter),
        8 => discord.fail_next(Route::Send, discord::Fault::LostAnswer),
        9 => telegram.fail_next("sendMessage", telegram::Fault::CloseAfter),
        10 => discord.invalid_session(false),
        11 => telegram.fail_next("getUpdates", telegram::Fault::Html),
        12 => discord.fail_next(Route::Send, discord::Fault::Nothing),
        13 => telegram.fail_next("sendMessage", telegram::Fault::CloseBefore),
        14 => discord.close(4000),
        15 => {
            telegram.go_down();
            tokio::time::sleep(PAUSE).await;
            telegram.come_back().await;
        }
        16 => discord.rate_limit_globally(PAUSE),
        17 => telegram.fail_next("sendMessage", telegram::Fault::Html),
        18 => discord.fail_next(Route::Send, discord::Fault::Html(502)),
        _ => {
            discord.forget_sessions();
            discord.disconnect();
        }
    }
}

fn flood(scene: &Scene, place: usize) {
    if let Spot::Telegram { chat, .. } = scene.places[place].spot {
        scene.telegram.rate_limit(chat, 1);
    } else {
        scene.telegram.fail_next("sendMessage", telegram::Fault::flood(1));
    }
}
