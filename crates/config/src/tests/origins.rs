//! Where the keys of the configuration in force come from.

use super::fine;
use crate::Origin;

const TEXT: &str = "\
[defaults]
[defaults.compaction]
fan_out = 6
background_threshold = 0.6

[[models]]
id = \"small\"
base_url = \"http://127.0.0.1:1/v1\"
model = \"m\"
context_window = 8000

[[agents]]
id = \"main\"
models = [\"small\"]
compaction = { fan_out = 9 }

[[agents]]
id = \"other\"
";

#[test]
fn each_key_says_its_line_the_shared_one_or_that_it_is_built_in() {
    let loaded = fine(TEXT);
    let keys = loaded.keys_in_force();
    let of = |table: &str, key: &str| {
        let found = keys.iter().find(|known| known.table == table && known.key == key);
        found.map(|known| (known.value.to_string(), known.origin))
    };
    assert_eq!(of("models.small", "context_window"), Some(("8000".into(), Origin::Line(10))));
    assert_eq!(of("agents.main.compaction", "fan_out"), Some(("9".into(), Origin::Line(15))));
    assert_eq!(of("agents.main.compaction", "background_threshold"), Some(("0.6".into(), Origin::Shared(4))));
    assert_eq!(of("agents.other.compaction", "fan_out"), Some(("6".into(), Origin::Shared(3))));
    assert_eq!(of("defaults.compaction", "fan_out"), Some(("6".into(), Origin::Line(3))));
    assert_eq!(of("limits", "spend_per_day").map(|(_, origin)| origin), Some(Origin::BuiltIn));
    let shown = loaded.show_sources();
    assert!(
        shown.contains("\n[agents.main.compaction]\n") && shown.contains("fan_out = 9  # line 15\n"),
        "{shown}"
    );
}

#[test]
fn a_secret_is_not_told_beside_its_line() {
    let key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD";
    let text = format!(
        "[[models]]\nid = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"{key}\"\n[[agents]]\nid = \"main\"\nmodels = [\"m\"]\n"
    );
    assert!(!fine(&text).show_sources().contains(key));
}
