//! Prompt caches by breakpoints: what a request wrote is read by the next one, in long loops of tool calls, too.

use cairn_llm::{Anthropic, ServerOptions};
use cairn_testkit::model::{Answer, FakeModel, Kind, Rule, Wire};
use cairn_types::tool::defs::ToolDefs;

use super::*;

/// Where the clock and the memories stand in requests of a turn.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tail {
    Last,
    /// Behind the people's words, from the turn's first request on: an answer is bound to what it followed.
    BehindPeople,
}

/// A conversation with a server that caches by breakpoints.
struct Talk {
    server: FakeModel,
    model: Box<dyn ChatModel>,
    tail: Tail,
    request: ChatRequest,
    n: usize,
}

impl Talk {
    async fn over(wire: Wire, tail: Tail) -> Self {
        let server = FakeModel::builder().breakpoints().start().await;
        let options = ServerOptions {
            cache_breakpoints: Some(true),
            ..ServerOptions::new("m", server.base_url(), "gpt-5.6-luna")
        };
        let model: Box<dyn ChatModel> = match wire {
            Wire::OpenAi => Box::new(OpenAi::new(options).unwrap()),
            Wire::Responses => Box::new(OpenAi::with_responses(options).unwrap()),
            Wire::Anthropic => Box::new(Anthropic::new(options).unwrap()),
        };
        let mut request = request("");
        request.system = vec!["prompt ".repeat(1_200), "what came before".to_owned()];
        request.tools = vec![find()].into();
        request.messages.clear();
        Self { server, model, tail, request, n: 0 }
    }

    /// What the next request reads, and what the cache holds of it afterwards.
    async fn ask(&mut self, answer: Answer) -> (Vec<ToolCall>, u64, u64) {
        self.n += 1;
        let now = ChatMessage::Context { text: format!("<context>\n{}\n</context>", self.n) };
        let mut request = self.request.clone();
        if self.tail == Tail::Last {
            request.messages.push(now);
        }
        self.server.push(Kind::Reply, answer);
        let said = ask(&*self.model, request).await.unwrap();
        let usage = said.usage.unwrap();
        (said.calls, usage.cached_tokens, usage.cached_tokens + usage.cache_write_tokens)
    }

    /// A turn with so many rounds of so many calls. What its first request reads, and what the cache then holds; and what it
    /// holds behind the last one.
    async fn turn(&mut self, n_rounds: usize, n_calls: usize) -> (u64, u64, u64) {
        self.request.messages.push(ChatMessage::User { parts: vec![Part::text(format!("and {}?", self.n))] });
        if self.tail == Tail::BehindPeople {
            self.request
                .messages
                .push(ChatMessage::Context { text: "<context>\nturn\n</context>".to_owned() });
        }
        let calls = || {
            (1..n_calls).fold(Answer::call("find", json!({"q": 0})), |answer, n| {
                answer.and_call("find", json!({"q": n}))
            })
        };
        let mut first = None;
        let mut held = 0;
        for round in 0..=n_rounds {
            let answer = if round < n_rounds { calls() } else { Answer::text("done") };
            let (calls, read, now_held) = self.ask(answer).await;
            match first {
                None => first = Some((read, now_held)),
                Some(_) => assert_eq!(read, held, "round {round} reads what the one before it left"),
            }
            held = now_held;
            let ids: Vec<String> = calls.iter().map(|call| call.id.clone()).collect();
            let text = if calls.is_empty() { "done".to_owned() } else { String::new() };
            self.request.messages.push(ChatMessage::assistant(text, calls));
            self.request.messages.extend(ids.into_iter().map(|call_id| ChatMessage::Tool {
                call_id,
                text: format!("found {round}"),
                images: Vec::new(),
            }));
        }
        self.request.messages.retain(|message| !matches!(message, ChatMessage::Context { .. }));
        let (read, written) = first.unwrap();
        (read, written, held)
    }
}

#[tokio::test]
async fn loops_of_thirty_calls_read_what_they_wrote_and_so_does_the_next_turn() {
    for (wire, tail, n_rounds, n_calls) in [
        (Wire::OpenAi, Tail::Last, 30, 1),
        (Wire::OpenAi, Tail::Last, 2, 30),
        (Wire::OpenAi, Tail::BehindPeople, 30, 1),
        (Wire::OpenAi, Tail::BehindPeople, 2, 30),
        (Wire::Responses, Tail::Last, 30, 1),
        (Wire::Responses, Tail::Last, 2, 30),
        (Wire::Responses, Tail::BehindPeople, 30, 1),
        (Wire::Responses, Tail::BehindPeople, 2, 30),
        (Wire::Anthropic, Tail::Last, 30, 1),
        (Wire::Anthropic, Tail::Last, 2, 30),
        (Wire::Anthropic, Tail::BehindPeople, 30, 1),
        (Wire::Anthropic, Tail::BehindPeople, 2, 30),
    ] {
        let case = format!("{wire:?}, {tail:?}, {n_rounds} rounds of {n_calls}");
        let mut talk = Talk::over(wire, tail).await;
        let (read, held, _) = talk.turn(0, 1).await;
        assert!(read == 0 && held > 1_200, "{case}");
        let (read, first_held, last_held) = talk.turn(n_rounds, n_calls).await;
        assert_eq!(read, held, "{case}");
        let (read, held, _) = talk.turn(0, 1).await;
        // Rounds that had the clock before them are another beginning once it is gone.
        let left = if tail == Tail::Last { last_held } else { first_held };
        assert_eq!(read, left, "{case}");
        assert!(held > left, "{case}");
        assert_eq!(talk.turn(0, 1).await.0, held, "{case}");
        talk.server.assert_clean();
    }
}

/// The server's own breakpoint is behind the newest message, with the clock in it.
#[tokio::test]
async fn without_breakpoints_of_ours_a_newer_model_of_openai_writes_all_and_finds_nothing() {
    let server = FakeModel::builder().breakpoints().start().await;
    let model = model(&server.base_url(), true);
    let mut talk = request("hello");
    talk.system = vec!["prompt ".repeat(1_200)];
    for n in 0..3 {
        talk.messages.push(ChatMessage::Context { text: format!("<context>\n{n}\n</context>") });
        let usage = ask(&model, talk.clone()).await.unwrap().usage.unwrap();
        assert_eq!((usage.cached_tokens, usage.cache_write_tokens), (0, usage.input_tokens));
        talk.messages.pop();
        talk.messages.push(ChatMessage::assistant("yes", Vec::new()));
        talk.messages.push(ChatMessage::User { parts: vec![Part::text("more")] });
    }
}

#[tokio::test]
async fn a_server_that_refuses_breakpoints_is_asked_without_from_then_on() {
    let server = FakeModel::start().await;
    let options = ServerOptions {
        cache_breakpoints: Some(true),
        ..ServerOptions::new("m", server.base_url(), "my-deployment")
    };
    let model = OpenAi::new(options).unwrap();
    let talk = ChatRequest { tools: ToolDefs::default(), ..request("x") };
    for _ in 0..3 {
        assert_eq!(ask(&model, talk.clone()).await.unwrap().text, "echo: x");
    }
    let rules: Vec<Rule> = server.violations().iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, [Rule::Cache], "it is refused once");
    let seen = server.requests();
    assert_eq!(seen.len(), 4);
    assert!(seen[1..].iter().all(|body| !body.to_string().contains("prompt_cache")), "{seen:?}");
    assert_eq!(seen[1]["messages"][1]["content"], "x");
}

/// A server that only speaks Anthropic's format, and knows no cache.
#[tokio::test]
async fn so_is_a_server_of_messages() {
    let server = FakeModel::start().await;
    let refusal = "messages.0.content.0.text.cache_control: Extra inputs are not permitted";
    server.push(Kind::Reply, Answer::anthropic_error(400, "invalid_request_error", refusal));
    let model = Anthropic::new(ServerOptions::new("m", server.base_url(), "local")).unwrap();
    for _ in 0..2 {
        assert_eq!(ask(&model, request("x")).await.unwrap().text, "echo: x");
    }
    let marked: Vec<bool> = server.seen().iter().map(|seen| seen.sent.contains("cache_control")).collect();
    assert_eq!(marked, [true, false, false]);
}
