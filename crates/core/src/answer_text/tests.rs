//! What counts as a mark and what merely mentions one, in every form; and that it does not matter how an answer is cut.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use cairn_types::message::{Author, header};
use cairn_types::tool::defs::ToolDef;

fn tools() -> ToolDefs {
    let tool = |name: &str, parameters: Value| ToolDef {
        name: name.to_owned(),
        description: "finds what was said".to_owned(),
        parameters,
    };
    let find =
        json!({"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}});
    vec![tool("find", find), tool("time", json!({"type": "object"}))].into()
}

/// An answer, whatever its pieces.
#[derive(Debug, Default, Clone, PartialEq)]
struct Answer {
    text: String,
    reasoning: String,
    calls: Vec<(String, Value, bool)>,
}

impl Answer {
    fn take(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.text.push_str(&text),
                Piece::Reasoning(text) => self.reasoning.push_str(&text),
                Piece::TextWasReasoning => self.reasoning.push_str(&std::mem::take(&mut self.text)),
                Piece::Call { name, arguments, is_sound } => self.calls.push((name, arguments, is_sound)),
            }
        }
    }

    fn calls(&self) -> String {
        let one = |(name, arguments, is_sound): &(String, Value, bool)| {
            format!("{}{name} {arguments}", if *is_sound { "" } else { "!" })
        };
        self.calls.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

/// What comes of an answer in pieces of so many characters.
fn in_pieces(text: &str, width: usize, amid: bool, tools: &ToolDefs) -> Answer {
    let (mut answer, mut out) = (AnswerText::new(tools.clone(), amid), Answer::default());
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(width.max(1)) {
        out.take(answer.push(&piece.iter().collect::<String>()));
    }
    out.take(answer.end(false));
    out
}

fn answer_with(text: &str, amid: bool, tools: &ToolDefs) -> Answer {
    let whole = in_pieces(text, text.len(), amid, tools);
    for width in [1, 2, 3, 7, 20] {
        assert_eq!(in_pieces(text, width, amid, tools), whole, "{text:?} in pieces of {width}");
    }
    whole
}

fn answer(text: &str) -> Answer {
    answer_with(text, false, &tools())
}

#[rstest]
#[case::think("<think>\nI greet.\n</think>\n\nHello!", "\nI greet.\n", "Hello!")]
#[case::empty("<think>\n\n</think>\n\nHello!", "\n\n", "Hello!")]
#[case::on_one_line("<thought>Ann is here.</thought>Hello, Ann!", "Ann is here.", "Hello, Ann!")]
#[case::in_capitals("  <THINKING>a</thinking> b", "a", "b")]
#[case::other_names("<reasoning>a</reasoning><reflection>b</reflection>c", "ab", "c")]
#[case::kimi_vl("◁think▷a◁/think▷b", "a", "b")]
#[case::magistral("[THINK]a[/THINK]b", "a", "b")]
#[case::command("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", "a", "b")]
#[case::gemma("<|channel>thought\na\n<channel|>b", "a\n", "b")]
#[case::framed("<think>a</think>\n<answer>\nb\n</answer>", "a", "b\n")]
#[case::harmony(
    "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
    "a",
    "b"
)]
#[case::harmony_without_marks("analysisWe greet.assistantfinalHello!", "We greet.", "Hello!")]
#[case::harmony_in_two(
    "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>final<|message|>b",
    "",
    "I look.\n\nb"
)]
#[case::with_a_role("<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>", "", "Hello!")]
#[case::it_holds_another(
    "<think>the tag <think> and a call <tool_call>{}</tool_call></think>b",
    "the tag <think> and a call <tool_call>{}</tool_call>",
    "b"
)]
#[case::no_opening_tag("So Ann is here.\n</think>\n\nHello!", "So Ann is here.", "Hello!")]
#[case::no_opening_tag_on_one_line("Ann is here.</think>Hello!", "Ann is here.", "Hello!")]
#[case::no_opening_tag_behind_a_quote("I say \"Hello!\"</think>\n😀 Hello!", "I say \"Hello!\"", "😀 Hello!")]
#[case::no_opening_tag_before_a_blank("I greet.</think> Hello!", "I greet.", "Hello!")]
#[case::nothing_before_it("\n</think>\n\nHello!", "", "Hello!")]
#[case::no_opening_tag_of_magistral("Ann is here.\n[/THINK]Hello!", "Ann is here.", "Hello!")]
#[case::a_header_behind_it("<think>a</think>\n[main | 2026-11-26 23:38] b", "a", "b")]
#[case::a_header_before_it("[main | 2026-11-26 23:38] <think>a</think>b", "a", "b")]
fn reasoning_is_told_from_the_answer(#[case] said: &str, #[case] reasoning: &str, #[case] text: &str) {
    let expected = Answer { text: text.to_owned(), reasoning: reasoning.to_owned(), calls: Vec::new() };
    assert_eq!(answer(said), expected);
}

#[rstest]
#[case::plain("Hello!\n\nAnd  so on.\n")]
#[case::blank("  \n Hello \n")]
#[case::nothing("")]
#[case::whitespace(" \n\n ")]
#[case::tag_in_code("`<think>` opens it, `</think>` closes it.")]
#[case::tags_in_a_sentence("R1 writes <think> before its reasoning and </think> behind it.")]
#[case::closing_tag_in_a_sentence("R1 ends its reasoning with </think>, then answers.")]
#[case::closing_tag_in_quotes("It writes \"</think>\" and (</think>) there.")]
#[case::closing_tag_ends_a_line("It ends with </think>\nThen it answers.")]
#[case::tags_in_a_fence("So:\n```\n<think>\na\n</think>\nb\n```\nDone.")]
#[case::xml("<doc>\n<reasoning>\na\n</reasoning>\n</doc>\n")]
#[case::a_block_later("Look:\n<think>\na\n</think>\nb")]
#[case::a_word_like_a_tag("analysis of the data shows it")]
#[case::a_title("Analysis\n\nIt shows it.")]
#[case::angle_brackets("a < b, <b>bold</b> and <|x|>")]
#[case::brackets("[1] see [here](https://example.org) and [a, b]\n[x] done")]
#[case::json("{\"a\": 1}\n")]
#[case::json_with_a_name("{\"name\": \"Ann\", \"parameters\": {\"age\": 9}}")]
#[case::json_of_no_tool("```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n```")]
#[case::json_list("[{\"name\": \"Ann\"}, {\"name\": \"Bob\"}]")]
#[case::a_tool_s_definition(
    "{\"name\": \"find\", \"description\": \"d\", \"parameters\": {\"type\": \"object\"}}"
)]
#[case::code("```python\nprint(1)\n```")]
#[case::code_that_calls("```python\nfinder = find\n```\n")]
#[case::harmony_in_a_sentence("gpt-oss writes <|channel|>analysis<|message|> first.")]
#[case::end_mark_in_a_sentence("ChatML ends with <|im_end|>")]
#[case::header_of_another_form("[main | 2026-11-26] Hello")]
#[case::header_with_seconds("[main | 2026-11-26 23:38:01] Hello")]
#[case::header_of_nobody("[ | 2026-11-26 23:38] Hello")]
#[case::header_with_a_zone("[main | 2026-11-26 23:38 UTC] Hello")]
#[case::header_within("He wrote\n[Ann | 2026-11-26 23:38] Hello")]
#[case::header_and_nothing_between("[main | 2026-11-26 23:38]Hello")]
fn text_without_a_mark_of_its_own_stays_as_it_is(#[case] said: &str) {
    assert_eq!(answer(said), Answer { text: said.to_owned(), ..Answer::default() });
}

#[rstest]
#[case::one("[main | 2026-11-26 23:38] Hello there", "Hello there")]
#[case::twice("[main | 2026-11-26 23:38] [main | 2026-11-26 23:38] Hello", "Hello")]
#[case::on_a_line_of_its_own("[Ann B. | 2026-11-26 23:38]\nHello", "Hello")]
#[case::nothing_else("[main | 2026-11-26 23:38]", "")]
#[case::longest(&format!("[{} | 2026-11-26 23:38] Hello", "x".repeat(64)), "Hello")]
fn our_own_header_is_left_out(#[case] said: &str, #[case] text: &str) {
    assert_eq!(answer(said).text, text);
}

#[test]
fn a_header_is_left_out_as_it_is_written() {
    for name in ["main", "Zoë [admin] | x", "  ", "a\u{202e}b", &"y".repeat(100)] {
        let author = Author { id: "local/a".to_owned(), name: name.to_owned() };
        let header = header(Some(&author), jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(answer(&format!("{header}Hello")).text, "Hello", "{header}");
    }
}

#[rstest]
#[case::hermes("<tool_call>\n{\"name\": \"find\", \"arguments\": {\"query\": \"gate\"}}\n</tool_call>")]
#[case::not_closed("<tool_call>\n{\"name\": \"find\", \"arguments\": {\"query\": \"gate\"}}")]
#[case::end_mark("<tool_call>\n{\"name\": \"find\", \"arguments\": {\"query\": \"gate\"}}<|im_end|>")]
#[case::arguments_as_text(
    "<tool_call>{\"name\": \"find\", \"arguments\": \"{\\\"query\\\": \\\"gate\\\"}\"}</tool_call>"
)]
#[case::python_s_quotes("<tool_call>{'name': 'find', 'arguments': {'query': 'gate'}}</tool_call>")]
#[case::in_openai_s_form(
    "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"find\", \"arguments\": {\"query\": \"gate\"}}}</tool_call>"
)]
#[case::a_list("<tool_calls>[{\"name\": \"find\", \"arguments\": {\"query\": \"gate\"}}]</tool_calls>")]
#[case::nemotron("<TOOLCALL>[{\"name\": \"find\", \"arguments\": {\"query\": \"gate\"}}]</TOOLCALL>")]
#[case::qwen_coder_2("<tools>\n{\"name\": \"find\", \"arguments\": {\"query\": \"gate\"}}\n</tools>")]
#[case::qwen_coder(
    "<tool_call>\n<function=find>\n<parameter=query>\ngate\n</parameter>\n</function>\n</tool_call>"
)]
#[case::qwen_coder_without_its_first_tag(
    "<function=find>\n<parameter=query>\ngate\n</parameter>\n</function>\n</tool_call>"
)]
#[case::llama_in_a_tag("<function=find>{\"query\": \"gate\"}</function>")]
#[case::glm("<tool_call>find\n<arg_key>query</arg_key>\n<arg_value>gate</arg_value>\n</tool_call>")]
#[case::longcat(
    "<longcat_tool_call>find\n<longcat_arg_key>query</longcat_arg_key>\n<longcat_arg_value>gate</longcat_arg_value>\n</longcat_tool_call>"
)]
#[case::mistral("[TOOL_CALLS][{\"name\": \"find\", \"arguments\": {\"query\": \"gate\"}}]")]
#[case::mistral_by_name("[TOOL_CALLS]find[ARGS]{\"query\": \"gate\"}")]
#[case::mistral_with_an_id("[TOOL_CALLS]find[CALL_ID]abc123def[ARGS]{\"query\": \"gate\"}</s>")]
#[case::deepseek_3(
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>find\n```json\n{\"query\": \"gate\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)]
#[case::deepseek_3_1(
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>find<｜tool▁sep｜>{\"query\": \"gate\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)]
#[case::deepseek_4(
    "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"find\">\n<｜DSML｜parameter name=\"query\" string=\"true\">gate</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
)]
#[case::kimi(
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.find:0<|tool_call_argument_begin|>{\"query\": \"gate\"}<|tool_call_end|><|tool_calls_section_end|>"
)]
#[case::llama("{\"name\": \"find\", \"parameters\": {\"query\": \"gate\"}}")]
#[case::llama_in_python_s_tag(
    "<|python_tag|>{\"type\": \"function\", \"name\": \"find\", \"parameters\": {\"query\": \"gate\"}}<|eom_id|>"
)]
#[case::llama_s_built_in("<|python_tag|>find.call(query=\"gate\")")]
#[case::llama_4("[find(query=\"gate\")]")]
#[case::lfm("<|tool_call_start|>[find(query='gate')]<|tool_call_end|>")]
#[case::granite("<|tool_call|>[{\"name\": \"find\", \"arguments\": {\"query\": \"gate\"}}]")]
#[case::gemma("<|tool_call>call:find{query:<|\"|>gate<|\"|>}<tool_call|>")]
#[case::function_gemma("<start_function_call>call:find{query:<escape>gate<escape>}<end_function_call>")]
#[case::gemma_in_code("```tool_code\nprint(find(query=\"gate\"))\n```")]
#[case::command(
    "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"find\", \"parameters\": {\"query\": \"gate\"}}]<|END_ACTION|>"
)]
#[case::internlm(
    "<|action_start|><|plugin|>{\"name\": \"find\", \"parameters\": {\"query\": \"gate\"}}<|action_end|>"
)]
#[case::apertus("<|tools_prefix|>[{\"find\": {\"query\": \"gate\"}}]<|tools_suffix|>")]
#[case::minimax(
    "<minimax:tool_call>\n<invoke name=\"find\">\n<parameter name=\"query\">gate</parameter>\n</invoke>\n</minimax:tool_call>"
)]
#[case::xml(
    "<function_calls>\n<invoke name=\"find\">\n<parameter name=\"query\">gate</parameter>\n</invoke>\n</function_calls>"
)]
#[case::seed(
    "<seed:tool_call>\n<function=find>\n<parameter=query>gate</parameter>\n</function>\n</seed:tool_call>"
)]
#[case::harmony(
    "<|channel|>commentary to=functions.find <|constrain|>json<|message|>{\"query\": \"gate\"}<|call|>"
)]
#[case::harmony_by_role(
    "<|start|>assistant to=functions.find<|channel|>commentary json<|message|>{\"query\": \"gate\"}"
)]
#[case::in_a_fence("```json\n{\"name\": \"find\", \"arguments\": {\"query\": \"gate\"}}\n```")]
#[case::marked_in_a_fence(
    "```xml\n<tool_call>{\"name\": \"find\", \"arguments\": {\"query\": \"gate\"}}</tool_call>\n```\n"
)]
#[case::as_we_tell_it("[called find {\"query\":\"gate\"}]")]
fn a_call_in_any_form_is_one(#[case] said: &str) {
    for before in ["", "\n\n", "I look.\n\n", "[main | 2026-11-26 23:38] ", "<think>\nI look.\n</think>\n\n"]
    {
        // Messages of harmony begin an answer.
        if said.contains("<|message|>") && before.contains("look") {
            continue;
        }
        let answer = answer(&format!("{before}{said}"));
        assert_eq!(answer.calls(), "find {\"query\":\"gate\"}", "{before:?} before it");
        assert_eq!(
            answer.text,
            if before.starts_with("I look") { "I look." } else { "" },
            "{before:?} before it"
        );
    }
}

#[rstest]
#[case::hermes(
    "<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"find\", \"arguments\": {\"limit\": 3}}</tool_call>"
)]
#[case::without_arguments(
    "<tool_call>{\"name\": \"time\"}</tool_call><tool_call>{\"name\": \"find\", \"arguments\": {\"limit\": 3}}</tool_call>"
)]
#[case::json(
    "{\"name\": \"time\", \"parameters\": {}}; {\"name\": \"find\", \"parameters\": {\"limit\": 3}}"
)]
#[case::json_in_lines(
    "{\"name\": \"time\", \"arguments\": {}}\n{\"name\": \"find\", \"arguments\": {\"limit\": 3}}\n"
)]
#[case::qwen_coder(
    "<function=time>\n</function>\n<function=find>\n<parameter=limit>\n3\n</parameter>\n</function>"
)]
#[case::glm(
    "<tool_call>time</tool_call>\n<tool_call>find<arg_key>limit</arg_key><arg_value>3</arg_value></tool_call>"
)]
#[case::kimi(
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.time:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_begin|>functions.find:1<|tool_call_argument_begin|>{\"limit\": 3}<|tool_call_end|><|tool_calls_section_end|>"
)]
#[case::mistral("[TOOL_CALLS]time[ARGS]{}[TOOL_CALLS]find[ARGS]{\"limit\": 3}")]
#[case::python("[time(), find(limit=3)]")]
#[case::invoked(
    "<function_calls><invoke name=\"time\"></invoke><invoke name=\"find\"><parameter name=\"limit\">3</parameter></invoke></function_calls>"
)]
#[case::as_we_tell_them("[called time {}]\n[called find {\"limit\":3}]")]
#[case::harmony(
    "<|channel|>commentary to=functions.time<|message|>{}<|call|><|start|>assistant<|channel|>commentary to=functions.find<|message|>{\"limit\": 3}<|call|>"
)]
fn several_calls_are_all_found(#[case] said: &str) {
    assert_eq!(answer(said).calls(), "time {}; find {\"limit\":3}");
}

#[rstest]
#[case::no_such_tool("<tool_call>{\"name\": \"fetch\", \"arguments\": {}}</tool_call>", "!fetch {}")]
#[case::behind_words("I look.\n<tool_call>{\"name\": \"fetch\", \"arguments\": {}}</tool_call>", "!fetch {}")]
#[case::broken(
    "<tool_call>{\"name\": \"find\", \"arguments\": {\"query\": \"gate}</tool_call>",
    "!find \"{\\\"name\\\": \\\"find\\\", \\\"arguments\\\": {\\\"query\\\": \\\"gate}\""
)]
#[case::no_name(
    "<tool_call>{\"query\": \"gate\"}</tool_call>",
    "!malformed_call \"<tool_call>{\\\"query\\\": \\\"gate\\\"}</tool_call>\""
)]
#[case::a_name_that_no_server_takes("[TOOL_CALLS]find.it[ARGS]{}", "!malformed_call {}")]
#[case::as_we_tell_it("[called fetch {\"url\":\"x\"}]", "!fetch {\"url\":\"x\"}")]
#[case::harmony(
    "<|channel|>commentary to=browser.open<|message|>{\"id\": 1}<|call|>",
    "!malformed_call {\"id\":1}"
)]
fn a_call_that_cannot_be_run_is_told_so_and_not_posted(#[case] said: &str, #[case] calls: &str) {
    let answer = answer(said);
    assert_eq!(answer.calls(), calls);
    assert!(answer.text.is_empty() || answer.text == "I look.", "{}", answer.text);
}

#[rstest]
#[case::in_a_fence_amid_words(
    "Qwen writes:\n```\n<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call>\n```\nSo it does."
)]
#[case::json_in_a_fence_amid_words(
    "Write:\n```json\n{\"name\": \"find\", \"arguments\": {}}\n```\nand send it."
)]
#[case::json_before_words("{\"name\": \"find\", \"arguments\": {}}\nis what I would send.")]
#[case::in_code("Qwen writes `<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call>`")]
#[case::in_a_sentence("Qwen writes <tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call> for that.")]
#[case::tags_alone("Qwen puts calls between <tool_call> and </tool_call>.")]
#[case::a_tag_at_the_beginning("<tool_call> tags are what Qwen writes.")]
#[case::of_no_tool_amid_words(
    "Qwen writes\n<tool_call>{\"name\": \"fetch\", \"arguments\": {}}</tool_call>\nfor that."
)]
#[case::of_no_tool_in_a_line("Such as <tool_call>{\"name\": \"fetch\", \"arguments\": {}}</tool_call>")]
#[case::in_an_open_fence("So:\n```html\n<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call>")]
#[case::mistral_in_a_sentence("Mistral writes [TOOL_CALLS] first.")]
#[case::told_in_a_sentence("It says [called find {\"query\":\"gate\"}] there.")]
#[case::python_of_no_tool("[fetch(url=\"x\")]")]
#[case::python_in_a_sentence("Call find(query=\"gate\").")]
fn a_call_that_is_only_mentioned_stays_as_it_is(#[case] said: &str) {
    assert_eq!(answer(said), Answer { text: said.to_owned(), ..Answer::default() });
}

#[rstest]
#[case::made_up_results(
    "<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call>\n<tool_response>4711</tool_response>\nIt is 4711.",
    ""
)]
#[case::made_up_in_our_words("[called find {}]\n[result of find]\nIt is 4711.", "")]
#[case::words_on_the_same_line(
    "<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call> One moment.",
    ""
)]
#[case::words_around_it(
    "I look.\n<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call>\nOne moment.",
    "I look."
)]
fn what_is_written_behind_a_call_is_not_posted(#[case] said: &str, #[case] text: &str) {
    let answer = answer(said);
    assert_eq!((answer.calls().as_str(), answer.text.as_str()), ("find {}", text));
    assert!(answer.reasoning.ends_with('.'), "{}", answer.reasoning);
}

#[rstest]
#[case::marked("<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call>", "!find {}", "")]
#[case::told("[called find {}]", "!find {}", "")]
#[case::bare("{\"name\": \"find\", \"arguments\": {}}", "", "{\"name\": \"find\", \"arguments\": {}}")]
fn where_no_tools_are_offered_a_mark_is_not_posted_either(
    #[case] said: &str,
    #[case] calls: &str,
    #[case] text: &str,
) {
    let answer = answer_with(said, false, &ToolDefs::default());
    assert_eq!((answer.calls().as_str(), answer.text.as_str()), (calls, text));
}

#[test]
fn reasoning_that_does_not_close_loses_nothing() {
    assert_eq!(answer("<think>\nAnn is here. Hello!").text, "\nAnn is here. Hello!");
    assert_eq!(answer("<think>Ann is here. Hello!").text, "<think>Ann is here. Hello!");
    let said = "<think>\nI look.\n<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call>";
    assert_eq!((answer(said).calls().as_str(), answer(said).text.as_str()), ("find {}", ""));
    // Cut off, it is what the tokens went for.
    let mut cut = AnswerText::new(tools(), false);
    let mut out = Answer::default();
    out.take(cut.push("<think>\nAnn is"));
    out.take(cut.end(true));
    assert_eq!(out, Answer { reasoning: "\nAnn is".to_owned(), ..Answer::default() });
}

#[test]
fn a_model_that_begins_amid_reasoning_is_believed_the_next_time() {
    let said = "Ann is here.\n</think>\n\nHello!";
    let mut first = AnswerText::new(tools(), false);
    assert!(matches!(&first.push(said)[..], [Piece::Text(_), Piece::TextWasReasoning, Piece::Text(_)]));
    assert_eq!(first.began_amid(), Some(true));
    let mut second = AnswerText::new(tools(), true);
    let pieces = second.push(said);
    assert!(!pieces.contains(&Piece::TextWasReasoning), "{pieces:?}");
    assert_eq!(answer_with(said, true, &tools()).text, "Hello!");
    // Without any closing tag it was the answer after all.
    let mut third = AnswerText::new(tools(), true);
    let mut out = Answer::default();
    out.take(third.push("Hello!"));
    assert_eq!(out.text, "");
    out.take(third.end(false));
    assert_eq!((out.text.as_str(), third.began_amid()), ("Hello!", Some(false)));
    let closed = answer_with("<think>a</think>b", true, &tools());
    assert_eq!((closed.reasoning.as_str(), closed.text.as_str()), ("a", "b"));
    let mentioned = answer_with("I say `</think>` and </think>, then\n</think>\nb", true, &tools());
    assert_eq!(mentioned.text, "b");
}

#[test]
fn text_is_held_back_no_longer_than_it_may_be_a_mark() {
    let mut answer = AnswerText::new(tools(), false);
    let said = |pieces: Vec<Piece>| {
        let mut out = Answer::default();
        out.take(pieces);
        out.text
    };
    for (piece, shown) in [
        ("<th", ""),
        ("anks", "<thanks"),
        (" [t", ""),
        ("d] <tool", " [td]"),
        ("ing", " <tooling"),
        ("\n{\"na", ""),
        ("t\": 1", "\n{\"nat\": 1"),
        ("\n{\"name\": \"fi", ""),
        ("sh\"", "\n{\"name\": \"fish\""),
        ("\n[called", ""),
        (" me]", "\n[called me]"),
        ("\n```js", ""),
        ("on\n{\"a\": ", "\n```json\n{\"a\":"),
    ] {
        assert_eq!(said(answer.push(piece)), shown, "after {piece:?}");
    }
}

fn fragments() -> impl Strategy<Value = String> {
    let marks = prop::sample::select(vec![
        "<think>",
        "</think>",
        "\n",
        "\n\n",
        " ",
        "```",
        "```json\n",
        "`",
        "<tool_call>",
        "</tool_call>",
        "Hello",
        "{\"name\": \"find\", \"arguments\": {}}",
        "{\"name\": \"fetch\", \"arguments\": {}}",
        "[called find {}]",
        "[main | 2026-11-26 23:38] ",
        "<|im_end|>",
        "<|channel|>analysis<|message|>",
        "<|end|>",
        "<|start|>assistant",
        "<function=find>",
        "</function>",
        "[TOOL_CALLS]",
        "find[ARGS]{}",
        "analysisX",
        "assistantfinal",
        "<answer>",
        "</answer>",
        "◁/think▷",
        "é",
        ", and so on. ",
        "{",
        "}",
        "\"",
        "<",
        "[",
    ]);
    prop::collection::vec(marks, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn however_an_answer_is_cut_the_pieces_are_the_same(
        text in fragments(), cuts in prop::collection::vec(1_usize..9, 1..20), amid in any::<bool>(),
    ) {
        let whole = in_pieces(&text, text.len(), amid, &tools());
        let (mut answer, mut out) = (AnswerText::new(tools(), amid), Answer::default());
        let (mut rest, mut widths) = (text.as_str(), cuts.iter().cycle());
        while !rest.is_empty() {
            let n = rest.ceil_char_boundary(*widths.next().unwrap());
            out.take(answer.push(&rest[..n]));
            rest = &rest[n..];
        }
        out.take(answer.end(false));
        prop_assert_eq!(out, whole);
    }

    #[test]
    fn text_without_marks_is_never_changed(text in "[a-zA-Z0-9 .,\n`#*(){}\"':é-]{0,200}", width in 1_usize..20) {
        // JSON calls and words such as `analysisA` are marks by themselves.
        prop_assume!(!text.contains("name") && !text.trim_start().to_lowercase().starts_with("analysis"));
        prop_assert_eq!(in_pieces(&text, width, false, &tools()).text, text);
    }
}
