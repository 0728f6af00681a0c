//! A fake Telegram by hand: prints what to put into a configuration, takes lines of people from standard input, and
//! shows what the bot does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;

use cairn_testkit::telegram::{FakeTelegram, Fault, Person, Say, What};
use tokio::io::{AsyncBufReadExt, BufReader};

const HELP: &str = "\
A fake Telegram: start it, paste what it prints into a configuration, start `cairn run`, and talk.

  --port N       loopback port to listen at (default 8081; 0: any)
  --privacy      privacy mode: the bot is told only of group messages that concern it
  --rates        refuse more than one message per second and chat, and 20 per minute and group

Lines:
  alice: hello                    Alice writes privately; people are made when they are named first
  @group alice: @bot hello        in the group; `@bot` becomes the bot's name
  @forum/weather alice: hello     in the topic `weather` of the forum; topics are made when they are named first
  @group alice >5: hello          a reply to message 5 there
  alice ~5: hello there           message 5 is changed
  alice: /context                 a command
  !block alice | !unblock alice | !kick @group | !migrate @group
  !press alice 5 Yes              Alice presses the button `Yes` under message 5 privately; `!press alice 5 Yes @group`
  !fail METHOD CODE | !mend METHOD | !limit @group SECONDS | !down | !up | !quit
";

fn main() -> ExitCode {
    cairn_testkit::program(HELP, serve)
}

async fn serve(arguments: &[String]) -> Result<(), String> {
    let mut builder = FakeTelegram::builder();
    let mut port: u16 = 8081;
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        match name.as_str() {
            "--port" => {
                port = rest.next().and_then(|port| port.parse().ok()).ok_or("--port needs a number")?
            }
            "--privacy" => builder = builder.privacy(),
            "--rates" => builder = builder.limit_rates(),
            _ => return Err("unknown option".to_owned()),
        }
    }
    let builder = builder.address(SocketAddr::from(([127, 0, 0, 1], port)));
    Console::new(builder.start().await).run().await
}

type Place = (i64, Option<i64>);

struct Console {
    telegram: FakeTelegram,
    people: BTreeMap<String, Person>,
    groups: BTreeMap<String, i64>,
    topics: BTreeMap<String, i64>,
    /// Acts and violations that were shown.
    n_shown: usize,
    n_violations: usize,
}

struct Line<'a> {
    place: Option<&'a str>,
    who: &'a str,
    reply_to: Option<i64>,
    edits: Option<i64>,
    text: &'a str,
}

/// Reads `[@PLACE] WHO [>N | ~N]: TEXT`.
fn parse(line: &str) -> Option<Line<'_>> {
    let (head, text) = line.split_once(": ").or_else(|| line.split_once(':'))?;
    let mut out = Line { place: None, who: "", reply_to: None, edits: None, text: text.trim() };
    for word in head.split_whitespace() {
        match word.split_at(word.chars().next().map_or(0, char::len_utf8)) {
            ("@", place) => out.place = Some(place),
            (">", n) => out.reply_to = Some(n.parse().ok()?),
            ("~", n) => out.edits = Some(n.parse().ok()?),
            _ if out.who.is_empty() => out.who = word,
            _ => return None,
        }
    }
    (!out.who.is_empty() && !out.text.is_empty()).then_some(out)
}

impl Console {
    fn new(telegram: FakeTelegram) -> Self {
        let groups = BTreeMap::from([
            ("group".to_owned(), telegram.group("Group")),
            ("forum".to_owned(), telegram.forum("Forum")),
        ]);
        let (people, topics) = (BTreeMap::new(), BTreeMap::new());
        Self { telegram, people, groups, topics, n_shown: 0, n_violations: 0 }
    }

    async fn run(mut self) -> Result<(), String> {
        println!("export TELEGRAM_TOKEN={}\n", self.telegram.token());
        println!("[telegram]\ntoken_env = \"TELEGRAM_TOKEN\"\napi_url = \"{}\"", self.telegram.api_url());
        println!("chats = {:?}    # @group, @forum", [self.groups["group"], self.groups["forum"]]);
        println!("\nThe bot is @{}. A line for help: !help", self.telegram.username());
        let mut changes = self.telegram.changes();
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        loop {
            tokio::select! {
                _ = changes.changed() => self.show(),
                line = lines.next_line() => match line.map_err(|error| error.to_string())? {
                    Some(line) if line.trim() == "!quit" => return Ok(()),
                    Some(line) => {
                        if let Err(error) = self.take(line.trim()).await {
                            println!("? {error}");
                        }
                        self.show();
                    }
                    None => {
                        // Without a terminal it serves on until it is ended.
                        tokio::signal::ctrl_c().await.map_err(|error| error.to_string())?;
                        return Ok(());
                    }
                },
            }
        }
    }

    async fn take(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() {
            return Ok(());
        }
        if let Some(order) = line.strip_prefix('!') {
            return self.order(order).await;
        }
        let said = parse(line).ok_or("not understood; !help shows how lines look")?;
        let who = self.person(said.who);
        let (chat, topic) = match said.place {
            Some(place) => self.place(place, &who)?,
            None => (who.id, None),
        };
        let text = said.text.replace("@bot", &format!("@{}", self.telegram.username()));
        if let Some(message) = said.edits {
            self.telegram.edit(chat, message, &text);
        } else if text.starts_with('/') && said.reply_to.is_none() {
            self.telegram.command_in(chat, topic, &who, &text);
        } else {
            let mut say = Say::text(text);
            if let Some(topic) = topic {
                say = say.topic(topic);
            }
            if let Some(message) = said.reply_to {
                say = say.reply_to(message);
            }
            self.telegram.say(chat, &who, say);
        }
        Ok(())
    }

    async fn order(&mut self, order: &str) -> Result<(), String> {
        let words: Vec<&str> = order.split_whitespace().collect();
        let telegram = &self.telegram;
        match words.as_slice() {
            ["help"] => print!("{HELP}"),
            ["down"] => telegram.go_down(),
            ["up"] => telegram.come_back().await,
            ["fail", method, code] => {
                let code = code.parse().map_err(|_| "CODE is a number")?;
                telegram.fail_always(method, Fault::error(code, "made up"));
            }
            ["mend", method] => telegram.mend(method),
            ["block", who] => {
                let who = self.person(who);
                self.telegram.block(&who);
            }
            ["unblock", who] => {
                let who = self.person(who);
                self.telegram.unblock(&who);
            }
            ["kick", place] => {
                let admin = self.person("admin");
                let (chat, _) = self.place(place.trim_start_matches('@'), &admin)?;
                self.telegram.kick(chat, &admin);
            }
            ["migrate", place] => {
                let admin = self.person("admin");
                let name = place.trim_start_matches('@');
                let (chat, _) = self.place(name, &admin)?;
                let new = self.telegram.migrate(chat, &admin);
                self.groups.insert(name.to_owned(), new);
                println!("@{name} is {new} now");
            }
            ["press", who, message, label, place @ ..] => {
                let (who, message) =
                    (self.person(who), message.parse().map_err(|_| "the message is a number")?);
                let chat = match place {
                    [] => who.id,
                    [place, ..] => self.place(place.trim_start_matches('@'), &who)?.0,
                };
                let sent = self.telegram.sent(chat);
                let sent =
                    sent.iter().find(|sent| sent.id == message).ok_or("the bot has no such message there")?;
                if !sent.buttons.iter().any(|(words, _)| words == label) {
                    return Err(format!("it has these buttons: {:?}", sent.buttons));
                }
                self.telegram.press(chat, message, label, &who);
            }
            ["limit", place, secs] => {
                let secs = secs.parse().map_err(|_| "SECONDS is a number")?;
                let admin = self.person("admin");
                let (chat, _) = self.place(place.trim_start_matches('@'), &admin)?;
                self.telegram.rate_limit(chat, secs);
            }
            _ => return Err("unknown order; !help shows them".to_owned()),
        }
        Ok(())
    }

    fn person(&mut self, name: &str) -> Person {
        let telegram = &self.telegram;
        self.people.entry(name.to_lowercase()).or_insert_with(|| telegram.person(name)).clone()
    }

    /// `group`, `forum`, `forum/TOPIC`.
    fn place(&mut self, name: &str, who: &Person) -> Result<Place, String> {
        let (group, topic) = name.split_once('/').map_or((name, None), |(group, topic)| (group, Some(topic)));
        let chat = *self.groups.get(group).ok_or("there are @group, @forum and @forum/TOPIC")?;
        let topic = match topic {
            Some(topic) if group == "forum" => {
                let telegram = &self.telegram;
                let made = self.topics.entry(topic.to_owned());
                Some(*made.or_insert_with(|| telegram.topic(chat, who, topic)))
            }
            Some(_) => return Err("only @forum has topics".to_owned()),
            None => None,
        };
        Ok((chat, topic))
    }

    /// Prints what has happened since the last time.
    fn show(&mut self) {
        let acts = self.telegram.all_acts();
        for act in acts.iter().skip(self.n_shown) {
            let place = self.name_of(act.chat, act.thread);
            match act.what {
                What::Said(id) => println!("[{place} #{id}]"),
                What::Typing => println!("[{place}] is typing…"),
                What::Sent(id) | What::Edited(id) => {
                    let sent = self.telegram.sent(act.chat).into_iter().find(|sent| sent.id == id);
                    let reply = sent.as_ref().and_then(|sent| sent.reply_to);
                    let reply = reply.map(|id| format!(" >{id}")).unwrap_or_default();
                    let verb = if matches!(act.what, What::Edited(_)) { "edits" } else { "says" };
                    let buttons = sent.iter().flat_map(|sent| &sent.buttons);
                    let buttons: String = buttons.map(|(label, _)| format!(" [{label}]")).collect();
                    let words = sent.map(|sent| sent.markdown()).unwrap_or_default();
                    println!("[{place} #{id}{reply}] {verb}: {words}{buttons}");
                }
            }
        }
        self.n_shown = acts.len();
        let violations = self.telegram.violations();
        for violation in violations.iter().skip(self.n_violations) {
            println!("! {violation}");
        }
        self.n_violations = violations.len();
    }

    fn name_of(&self, chat: i64, topic: Option<i64>) -> String {
        let group = self.groups.iter().find(|(_, id)| **id == chat).map(|(name, _)| format!("@{name}"));
        let person =
            || self.people.values().find(|person| person.id == chat).map(|person| person.name.clone());
        let chat = group.or_else(person).unwrap_or_else(|| chat.to_string());
        match topic.map(|id| self.topics.iter().find(|(_, topic)| **topic == id)) {
            Some(Some((name, _))) => format!("{chat}/{name}"),
            _ => chat,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_line_names_place_person_and_message() {
        let line = parse("@forum/weather alice >12: so: it rains").unwrap();
        let read = (line.place, line.who, line.reply_to, line.edits, line.text);
        assert_eq!(read, (Some("forum/weather"), "alice", Some(12), None, "so: it rains"));
        assert_eq!(parse("bob ~3:x").unwrap().edits, Some(3));
        for bad in ["hello", ": hello", "alice:", "alice >x: hello", "two words: hello"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
