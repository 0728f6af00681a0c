//! What a server does instead of what it should.

/// A fault. By its name it is asked for in a script or on the command line: `hang`, `huge=100000000`, `status=500`, each
/// with its place behind it where that is not a call of a tool: `hang@initialize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// `hang`: no answer ever comes.
    Hang,
    /// `exit`: the process ends in mid-request; over HTTP the connection breaks.
    Exit,
    /// `garbage`: a line that is no JSON instead of the answer.
    Garbage,
    /// `noise`: a line that is no JSON before the answer.
    Noise,
    /// `huge=BYTES`: an answer with so many bytes of text, in one message.
    Huge(u64),
    /// `flood`: notifications without end, and then the answer somewhere among them.
    Flood,
    /// `endless`: a message without an end.
    Endless,
    /// `half`: half of the answer, then nothing.
    Half,
    /// `cut`: half of the answer, then the end of the stream (of the process, over stdio).
    Cut,
    /// `wrong-id`: the answer to a request that nobody made.
    WrongId,
    /// `no-id`: an answer without id.
    NoId,
    /// `wrong-version`: an answer of JSON-RPC 1.0.
    WrongVersion,
    /// `twice`: the answer twice.
    Twice,
    /// `error`: a JSON-RPC error as answer.
    Error,
    /// `misshapen`: an answer whose result has another shape than the protocol's.
    Misshapen,
    /// `ask-sampling`, `ask-elicitation`, `ask-roots`, `ask-ping`, `ask-unknown`: before the answer the server asks the
    /// client for that; what it gets is in its log.
    Ask(Ask),

    /// `schema-number`: the list has a tool with the schema `{"type": 5}`.
    SchemaNumber,
    /// `schema-text`: one whose schema is a string.
    SchemaText,
    /// `schema-array`: one whose schema is a list.
    SchemaArray,
    /// `schema-missing`: one without schema.
    SchemaMissing,
    /// `schema-of-text`: one whose arguments would be a string, not an object.
    SchemaOfText,
    /// `schema-remote`: one whose schema refers to an address.
    SchemaRemote,
    /// `schema-loop`: one whose schema refers to itself.
    SchemaLoop,
    /// `doubled`: the list has a tool twice, with two descriptions.
    Doubled,
    /// `built-in`: tools named like built-in ones.
    BuiltIn,
    /// `empty-name`: a tool without a name.
    EmptyName,
    /// `long-name`: a name of 200 characters.
    LongName,
    /// `odd-name`: names with characters that models' servers refuse.
    OddName,
    /// `instructions`: a description that carries instructions.
    Instructions,
    /// `hidden`: a description with characters that nobody sees.
    Hidden,
    /// `long-description`: a description of 200,000 characters.
    LongDescription,
    /// `many`: 1,000 more tools, over pages.
    Many,
    /// `endless-pages`: a cursor that never ends.
    EndlessPages,
    /// `same-cursor`: a cursor that leads to itself.
    SameCursor,

    /// `exit-at-start`: the process ends at once, with a word on its standard error.
    ExitAtStart,
    /// `deaf`: it does not read its standard input.
    Deaf,
    /// `stubborn`: it ends neither when its standard input closes nor at SIGTERM.
    Stubborn,
    /// `talkative`: it fills its standard error.
    Talkative,
    /// `child`: it starts a process of its own that goes on after it; its pid is in the log.
    Child,

    /// `status=N`: this status (HTTP).
    Status(u16),
    /// `redirect`, `redirect=URL`: a redirect, to `/elsewhere` of the same server unless told otherwise (HTTP).
    Redirect(String),
    /// `wrong-type`: a page in HTML (HTTP).
    WrongType,
    /// `expire`: the session is unknown from now on (HTTP).
    Expire,
}

/// What a server asks a client for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// `sampling/createMessage`.
    Sampling,
    /// `elicitation/create`.
    Elicitation,
    /// `roots/list`.
    Roots,
    /// `ping`.
    Ping,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// At `initialize`.
    Initialize,
    /// At `tools/list`.
    List,
    /// At `tools/call`.
    Call,
    Any,
}

impl At {
    const ALL: [(&str, Self); 4] =
        [("initialize", Self::Initialize), ("list", Self::List), ("call", Self::Call), ("any", Self::Any)];

    pub(super) fn of_method(method: &str) -> Option<Self> {
        match method {
            "initialize" => Some(Self::Initialize),
            "tools/list" => Some(Self::List),
            "tools/call" => Some(Self::Call),
            _ => None,
        }
    }

    /// Whether what strikes here strikes there.
    pub(super) fn covers(self, place: Self) -> bool {
        self == Self::Any || self == place
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, at)| *at == self).map_or("any", |(name, _)| name)
    }
}

/// The name of every fault without a value.
const PLAIN: [(&str, Fault); 42] = [
    ("hang", Fault::Hang),
    ("exit", Fault::Exit),
    ("garbage", Fault::Garbage),
    ("noise", Fault::Noise),
    ("flood", Fault::Flood),
    ("endless", Fault::Endless),
    ("half", Fault::Half),
    ("cut", Fault::Cut),
    ("wrong-id", Fault::WrongId),
    ("no-id", Fault::NoId),
    ("wrong-version", Fault::WrongVersion),
    ("twice", Fault::Twice),
    ("error", Fault::Error),
    ("misshapen", Fault::Misshapen),
    ("ask-sampling", Fault::Ask(Ask::Sampling)),
    ("ask-elicitation", Fault::Ask(Ask::Elicitation)),
    ("ask-roots", Fault::Ask(Ask::Roots)),
    ("ask-ping", Fault::Ask(Ask::Ping)),
    ("ask-unknown", Fault::Ask(Ask::Unknown)),
    ("schema-number", Fault::SchemaNumber),
    ("schema-text", Fault::SchemaText),
    ("schema-array", Fault::SchemaArray),
    ("schema-missing", Fault::SchemaMissing),
    ("schema-of-text", Fault::SchemaOfText),
    ("schema-remote", Fault::SchemaRemote),
    ("schema-loop", Fault::SchemaLoop),
    ("doubled", Fault::Doubled),
    ("built-in", Fault::BuiltIn),
    ("empty-name", Fault::EmptyName),
    ("long-name", Fault::LongName),
    ("odd-name", Fault::OddName),
    ("instructions", Fault::Instructions),
    ("hidden", Fault::Hidden),
    ("long-description", Fault::LongDescription),
    ("many", Fault::Many),
    ("endless-pages", Fault::EndlessPages),
    ("same-cursor", Fault::SameCursor),
    ("exit-at-start", Fault::ExitAtStart),
    ("deaf", Fault::Deaf),
    ("stubborn", Fault::Stubborn),
    ("talkative", Fault::Talkative),
    ("child", Fault::Child),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strike {
    pub fault: Fault,
    /// Where; of no matter to faults of the list and of the process.
    pub at: At,
}

impl Strike {
    /// Reads `FAULT[=VALUE][@PLACE]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, at) = text.rsplit_once('@').unwrap_or((text, "call"));
        let place = At::ALL.iter().find(|(known, _)| *known == at).map(|(_, at)| *at);
        let at = place.ok_or_else(|| format!("no place `{at}` in the fault `{text}`"))?;
        let (name, value) = name.split_once('=').unwrap_or((name, ""));
        let number = || value.parse::<u64>().map_err(|_| format!("the fault `{text}` needs a number"));
        let fault = match name {
            "huge" => Fault::Huge(number()?),
            "status" => Fault::Status(u16::try_from(number()?).unwrap_or(500)),
            "redirect" => Fault::Redirect(if value.is_empty() { "/elsewhere" } else { value }.to_owned()),
            "wrong-type" => Fault::WrongType,
            "expire" => Fault::Expire,
            _ => {
                let plain = PLAIN.into_iter().find(|(known, _)| *known == name);
                plain.map(|(_, fault)| fault).ok_or_else(|| format!("no fault `{name}` is known"))?
            }
        };
        Ok(Self { fault, at })
    }

    pub fn name(&self) -> String {
        let name = match &self.fault {
            Fault::Huge(bytes) => format!("huge={bytes}"),
            Fault::Status(status) => format!("status={status}"),
            Fault::Redirect(to) => format!("redirect={to}"),
            Fault::WrongType => "wrong-type".to_owned(),
            Fault::Expire => "expire".to_owned(),
            plain => PLAIN.iter().find(|(_, fault)| fault == plain).map_or("", |(name, _)| name).to_owned(),
        };
        format!("{name}@{}", self.at.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name_that_leads_to_it() {
        let valued = [
            Fault::Huge(7),
            Fault::Status(401),
            Fault::Redirect("http://127.0.0.1:1/mcp".to_owned()),
            Fault::WrongType,
            Fault::Expire,
        ];
        for fault in PLAIN.into_iter().map(|(_, fault)| fault).chain(valued) {
            for (_, at) in At::ALL {
                let strike = Strike { fault: fault.clone(), at };
                assert_eq!(Strike::parse(&strike.name()), Ok(strike));
            }
        }
        assert_eq!(Strike::parse("hang"), Ok(Strike { fault: Fault::Hang, at: At::Call }));
        for wrong in ["", "hung", "huge", "huge=many@call", "hang@noon"] {
            assert!(Strike::parse(wrong).is_err(), "{wrong}");
        }
    }
}
