//! Another allow list while the bot is connected: who is heard changes, the connection does not.

use crate::telegram::rig::World;

#[tokio::test(flavor = "multi_thread")]
async fn who_is_heard_changes_at_once_and_the_connection_stays() {
    let world = World::new().await;
    let (alice, bob) = (world.alice.clone(), world.bob.clone());
    let rig = world.start(&format!("direct = \"allowlist\"\nusers = [{}]", alice.id)).await;
    let before = rig.status_until(|line| line["state"] == "connected").await;
    assert_eq!(rig.ask(&alice, "hello").await.text, "echo: hello");
    let unheard = rig.asked();
    rig.telegram.say(bob.id, &bob, "is anybody there?");

    rig.rewrite(&format!("users = [{}]", alice.id), &format!("users = [{}]", bob.id));
    let reloaded = rig.json(&["reload"]).await;
    assert_eq!(reloaded["changed"][0]["key"], "telegram.users", "{reloaded}");
    assert_eq!(rig.ask(&bob, "and now?").await.text, "echo: and now?");
    rig.telegram.say(alice.id, &alice, "and me?");
    assert_eq!(rig.ask(&bob, "who is next?").await.text, "echo: who is next?");
    assert_eq!(rig.asked(), unheard + 2, "neither was answered while they were on no list");

    let after = rig.status_until(|line| line["state"] == "connected").await;
    assert_eq!(after["connected_since"], before["connected_since"]);
    rig.end().await;
}
