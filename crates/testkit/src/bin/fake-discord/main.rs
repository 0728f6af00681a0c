//! A fake Discord by hand: `fake-discord --port 8091`, then talk to the bot line by line.

mod line;
mod show;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::ExitCode;

use cairn_testkit::discord::{BOT_ID, FakeDiscord};
use line::{Line, Place};
use tokio::io::{AsyncBufReadExt, BufReader};

/// The server in which all channels are.
const SERVER: u64 = 100_000_000_000_000_001;

const HELP: &str = "\
A fake Discord: start it, paste what it prints into config.toml, start `cairn run`, then type:

  #general alice: hello @bot     alice says so in #general; `@bot` mentions the bot
  #general/plans alice: hello    the same in the thread `plans` of #general
  dm alice: hi                   alice writes to the bot privately
  bob: me too                    bob says so in the place used last
  /context                       whoever spoke last gives a slash command there
  /remember Rex is a dog         the same with its argument
  reply ID alice: why?           alice answers a message
  press ID alice: Yes            alice presses a button under a message of the bot
  edit ID other words            a message gets other words
  delete ID                      a message is taken away
  drop | reconnect | invalid     what gateways do: cut, ask to reconnect, end the session
  fail 500                       the next message of the bot meets this status
  help | quit

  --port N             loopback port to listen at (default 8091; 0: any)
  --shards N           recommended number of shards, with a server for each (default 1)
  --max-concurrency N  shards that may identify beside each other (default 1)
";

fn main() -> ExitCode {
    cairn_testkit::program(HELP, serve)
}

struct Options {
    port: u16,
    shards: u32,
    max_concurrency: u32,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self { port: 8091, shards: 1, max_concurrency: 1 };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} needs a number", pair[0])) };
            let number = value.parse::<u32>().map_err(|_| format!("{name} needs a number, not `{value}`"))?;
            match name.as_str() {
                "--port" => {
                    options.port = number.try_into().map_err(|_| format!("there is no port {number}"))?
                }
                "--shards" => options.shards = number.max(1),
                "--max-concurrency" => options.max_concurrency = number.max(1),
                _ => return Err(format!("unknown option `{name}`")),
            }
        }
        Ok(options)
    }
}

async fn serve(arguments: &[String]) -> Result<(), String> {
    let Options { port, shards, max_concurrency } = Options::read(arguments)?;
    let mut builder = FakeDiscord::builder().shards(shards).max_concurrency(max_concurrency);
    if shards == 1 {
        builder = builder.identify_every(std::time::Duration::ZERO);
    }
    let discord = builder.address(SocketAddr::from(([127, 0, 0, 1], port))).start().await;
    discord.guild(SERVER);
    for shard in 1..u64::from(shards) {
        discord.guild(((SERVER >> 22) + shard) << 22);
    }
    discord.channel_of(SERVER, "general");
    introduce(&discord);
    let mut keyboard = BufReader::new(tokio::io::stdin()).lines();
    let mut changes = discord.changes();
    let mut shown = show::Shown::default();
    let mut scene = Scene { discord: &discord, last: None, names: HashMap::new() };
    loop {
        tokio::select! {
            typed = keyboard.next_line() => match typed.map_err(|error| error.to_string())?.as_deref() {
                None | Some("quit") => return Ok(()),
                Some(text) => match line::read(text) {
                    Ok(line) => scene.perform(line),
                    Err(error) => println!("? {error}"),
                },
            },
            changed = changes.changed() => {
                changed.map_err(|error| error.to_string())?;
                shown.news(&discord, &scene.names).iter().for_each(|line| println!("{line}"));
            }
        }
    }
}

fn introduce(discord: &FakeDiscord) {
    println!("# {}", HELP.lines().next().unwrap_or_default());
    println!("# export DISCORD_TOKEN='{}'", discord.token());
    println!("[discord]\ntoken_env = \"DISCORD_TOKEN\"\napi_url = \"{}\"", discord.api_url());
    println!("gateway_url = \"{}\"", discord.gateway_url());
    println!("servers = [{SERVER}]");
    println!("direct = \"pairing\"");
    println!("# Type `help` for what can be typed here.\n");
}

/// Who is where, and who spoke last.
struct Scene<'a> {
    discord: &'a FakeDiscord,
    last: Option<(u64, String)>,
    names: HashMap<u64, String>,
}

impl Scene<'_> {
    fn perform(&mut self, line: Line) {
        if let Err(error) = self.try_perform(line) {
            println!("? {error}");
        }
    }

    fn try_perform(&mut self, line: Line) -> Result<(), String> {
        let nobody = || "say first who speaks where: `#general alice: hello`".to_owned();
        match line {
            Line::Nothing => {}
            Line::Help => print!("{HELP}"),
            Line::Say { place, user, text, reply_to } => {
                let channel = match place {
                    Some(place) => self.channel(&place),
                    None => self.last.as_ref().map(|(channel, _)| *channel).ok_or_else(nobody)?,
                };
                let text = text.replace("@bot", &format!("<@{BOT_ID}>"));
                let mut post = self.discord.post(channel, &user, &text);
                if let Some(message) = reply_to {
                    post = post.reply_to(message);
                }
                let id = post.send();
                println!("{} {user} [{id}]", self.names.get(&channel).map_or("", String::as_str));
                self.last = Some((channel, user));
            }
            Line::Slash { name, argument } => {
                let (channel, user) = self.last.clone().ok_or_else(nobody)?;
                self.slash(channel, &user, &name, &argument)?;
            }
            Line::Press { message, user, label } => {
                let channel = self.channel_with(message)?;
                let sent = self.discord.sent(channel);
                let buttons = sent.into_iter().find(|sent| sent.id == message).map(|sent| sent.buttons);
                let buttons = buttons.unwrap_or_default();
                if !buttons.iter().any(|(words, _)| *words == label) {
                    return Err(format!("it has these buttons: {buttons:?}"));
                }
                self.discord.press(channel, message, &label, &user);
            }
            Line::Edit { message, text } => self.discord.edit(self.channel_with(message)?, message, &text),
            Line::Delete { message } => self.discord.delete(self.channel_with(message)?, &[message]),
            Line::Drop => self.discord.disconnect(),
            Line::Reconnect => self.discord.ask_reconnect(),
            Line::Invalid => self.discord.invalid_session(false),
            Line::Fail { status } => {
                let fault = cairn_testkit::discord::Fault::Status(status);
                self.discord.fail_next(cairn_testkit::discord::Route::Send, fault);
            }
        }
        Ok(())
    }

    fn channel(&mut self, place: &Place) -> u64 {
        let (id, name) = match place {
            Place::Private { user } => (self.discord.dm(user), format!("dm {user}")),
            Place::Channel { name } => (self.discord.channel_of(SERVER, name), format!("#{name}")),
            Place::Thread { channel, name } => {
                let parent = self.discord.channel_of(SERVER, channel);
                (self.discord.thread_of(parent, name), format!("#{channel}/{name}"))
            }
        };
        self.names.insert(id, name);
        id
    }

    fn channel_with(&self, message: u64) -> Result<u64, String> {
        let mut channels = self.discord.channels().into_iter();
        let found = channels.find(|channel| self.discord.is_said(*channel, message));
        found.ok_or_else(|| format!("there is no message {message}"))
    }

    fn slash(&self, channel: u64, user: &str, name: &str, argument: &str) -> Result<(), String> {
        let commands = self.discord.commands();
        let known = commands.iter().find(|command| command["name"] == name);
        let known = known.ok_or_else(|| {
            let names: Vec<&str> = commands.iter().filter_map(|command| command["name"].as_str()).collect();
            format!("the bot registered no command /{name}; it has: {}", names.join(", "))
        })?;
        let option = known["options"][0]["name"].as_str();
        match option {
            Some(option) if !argument.is_empty() => {
                self.discord.slash(channel, user, name, &[(option, argument)]);
            }
            Some(option) if known["options"][0]["required"] == true => {
                return Err(format!("write it like this: /{name} {}", option.to_uppercase()));
            }
            _ => {
                self.discord.slash(channel, user, name, &[]);
            }
        }
        Ok(())
    }
}
