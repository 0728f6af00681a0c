//! A fake model server by hand, for load runs: `fake-model --port 8080 --compaction-delay 10`.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use cairn_testkit::model::{Answer, Builder, Count, FakeModel, Kind, Streaming, Wording};

const HELP: &str = "\
A fake model server: replies echo the user's words, compactions get a short summary. It speaks OpenAI's chat completions,
its Responses API (api = \"responses\") and Anthropic's messages (provider = \"anthropic\"), all at the same base_url.

  --port N                 loopback port to listen at (default 8080; 0: any)
  --window N               list this window, and refuse requests over it
  --reply-delay SECONDS    wait before each reply (default 0)
  --compaction-delay SECONDS   wait before each summary (default 0)
  --o200k                  count tokens exactly instead of by estimate
  --lenient                refuse nothing but roles that do not take turns
  --wording SERVER         refuse requests over --window in the words of: openai, openai-newer, openrouter, vllm,
                           llama.cpp, llama-cpp-python, ollama, lmstudio, lmstudio-mlx, sglang, siliconflow, cloudflare,
                           kimi-bytes, chinese, anthropic, anthropic-sum, gemini, bedrock, xai, cohere, tgi, mistral (default: the wire format's own)
  --no-tools SERVER        refuse requests with tools, in those words
  --no-streaming HOW       refuse: refuse requests for a stream; ignore: answer them whole
  --fault NAME             answer every reply so: flood (words without end), stall (half an answer, then silence),
                           truncated (half an answer), unmarked (whole, without an end mark), overloaded, rate-limited, auth, error (500),
                           overflow:SERVER (too large, in those words)
";

fn main() -> ExitCode {
    cairn_testkit::program(HELP, serve)
}

fn options(arguments: &[String]) -> Result<Builder, String> {
    let mut builder = FakeModel::builder().expect_stable_prefix(false);
    let mut port = 8080;
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{name} needs a value"));
        match name.as_str() {
            "--port" => port = number(name, value()?)?,
            "--window" => {
                let window = number(name, value()?)?;
                builder = builder.window(window).advertise(window);
            }
            "--reply-delay" => builder = builder.delay(Kind::Reply, seconds(name, value()?)?),
            "--compaction-delay" => builder = builder.delay(Kind::Compaction, seconds(name, value()?)?),
            "--o200k" => builder = builder.count(Count::O200k),
            "--lenient" => builder = builder.lenient(),
            "--wording" => builder = builder.wording(wording(value()?)?),
            "--no-tools" => builder = builder.no_tools(wording(value()?)?),
            "--no-streaming" => builder = builder.streaming(streaming(value()?)?),
            "--fault" => builder = builder.fault(fault(value()?)?),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(builder.unrecorded().address(SocketAddr::from(([127, 0, 0, 1], port))))
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} needs a number, not `{value}`"))
}

fn wording(name: &str) -> Result<Wording, String> {
    let names: Vec<&str> = Wording::ALL.iter().map(|wording| wording.name()).collect();
    Wording::named(name).ok_or_else(|| format!("no server `{name}` is known: {}", names.join(", ")))
}

fn streaming(how: &str) -> Result<Streaming, String> {
    match how {
        "refuse" => Ok(Streaming::Refused),
        "ignore" => Ok(Streaming::Ignored),
        _ => Err(format!("--no-streaming needs `refuse` or `ignore`, not `{how}`")),
    }
}

fn fault(name: &str) -> Result<Answer, String> {
    let words = || Answer::text("some words of an answer that will not be whole");
    Ok(match name {
        "flood" => words().flooding(),
        "stall" => words().hanging(),
        "truncated" => words().truncated(),
        "unmarked" => words().unmarked(),
        "overloaded" => Answer::anthropic_error(529, "overloaded_error", "Overloaded"),
        "rate-limited" => Answer::error(429, "slow down").header("retry-after", "2"),
        "auth" => Answer::error(401, "invalid key"),
        "error" => Answer::error(500, "internal error"),
        _ => match name.strip_prefix("overflow:") {
            Some(server) => wording(server)?.overflow(8_192, 9_000, 1_000),
            None => return Err(format!("no fault `{name}` is known")),
        },
    })
}

fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    let seconds: f64 = number(name, value)?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| format!("{name} needs a time of at least 0, not `{value}`"))
}

async fn serve(arguments: &[String]) -> Result<(), String> {
    let model = options(arguments)?.start().await;
    println!("base_url = \"{}\"", model.base_url());
    let stopped = tokio::signal::ctrl_c().await.map_err(|error| error.to_string());
    let (replies, compactions) = (model.tally(Kind::Reply), model.tally(Kind::Compaction));
    println!("replies {replies:?}\ncompactions {compactions:?}\ncached share {:.3}", model.cached_share());
    for violation in model.violations() {
        println!("{violation}");
    }
    stopped
}
