//! Every language has all texts, with the same placeholders; values are only data.

use std::collections::BTreeMap;

use super::*;

fn built_in(tag: &str) -> Texts {
    let (_, file) = BUILT_IN.iter().find(|(known, _)| *known == tag).expect("is built in");
    Texts::read(tag, file, Some(Texts::english())).unwrap_or_else(|error| panic!("{tag}: {error}"))
}

fn keys(file: &str) -> (Vec<String>, Vec<String>) {
    let table: toml::Table = toml::from_str(file).expect("is TOML");
    let labels = table.get("labels").and_then(toml::Value::as_table).expect("has labels");
    (table.keys().cloned().collect(), labels.keys().cloned().collect())
}

#[test]
fn every_language_has_all_texts_with_the_same_placeholders() {
    let english = keys(BUILT_IN[0].1);
    for (tag, file) in BUILT_IN {
        // Placeholders, lengths and empty texts are checked where a file is read.
        let texts = built_in(tag);
        assert_eq!(keys(file), english, "{tag}");
        let same = Key::ALL.iter().filter(|key| {
            let name = key.name();
            tag != ENGLISH
                && texts.texts[**key as usize] == IN_ENGLISH.texts[**key as usize]
                && name.len() > 12
        });
        let same: Vec<_> = same.map(|key| key.name()).collect();
        assert!(same.len() < 8, "{tag} is not translated: {same:?}");
    }
}

#[test]
fn commands_and_code_are_the_same_in_every_language() {
    let code = |text: &str| -> BTreeMap<String, usize> {
        let mut out = BTreeMap::new();
        let parts = text.split('`').skip(1).step_by(2);
        parts.for_each(|part| *out.entry(part.to_owned()).or_default() += 1);
        out
    };
    for (tag, _) in BUILT_IN {
        let texts = built_in(tag);
        for key in Key::ALL {
            let (own, english) = (&texts.texts[*key as usize], &IN_ENGLISH.texts[*key as usize]);
            let forms = [&own.one, &own.few, &own.many].into_iter().flatten().chain([&own.other]);
            for text in forms {
                let is_prose = matches!(key, Key::CutOff | Key::CutOffCall | Key::ForgetWhich);
                assert!(is_prose || code(text) == code(&english.other), "{tag} {}: {text}", key.name());
            }
        }
    }
}

#[test]
fn values_are_data() {
    let texts = Texts::english();
    let said = texts.say(Key::Forgotten.with("text", "{text} {id} {{n}}"));
    assert_eq!(said, "Forgotten: {text} {id} {{n}}");
}

#[test]
fn numbers_choose_the_form_and_sayings_nest() {
    let done = |memories, reminders| {
        let saying = Key::ForgetmeDoneBoth.with("memories", Key::CountMemories.count(memories));
        saying.with("reminders", Key::CountReminders.count(reminders)).to_string()
    };
    assert_eq!(done(1, 1_200), "Done: 1 memory forgotten, 1,200 reminders cancelled.");
    let wait = Key::LimitSpend.with("wait", Key::WaitHour);
    assert_eq!(
        wait.to_string(),
        "My budget for today is used up. I can continue at midnight UTC, in about an hour."
    );
    let why = Key::ApprovalSeveral.with("ids", "a, b");
    assert_eq!(Texts::english().sentence(why), "Several calls wait; say which: a, b.");
}

#[test]
fn a_file_may_leave_texts_out_but_not_invent_any() {
    let english = Some(&**Texts::english());
    let read = |file: &str| Texts::read("nl", file, english);
    let dutch = read("help = \"Praat met me:\"\n[labels]\nmade = \"gemaakt\"\n").unwrap();
    assert_eq!(
        (dutch.say(Key::Help), dutch.say(Key::Stopped)),
        ("Praat met me:".to_owned(), "Stopped.".to_owned())
    );
    assert_eq!((dutch.label("made"), dutch.label("due")), ("gemaakt", "due"));
    for (file, why) in [
        ("helpp = \"x\"", "`helpp` is no text"),
        ("help = \"\"", "`help` is empty"),
        ("forgotten = \"Vergeten.\"", "`forgotten` needs these placeholders and no others: {text}"),
        ("help = \"{text}\"", "`help` needs"),
        ("count_days = { one = \"{n} dag\" }", "`count_days` has no form `other`"),
        ("[labels]\nmode = \"x\"", "no word `mode`"),
        ("help = 1", "data did not match"),
    ] {
        let refused = read(file).expect_err(file);
        assert!(refused.contains(why), "{file}: {refused}");
    }
    assert!(read(&format!("help = \"{}\"", "x".repeat(TEXT_MAX + 1))).is_err());
    assert!(read(&format!("command_help = \"{}\"", "x".repeat(101))).is_err());
}

#[test]
fn a_place_may_have_a_language_of_its_own() {
    let german = Arc::new(Texts { tag: "de".to_owned(), ..(**Texts::english()).clone() });
    let of_places = Arc::new(BTreeMap::from([("de".to_owned(), german)]));
    let languages = Languages { of_places, ..Languages::default() };
    let tag = |place: Option<&str>| languages.of(place).tag().to_owned();
    assert_eq!(
        (tag(None), tag(Some("de")), tag(Some("gone"))),
        ("en".to_owned(), "de".to_owned(), "en".to_owned())
    );
}
