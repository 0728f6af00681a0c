//! `deploy/bridges/irc.py` against a server of IRC and the check of bridges.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use cairn_testkit::daemon::PATIENCE;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use super::check::check;

/// What the bridge said in the room, line by line.
type Said = Arc<Mutex<Vec<String>>>;

/// A connection to the server: one room, in which Ann speaks to whoever joins. RFC 2812: lines end with CR LF and have at most
/// 512 bytes with it (2.3); 001 and 376 end the registration (5.1); 401 answers a message to nobody (3.3.1).
async fn serve(stream: TcpStream, said: Said) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        assert!(line.len() <= 511 && line.ends_with(b"\r"), "{}", String::from_utf8_lossy(&line));
        let line = String::from_utf8(line).unwrap();
        let (command, words) = line.trim_end().split_once(' ').unwrap();
        let answer = match command {
            "CAP" if words.starts_with("REQ") => ":irc.test CAP * NAK :account-tag\r\n".to_owned(),
            "CAP" | "NICK" => continue,
            "USER" => ":irc.test 001 rowan :Welcome\r\n:irc.test 376 rowan :End of MOTD\r\n".to_owned(),
            "PING" => format!(":irc.test PONG irc.test {words}\r\n"),
            "JOIN" => format!(
                ":rowan!~rowan@a.test JOIN {words}\r\n:ann!~ann@b.test PRIVMSG {words} :rowan: \u{2}hello\u{2}\r\n"
            ),
            "PRIVMSG" => match words.split_once(" :") {
                Some(("#garden", text)) => {
                    said.lock().unwrap().push(text.to_owned());
                    continue;
                }
                Some((nobody, _)) => format!(":irc.test 401 rowan {nobody} :No such nick/channel\r\n"),
                None => panic!("{line}"),
            },
            _ => panic!("{line}"),
        };
        write.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn the_bridge_to_irc_keeps_the_protocol_and_sends_each_line_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut checking, daemon, told) = check(folder.path()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (server, said) = (listener.local_addr().unwrap(), Said::default());
    let of_bridge = Arc::clone(&said);
    let served = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream, of_bridge).await;
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/bridges/irc.py");
    let log = std::fs::File::create(folder.path().join("bridge.log")).unwrap();
    let bridge = Command::new("python3")
        .arg(script)
        .args(["--daemon", &format!("http://{daemon}"), "--name", "check", "--token-file", "token"])
        .args(["--server", &server.to_string(), "--nick", "rowan", "--join", "#garden"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let code = tokio::time::timeout(PATIENCE, checking.wait()).await.unwrap().unwrap().code();
    drop(bridge);
    let log = std::fs::read_to_string(folder.path().join("bridge.log")).unwrap();
    let told = told.await.unwrap();
    assert_eq!(code, Some(0), "{told}\n{log}");
    served.await.unwrap();
    let said = said.lock().unwrap().clone();
    let starts = ["A first answer.", "After an event", "leaf leaf", "Sent while the connection breaks."];
    assert!(
        said.len() == 4 && said.iter().zip(starts).all(|(line, start)| line.starts_with(start)),
        "{said:?}"
    );
}
