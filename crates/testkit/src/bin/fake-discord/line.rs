//! Reads what is typed.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Private { user: String },
    Channel { name: String },
    Thread { channel: String, name: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Nothing,
    Help,
    Say { place: Option<Place>, user: String, text: String, reply_to: Option<u64> },
    Slash { name: String, argument: String },
    Press { message: u64, user: String, label: String },
    Edit { message: u64, text: String },
    Delete { message: u64 },
    Drop,
    Reconnect,
    Invalid,
    Fail { status: u16 },
}

pub(crate) fn read(line: &str) -> Result<Line, String> {
    let line = line.trim();
    if let Some(command) = line.strip_prefix('/') {
        let (name, argument) = word(command);
        return Ok(Line::Slash { name: name.to_owned(), argument: argument.to_owned() });
    }
    let (first, rest) = word(line);
    match first {
        "" => Ok(Line::Nothing),
        "help" => Ok(Line::Help),
        "drop" => Ok(Line::Drop),
        "reconnect" => Ok(Line::Reconnect),
        "invalid" => Ok(Line::Invalid),
        "fail" => Ok(Line::Fail { status: number(rest)? }),
        "delete" => Ok(Line::Delete { message: number(rest)? }),
        "edit" => {
            let (id, text) = word(rest);
            Ok(Line::Edit { message: number(id)?, text: text.to_owned() })
        }
        "press" => {
            let (id, pressed) = word(rest);
            let (user, label) = pressed.split_once(':').ok_or("write it like this: `press ID alice: Yes`")?;
            let (user, label) = (user.trim().to_owned(), label.trim().to_owned());
            Ok(Line::Press { message: number(id)?, user, label })
        }
        "reply" => {
            let (id, said) = word(rest);
            say(None, said, Some(number(id)?))
        }
        "dm" => {
            let user = rest.split(':').next().unwrap_or_default().trim().to_owned();
            say(Some(Place::Private { user }), rest, None)
        }
        _ => match first.strip_prefix('#') {
            Some(name) => say(Some(place(name)), rest, None),
            None => say(None, line, None),
        },
    }
}

fn place(name: &str) -> Place {
    match name.split_once('/') {
        Some((channel, name)) => Place::Thread { channel: channel.to_owned(), name: name.to_owned() },
        None => Place::Channel { name: name.to_owned() },
    }
}

fn say(place: Option<Place>, said: &str, reply_to: Option<u64>) -> Result<Line, String> {
    match said.split_once(':') {
        Some((user, text)) if !user.trim().is_empty() && !user.trim().contains(' ') => {
            let (user, text) = (user.trim().to_owned(), text.trim().to_owned());
            Ok(Line::Say { place, user, text, reply_to })
        }
        _ => Err(format!("who says `{said}`? Write it like this: `#general alice: hello`")),
    }
}

/// The first word, and what follows.
fn word(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    (first, rest.trim())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(place: Option<Place>, user: &str, text: &str, reply_to: Option<u64>) -> Result<Line, String> {
        Ok(Line::Say { place, user: user.to_owned(), text: text.to_owned(), reply_to })
    }

    #[test]
    fn who_speaks_where_is_read_from_a_line() {
        let channel = Place::Channel { name: "general".to_owned() };
        assert_eq!(read("#general alice: hello: you"), said(Some(channel), "alice", "hello: you", None));
        let thread = Place::Thread { channel: "general".to_owned(), name: "plans".to_owned() };
        assert_eq!(read("#general/plans bob: hi"), said(Some(thread), "bob", "hi", None));
        let private = Place::Private { user: "alice".to_owned() };
        assert_eq!(read("dm alice: hi"), said(Some(private), "alice", "hi", None));
        assert_eq!(read("reply 7 bob: why?"), said(None, "bob", "why?", Some(7)));
        assert!(read("just words").is_err());
    }

    #[test]
    fn commands_and_changes_are_read() {
        let slash = |name: &str, argument: &str| {
            Ok(Line::Slash { name: name.to_owned(), argument: argument.to_owned() })
        };
        assert_eq!(read("/context"), slash("context", ""));
        assert_eq!(read("/remember Rex is a dog"), slash("remember", "Rex is a dog"));
        assert_eq!(read("edit 5 new words"), Ok(Line::Edit { message: 5, text: "new words".to_owned() }));
        let press = Line::Press { message: 5, user: "alice".to_owned(), label: "Yes".to_owned() };
        assert_eq!(read("press 5 alice: Yes"), Ok(press));
        assert!(read("delete x").is_err() && read("press 5").is_err());
    }
}
