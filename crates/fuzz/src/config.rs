//! The config file.

use std::path::Path;

use cairn_config::{Config, FixedEnvironment};

use crate::lossy;

/// What the variables hold that seeds name.
const SECRET: &str = "sk-fuzz-0123456789abcdef";

/// A token as seeds and changes of them have it where it does not belong.
const PASTED: &str = "123456789:AAFuzzFuzzFuzzFuzzFuzzFuzzFuzzFuzzFuzz";

/// A file that is refused is told with its places, never with a secret; one that holds is shown without one, and what is
/// shown holds as well and is the same.
pub fn config(data: &[u8]) {
    let text = lossy(data);
    // Files that it names are read: none that never end.
    if text.contains("/dev") || text.contains("/proc") {
        return;
    }
    let file = Path::new("/etc/cairn/config.toml");
    let env = FixedEnvironment::new("/").with("FUZZ_KEY", SECRET).with("FUZZ_TOKEN", PASTED);
    let loaded = match Config::of_text(file, &text, &env) {
        Ok(loaded) => loaded,
        Err(error) => {
            let told = error.to_string();
            assert!(!error.problems.is_empty() && !told.trim().is_empty(), "refused without a word");
            assert!(!told.contains(SECRET) && !told.contains(PASTED), "a secret is told: {told}");
            for place in error.problems.iter().filter_map(|problem| problem.place.as_ref()) {
                let line = text.lines().nth(place.line.saturating_sub(1)).unwrap_or_default();
                assert!(place.line >= 1 && place.line <= text.lines().count() + 1, "line {}", place.line);
                assert!((1..=line.chars().count() + 1).contains(&place.column), "{place:?} of {line:?}");
            }
            return;
        }
    };
    let shown = loaded.show();
    let told = format!("{shown}{:?}{:?}", loaded, loaded.warnings);
    assert!(!told.contains(SECRET), "a secret is shown: {told}");
    let again = match Config::of_text(file, &shown, &env) {
        Ok(again) => again,
        Err(error) => panic!("what is shown does not hold: {error}\n{shown}"),
    };
    assert_eq!(again.config, loaded.config, "what is shown is another configuration");
}
