//! The marks that models write into their text, as today's chat templates define them, and how a text begins with one.

use super::header;

/// How a text begins with something.
#[derive(Debug)]
pub(super) enum Begins<T> {
    /// With all of it, in so many bytes.
    Whole(usize, T),
    /// It may once more text has come.
    Perhaps,
    No,
}

impl<T> Begins<T> {
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Begins<U> {
        match self {
            Self::Whole(n, what) => Begins::Whole(n, change(what)),
            Self::Perhaps => Begins::Perhaps,
            Self::No => Begins::No,
        }
    }

    pub(super) fn is_perhaps(&self) -> bool {
        matches!(self, Self::Perhaps)
    }

    /// The first that fits whole; else what may still come.
    pub(super) fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Whole(..) => self,
            Self::No => other(),
            Self::Perhaps => match other() {
                whole @ Self::Whole(..) => whole,
                Self::Perhaps | Self::No => Self::Perhaps,
            },
        }
    }
}

/// Reasoning: how it opens and closes. Letters are compared without case, `｜` counts as `|` and `▁` as `_`.
const REASONING: [(&str, &str); 15] = [
    // DeepSeek, Qwen, GLM, Kimi, MiniMax M2, Nemotron, and most fine-tunes.
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    // EXAONE Deep, models behind some gateways.
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<reflection>", "</reflection>"),
    ("<mm:think>", "</mm:think>"),              // MiniMax M3
    ("<seed:think>", "</seed:think>"),          // Seed-OSS
    ("[think]", "[/think]"),                    // Magistral
    ("◁think▷", "◁/think▷"),                    // Kimi-VL
    ("<|start_thinking|>", "<|end_thinking|>"), // Command A
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"), // Apertus
    ("<|channel>thought\n", "<channel|>"),    // Gemma 4
    ("<|think|>", "<|end|>"),                 // Solar
    // gpt-oss where the server drops the special tokens.
    (BARE_ANALYSIS, "assistantfinal"),
];

const BARE_ANALYSIS: &str = "analysis";

/// What ends a message of gpt-oss (harmony), or begins the next one.
const HARMONY_ENDS: [&str; 5] = ["<|end|>", "<|return|>", "<|call|>", HARMONY_START, HARMONY_CHANNEL];
const HARMONY_START: &str = "<|start|>";
const HARMONY_CHANNEL: &str = "<|channel|>";
const HARMONY_MESSAGE: &str = "<|message|>";

/// Longest head of such a message, in bytes.
const HARMONY_HEAD_MAX: usize = 256;

/// What closes the list of tools in a prompt of Qwen's.
pub(super) const TOOLS_CLOSE: &str = "</tools>";

/// Tool calls: how they open and close.
const CALLS: [(&str, &str); 30] = [
    ("<tool_call>", "</tool_call>"),   // Hermes, Qwen, GLM, ERNIE
    ("<tool_calls>", "</tool_calls>"), // Hunyuan, Jamba, Apriel
    ("<toolcall>", "</toolcall>"),     // Nemotron
    ("<tools>", TOOLS_CLOSE),          // Qwen2.5-Coder, which mistakes the list's tag for its own
    ("<function_call>", "</function_call>"),
    ("<function_calls>", "</function_calls>"),
    ("<minimax:tool_call>", "</minimax:tool_call>"),
    ("<mm:tool_call>", "</mm:tool_call>"),
    ("<seed:tool_call>", "</seed:tool_call>"),
    ("<longcat_tool_call>", "</longcat_tool_call>"),
    ("<antml:function_calls>", "</antml:function_calls>"),
    ("<|dsml|tool_calls>", "</|dsml|tool_calls>"), // DeepSeek V4
    ("<|dsml|function_calls>", "</|dsml|function_calls>"), // DeepSeek V3.2
    ("<|tool_calls_begin|>", "<|tool_calls_end|>"), // DeepSeek V3, Step
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"), // Kimi K2
    ("<|tool_call_begin|>", "<|tool_call_end|>"),
    ("<|tool_call_start|>", "<|tool_call_end|>"),     // LFM2
    ("<|tool_call>", "<tool_call|>"),                 // Gemma 4
    ("<start_function_call>", "<end_function_call>"), // FunctionGemma
    ("<|tool_call|>", "<|/tool_call|>"),              // Phi-4-mini, Granite
    ("<|start_action|>", "<|end_action|>"),           // Command A
    ("<|action_start|>", "<|action_end|>"),           // InternLM
    ("<|tools_prefix|>", "<|tools_suffix|>"),         // Apertus
    ("<|python_tag|>", "<|eom_id|>"),                 // Llama 3
    ("[tool_calls]", "</s>"),                         // Mistral
    ("<function=", "</function>"),                    // Qwen3-Coder, Llama 3.1
    ("<invoke name=", "</invoke>"),
    ("<antml:invoke name=", "</antml:invoke>"),
    ("<|dsml|invoke name=", "</|dsml|invoke>"),
    ("<steptml:invoke name=", "</steptml:invoke>"),
];

/// Roles and frames that a template writes before the model's words and some models repeat.
const BEFORE: [&str; 8] = [
    "<|im_start|>assistant",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<start_of_turn>model",
    "<|turn>model",
    "<|start_of_role|>assistant<|end_of_role|>",
    "<|assistant|>",
    "<|start_response|>",
    "<|begin_of_solution|>",
];

/// What frames the answer behind reasoning.
const FRAMES: [(&str, &str); 2] = [("<answer>", "</answer>"), ("<response>", "</response>")];

/// Ends of a model's turn.
const AFTER: [&str; 11] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end_of_sentence|>",
    "<|end|>",
    "<|return|>",
    "<end_of_turn>",
    "<|end_response|>",
    "<|end_of_solution|>",
];

fn plain(c: char) -> char {
    match c {
        '｜' => '|',
        '▁' => '_',
        c => c.to_ascii_lowercase(),
    }
}

/// How a text begins with a mark.
pub(super) fn begins(text: &str, mark: &str) -> Begins<()> {
    let (mut chars, mut n) = (text.chars(), 0);
    for want in mark.chars() {
        match chars.next() {
            None => return Begins::Perhaps,
            Some(c) if plain(c) == want => n += c.len_utf8(),
            Some(_) => return Begins::No,
        }
    }
    Begins::Whole(n, ())
}

fn any<T>(text: &str, marks: impl IntoIterator<Item = (&'static str, T)>) -> Begins<T> {
    marks.into_iter().fold(Begins::No, |found, (mark, what)| found.or(|| begins(text, mark).map(|()| what)))
}

/// Where a text has a mark, with where that ends.
pub(super) fn find(text: &str, mark: &str) -> Option<(usize, usize)> {
    let first = mark.chars().next()?;
    let starts = text.char_indices().filter(|(_, c)| plain(*c) == first);
    starts.into_iter().find_map(|(at, _)| match begins(&text[at..], mark) {
        Begins::Whole(n, ()) => Some((at, at + n)),
        Begins::Perhaps | Begins::No => None,
    })
}

/// What closes the reasoning that a text begins with.
pub(super) fn opens_reasoning(text: &str) -> Begins<&'static str> {
    match any(text, REASONING) {
        // A word of that name is none: "analysis of the data".
        Begins::Whole(n, close) if n == BARE_ANALYSIS.len() && !text.starts_with(['<', '[']) => {
            match text[n..].chars().next() {
                None => Begins::Perhaps,
                Some(c) if c.is_uppercase() => Begins::Whole(n, close),
                Some(_) => Begins::No,
            }
        }
        begins => begins,
    }
}

/// A mark that closes reasoning and nothing else.
pub(super) fn closes_reasoning(text: &str) -> Begins<()> {
    let closes = REASONING.into_iter().map(|(_, close)| close);
    any(text, closes.filter(|close| !close.starts_with('a') && *close != "<|end|>").map(|close| (close, ())))
}

/// What closes the call that a text begins with. Where the mark has a name in it, it is read to the end of that.
pub(super) fn opens_call(text: &str) -> Begins<&'static str> {
    match any(text, CALLS) {
        Begins::Whole(n, close) if text[..n].ends_with('=') => match tag_end(&text[n..]) {
            Begins::Whole(more, ()) => Begins::Whole(n + more, close),
            Begins::Perhaps => Begins::Perhaps,
            Begins::No => Begins::No,
        },
        begins => begins,
    }
}

/// Longest name, with quotes around it, that a tag has.
const TAG_NAME_MAX: usize = 80;

/// The rest of a tag from its name on.
fn tag_end(text: &str) -> Begins<()> {
    for (at, c) in text.char_indices() {
        if c == '>' {
            return if at > 0 { Begins::Whole(at + 1, ()) } else { Begins::No };
        }
        let fits = c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '"' | '\'');
        if !fits || at > TAG_NAME_MAX {
            return Begins::No;
        }
    }
    Begins::Perhaps
}

/// What is left over of a call behind its block, or of a turn's end.
pub(super) fn is_left_over(text: &str) -> Begins<()> {
    let closes = CALLS.into_iter().map(|(_, close)| close).filter(|close| close.starts_with('<'));
    any(text, closes.chain(AFTER).map(|mark| (mark, ())))
}

pub(super) fn ends_turn(text: &str) -> Begins<()> {
    any(text, AFTER.map(|mark| (mark, ())))
}

/// What stands before an answer and is no part of it: a role, our own header.
pub(super) fn is_before(text: &str) -> Begins<()> {
    any(text, BEFORE.map(|mark| (mark, ()))).or(|| header::echoed(text))
}

/// What closes the frame that the answer behind reasoning begins with.
pub(super) fn opens_frame(text: &str) -> Begins<&'static str> {
    any(text, FRAMES)
}

/// What ends a message of harmony: true where that belongs to the message, and not to the next.
pub(super) fn ends_message(text: &str) -> Begins<bool> {
    any(text, HARMONY_ENDS.map(|mark| (mark, mark != HARMONY_START && mark != HARMONY_CHANNEL)))
}

/// A message of harmony, by its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Reasoning,
    Words,
    /// A call of that tool.
    Call(String),
}

/// The head of a message of harmony: `<|channel|>analysis<|message|>`, with `<|start|>assistant` before it or not.
pub(super) fn opens_message(text: &str) -> Begins<Message> {
    match any(text, [(HARMONY_START, ()), (HARMONY_CHANNEL, ())]) {
        Begins::Whole(..) => {}
        Begins::Perhaps => return Begins::Perhaps,
        Begins::No => return Begins::No,
    }
    let window = &text[..text.floor_char_boundary(HARMONY_HEAD_MAX)];
    let head = window.split('\n').next().unwrap_or_default();
    match find(head, HARMONY_MESSAGE) {
        Some((at, end)) => Begins::Whole(end, message_of(&head[..at])),
        None if head.len() < text.len() => Begins::No,
        None => Begins::Perhaps,
    }
}

fn message_of(head: &str) -> Message {
    let word = |behind: &str| {
        let (_, end) = find(head, behind)?;
        head[end..].split(|c: char| c.is_whitespace() || c == '<').next()
    };
    let role = word(HARMONY_START).unwrap_or("assistant");
    match word("to=") {
        // Its own role's words follow; anybody else's are made up.
        Some(tool) if role == "assistant" => Message::Call(tool.to_owned()),
        _ if role != "assistant" || word(HARMONY_CHANNEL) == Some("analysis") => Message::Reasoning,
        _ => Message::Words,
    }
}
