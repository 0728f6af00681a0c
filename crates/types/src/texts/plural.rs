//! Which form of a text a whole number needs, by the plural rules of the Unicode CLDR for integers
//! (<https://www.unicode.org/cldr/charts/latest/supplemental/language_plural_rules.html>).

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    One,
    Few,
    Many,
    Other,
}

pub(super) fn form(tag: &str, n: u64) -> Form {
    let (tens, hundreds) = (n % 10, n % 100);
    let teens = (12..=14).contains(&hundreds);
    match tag.split('-').next().unwrap_or_default() {
        "ja" | "zh" | "ko" | "vi" | "th" | "id" => Form::Other,
        "fr" | "pt" if n <= 1 => Form::One,
        "ru" | "uk" | "be" => match tens {
            1 if hundreds != 11 => Form::One,
            2..=4 if !teens => Form::Few,
            _ => Form::Many,
        },
        "pl" => match tens {
            _ if n == 1 => Form::One,
            2..=4 if !teens => Form::Few,
            _ => Form::Many,
        },
        "cs" | "sk" if (2..=4).contains(&n) => Form::Few,
        _ if n == 1 => Form::One,
        _ => Form::Other,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Form::{Few, Many, One, Other};
    use super::*;

    #[rstest]
    #[case("en", &[(0, Other), (1, One), (2, Other), (21, Other)])]
    #[case("fr", &[(0, One), (1, One), (2, Other)])]
    #[case("pt-BR", &[(0, One), (1, One), (2, Other)])]
    #[case("pl", &[(0, Many), (1, One), (2, Few), (5, Many), (12, Many), (21, Many), (22, Few)])]
    #[case("uk", &[(0, Many), (1, One), (3, Few), (11, Many), (14, Many), (21, One), (24, Few), (111, Many)])]
    #[case("ja", &[(0, Other), (1, Other), (2, Other)])]
    fn numbers_have_the_forms_of_their_language(#[case] tag: &str, #[case] forms: &[(u64, Form)]) {
        for (n, wanted) in forms {
            assert_eq!(form(tag, *n), *wanted, "{tag} {n}");
        }
    }
}
