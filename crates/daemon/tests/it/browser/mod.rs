//! The page in a real Chromium: every view with a long conversation in it, live, by keyboard, without scripts, and with words
//! in it that try to be more than words.

mod acts;
mod chromium;
mod scene;
mod strikes;
mod views;

use chromium::Browser;
use scene::Scene;

/// A browser that is logged in to the page of a scene.
async fn visitor(scene: &Scene) -> Browser {
    let browser = Browser::start().await;
    browser.open(&scene.link(&[])).await;
    browser.until("location.pathname === '/' && document.querySelector('h1')").await;
    browser
}

fn encoded(text: &str) -> String {
    text.replace('/', "%2F")
}

/// A view of the long conversation.
fn of_channel(rest: &str) -> String {
    format!("/channels/{}{rest}", encoded(scene::CHANNEL))
}
