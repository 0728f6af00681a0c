//! Sums: what somebody asks to be calculated, in figures or in a few words.

use cairn_core::cues::{CALCULATE, OPERATORS, spelled};

/// Longest text that is read as a sum, in bytes.
const TEXT_MAX: usize = 200;

/// Beyond this whole numbers are not exact any more.
const EXACT_MAX: f64 = 9.0e15;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token {
    Number(f64),
    /// One of `+-*/^`, or `n` for a sign before a number.
    Operator(char),
    Percent,
    Open,
    Close,
}

/// The answer to a text that is a sum and nothing else; `None` for any other text, for dates and for phone numbers.
pub(super) fn answer(text: &str) -> Option<String> {
    if text.len() > TEXT_MAX {
        return None;
    }
    let sum = figures(&spelled(text))?;
    let tokens = tokens(&sum)?;
    let n_operators = tokens
        .iter()
        .filter(|token| matches!(token, Token::Operator(c) if *c != 'n') || **token == Token::Percent)
        .count();
    let is_date =
        n_operators >= 2 && !sum.contains(' ') && sum.bytes().all(|byte| b"0123456789-/.".contains(&byte));
    if n_operators == 0 || is_date {
        return None;
    }
    let value = value(&tokens)?;
    let shown = sum.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(match value {
        value if value.is_nan() || value.is_infinite() && divides(&tokens) => {
            "That has no value: nothing can be divided by zero.".to_owned()
        }
        value if value.is_infinite() => "That is too large for me.".to_owned(),
        value => format!("{shown} = {}", written(value)),
    })
}

fn divides(tokens: &[Token]) -> bool {
    tokens.contains(&Token::Operator('/'))
}

/// The sum in figures: without the words that ask for it, its own words as signs.
fn figures(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches(['?', '=', '!', '.', ' ', '？']);
    let asked = CALCULATE.iter().find_map(|words| text.strip_prefix(words)?.strip_prefix(' '));
    let mut sum = format!(" {} ", asked.unwrap_or(text).trim());
    for (from, to) in [("×", "*"), ("·", "*"), ("÷", "/"), ("−", "-"), ("–", "-"), ("**", "^")] {
        sum = sum.replace(from, to);
    }
    for (words, sign) in OPERATORS {
        sum = sum
            .replace(&format!(" {words} "), &format!(" {sign} "))
            .replace(&format!("{words} "), &format!("{sign} "));
    }
    let is_sum = sum.chars().all(|c| c.is_ascii_digit() || " .,+-*/^%()".contains(c));
    (is_sum && sum.bytes().any(|byte| byte.is_ascii_digit())).then(|| sum.trim().to_owned())
}

fn tokens(sum: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = sum;
    while let Some(c) = rest.chars().next() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
        let n_bytes =
            if is_number(c) { rest.find(|c| !is_number(c)).unwrap_or(rest.len()) } else { c.len_utf8() };
        let (token, behind) = rest.split_at(n_bytes);
        rest = behind;
        let goes_on = matches!(tokens.last(), Some(Token::Number(_) | Token::Percent | Token::Close));
        tokens.push(match c {
            ' ' => continue,
            '(' => Token::Open,
            ')' => Token::Close,
            '%' => Token::Percent,
            '-' if !goes_on => Token::Operator('n'),
            '+' | '-' | '*' | '/' | '^' => Token::Operator(c),
            _ => Token::Number(number(token)?),
        });
    }
    Some(tokens)
}

/// A number with a decimal point, and commas between thousands.
fn number(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let groups: Vec<&str> = whole.split(',').collect();
    let is_grouped =
        groups.len() == 1 || groups[0].len() <= 3 && groups[1..].iter().all(|group| group.len() == 3);
    let is_code = whole.len() > 1 && whole.starts_with('0');
    if !is_grouped || is_code || fraction.contains([',', '.']) {
        return None;
    }
    format!("{}.{fraction}", groups.concat()).parse().ok()
}

fn rank(operator: char) -> u8 {
    match operator {
        '+' | '-' => 1,
        '*' | '/' => 2,
        'n' => 3,
        _ => 4,
    }
}

/// The value, by two stacks; `None` where the tokens are no sum.
fn value(tokens: &[Token]) -> Option<f64> {
    let (mut values, mut pending): (Vec<f64>, Vec<Token>) = (Vec::new(), Vec::new());
    let mut wants_value = true;
    for token in tokens {
        match *token {
            Token::Number(number) if wants_value => {
                values.push(number);
                wants_value = false;
            }
            Token::Open if wants_value => pending.push(Token::Open),
            Token::Operator('n') if wants_value => pending.push(*token),
            Token::Percent if !wants_value => *values.last_mut()? /= 100.0,
            Token::Close if !wants_value => {
                while let Some(Token::Operator(operator)) = pending.last().copied() {
                    pending.pop();
                    apply(&mut values, operator)?;
                }
                (pending.pop()? == Token::Open).then_some(())?;
            }
            Token::Operator(operator) if !wants_value => {
                while let Some(Token::Operator(before)) = pending.last().copied()
                    && (rank(before) > rank(operator) || rank(before) == rank(operator) && operator != '^')
                {
                    pending.pop();
                    apply(&mut values, before)?;
                }
                pending.push(*token);
                wants_value = true;
            }
            _ => return None,
        }
    }
    while let Some(token) = pending.pop() {
        let Token::Operator(operator) = token else { return None };
        apply(&mut values, operator)?;
    }
    (!wants_value && values.len() == 1).then(|| values[0])
}

fn apply(values: &mut Vec<f64>, operator: char) -> Option<()> {
    let last = values.pop()?;
    let value = match operator {
        'n' => -last,
        '+' => values.pop()? + last,
        '-' => values.pop()? - last,
        '*' => values.pop()? * last,
        '/' => values.pop()? / last,
        _ => values.pop()?.powf(last),
    };
    values.push(value);
    Some(())
}

/// Whole numbers in full, others by twelve digits: what binary fractions add is no part of the answer.
fn written(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() <= EXACT_MAX {
        return format!("{value}");
    }
    let rounded: f64 = format!("{value:.11e}").parse().unwrap_or(value);
    if rounded.abs() >= EXACT_MAX || rounded != 0.0 && rounded.abs() < 1e-9 {
        format!("{rounded:e}")
    } else {
        format!("{rounded}")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::answer;

    #[rstest]
    #[case("2+2", "2+2 = 4")]
    #[case("What is 17 * 3?", "17 * 3 = 51")]
    #[case("what's 0.1 + 0.2", "0.1 + 0.2 = 0.3")]
    #[case("(1 + 2) * -3 =", "(1 + 2) * -3 = -9")]
    #[case("2^3^2", "2^3^2 = 512")]
    #[case("How much is 15% of 240?", "15% * 240 = 36")]
    #[case("12 times 7", "12 * 7 = 84")]
    #[case("Was ist 7 mal 8?", "7 * 8 = 56")]
    #[case("1,250 / 4", "1,250 / 4 = 312.5")]
    #[case("10 / 3", "10 / 3 = 3.33333333333")]
    #[case("7 × 6", "7 * 6 = 42")]
    #[case("1 / 0", "That has no value: nothing can be divided by zero.")]
    #[case("9^9^9", "That is too large for me.")]
    fn sums_are_calculated(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(answer(text).as_deref(), Some(expected));
    }

    #[rstest]
    #[case::a_number("42")]
    #[case::a_date("2026-05-06")]
    #[case::another("3/5/2026")]
    #[case::a_phone_number("030-1234-567")]
    #[case::a_code("007 + 1")]
    #[case::words("room 4 - 2")]
    #[case::a_tale("We have 3 + 4 boards")]
    #[case::broken("2 + * 3")]
    #[case::open("(2 + 3")]
    #[case::adjacent("2 3")]
    #[case::grouped_otherwise("1,2 + 3")]
    fn what_is_no_sum_is_left_alone(#[case] text: &str) {
        assert_eq!(answer(text), None);
    }

    #[test]
    fn deep_and_long_texts_cost_nothing() {
        assert_eq!(answer(&"(".repeat(1_000_000)), None);
        assert_eq!(
            answer(&format!("{}1{} + 1", "(".repeat(90), ")".repeat(90)))
                .as_deref()
                .map(|text| text.ends_with("= 2")),
            Some(true)
        );
    }
}
