//! What summaries keep of real conversations: each is talked through the binary; then the words that questions ask for are
//! looked for in the stack, where what holds them has left the live history.

use std::collections::HashSet;
use std::error::Error;
use std::path::Path;

use cairn_bench::load::summary;
use cairn_bench::locomo::{self, Conversation, Question, beam};
use cairn_testkit::daemon::Daemon;
use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_types::text::words::topic_words;
use serde_json::Value;

use crate::recall::json;

/// Who writes the summaries.
const AUTHORS: [&str; 2] = ["digest", "model"];

const WINDOWS: [u64; 3] = [8_000, 16_000, 32_000];

/// What one conversation shows at the end; add them up.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    /// Questions whose evidence has left, and for each the share of its words that stand in the stack.
    n: usize,
    words: f64,
    /// Questions that ask for a number or a date, and the share of those.
    n_figures: usize,
    figures: f64,
    /// Share of the stack's room that is used.
    filled: f64,
}

/// Prints a row for each window and author.
pub(crate) async fn run(cairn: &Path, file: &Path, dir: &Path) -> Result<(), Box<dyn Error>> {
    let conversations = locomo::load(file).or_else(|_| beam::load(file))?;
    println!("window   author   questions   words   figures   stack used");
    for window in WINDOWS {
        for author in AUTHORS {
            let mut sum = Found::default();
            for (idx, conversation) in conversations.iter().enumerate() {
                let home = dir.join(format!("{window}-{author}-{idx}"));
                std::fs::create_dir(&home)?;
                let found = talk(cairn, &home, conversation, window, author).await?;
                sum.n += found.n;
                sum.words += found.words;
                sum.n_figures += found.n_figures;
                sum.figures += found.figures;
                sum.filled += found.filled / conversations.len() as f64;
            }
            let percent = |part: f64, n: usize| 100.0 * part / n.max(1) as f64;
            println!(
                "{window:>6}   {author:<6}   {:>9}   {:>5.1}   {:>7.1}   {:>10.1}",
                sum.n,
                percent(sum.words, sum.n),
                percent(sum.figures, sum.n_figures),
                100.0 * sum.filled
            );
        }
    }
    Ok(())
}

/// Talks one conversation through, and looks what is there at its end.
async fn talk(
    cairn: &Path,
    dir: &Path,
    conversation: &Conversation,
    window: u64,
    author: &str,
) -> Result<Found, Box<dyn Error>> {
    let model = FakeModel::builder()
        .lenient()
        .unrecorded()
        .respond(|seen| (seen.kind == Kind::Compaction).then(|| Answer::text(summary(&seen.body))))
        .start()
        .await;
    let writer = if author == "digest" { "model = \"extract\"\n" } else { "" };
    let config = format!(
        "[defaults.compaction]\ntokens_per_hour = 0\n{writer}\n[[models]]\nid = \"main\"\nprovider = \"openai\"\n\
         base_url = \"{}\"\nmodel = \"fake\"\ncontext_window = {window}\nmax_output_tokens = 1000\n\n\
         [[models]]\nid = \"extract\"\nprovider = \"offline\"\n\n[[agents]]\nid = \"main\"\nmodels = [\"main\"]\n",
        model.base_url()
    );
    let path = dir.join("config.toml");
    std::fs::write(&path, config)?;
    let state = dir.join("state");
    let daemon = Daemon::start(cairn, &state, Some(&path)).await?;
    for turn in &conversation.turns {
        model.push(Kind::Reply, Answer::text(turn.reply.as_deref().unwrap_or("I see.")));
    }
    let lines = dir.join("talk.jsonl");
    std::fs::write(&lines, locomo::talk_lines(conversation))?;
    json(cairn, &state, &["import", "--answer", &lines.to_string_lossy(), "--json"]).await?;
    let context = json(cairn, &state, &["context", "main", "--json"]).await?;
    daemon.stop().await?;
    Ok(found(conversation, &context, n_left(&context)))
}

/// How many turns have left the live history whole.
fn n_left(context: &Value) -> usize {
    let items = ["summaries", "markers"].into_iter().filter_map(|list| context[list].as_array()).flatten();
    // A message and its answer are two entries.
    (items.filter_map(|item| item["to_seq"].as_u64()).max().unwrap_or(0) / 2) as usize
}

fn found(conversation: &Conversation, context: &Value, n_left: usize) -> Found {
    let mut stack = String::new();
    for list in ["summaries", "markers"] {
        for item in context[list].as_array().into_iter().flatten() {
            stack.push_str(item["text"].as_str().unwrap_or_default());
            stack.push('\n');
            for identifier in item["identifiers"].as_array().into_iter().flatten() {
                stack.push_str(identifier.as_str().unwrap_or_default());
                stack.push('\n');
            }
        }
    }
    let stands: HashSet<String> = topic_words(&stack).into_iter().collect();
    let share = |words: &[&String]| {
        let n = words.iter().filter(|word| stands.contains(**word)).count();
        n as f64 / words.len() as f64
    };
    let mut sum = Found::default();
    for question in &conversation.questions {
        let words = wanted(conversation, question, n_left);
        if words.is_empty() {
            continue;
        }
        sum.n += 1;
        sum.words += share(&words.iter().collect::<Vec<_>>());
        let figures: Vec<&String> =
            words.iter().filter(|word| word.bytes().any(|byte| byte.is_ascii_digit())).collect();
        if !figures.is_empty() {
            sum.n_figures += 1;
            sum.figures += share(&figures);
        }
    }
    let tokens = context["regions"]["summaries"]["tokens"].as_f64().unwrap_or(0.0);
    let (window, reserve) = (&context["window_tokens"], &context["output_reserve_tokens"]);
    let usable = window.as_f64().unwrap_or(1.0) - reserve.as_f64().unwrap_or(0.0);
    sum.filled = tokens / (usable * 0.25);
    sum
}

/// The words of the answer that its evidence has, or all of the evidence where the file has no answers. Empty when some of the
/// evidence is still live.
fn wanted(conversation: &Conversation, question: &Question, n_left: usize) -> HashSet<String> {
    let places = question.evidence.iter().map(|evidence| evidence.turn);
    if places.clone().any(|place| place >= n_left) {
        return HashSet::new();
    }
    let said: HashSet<String> =
        places.flat_map(|place| topic_words(&conversation.turns[place].text)).collect();
    match &question.answer {
        Some(answer) => topic_words(answer).into_iter().filter(|word| said.contains(word)).collect(),
        None => said,
    }
}
