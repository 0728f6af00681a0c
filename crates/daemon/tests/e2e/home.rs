//! A home of its own for each test.

pub(crate) use cairn_testkit::home::{Home, Run};

/// The binary under test.
pub(crate) const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");

/// An empty home.
pub(crate) fn new() -> Home {
    Home::of(CAIRN)
}

/// A configuration with one model, at that address.
pub(crate) fn one_model(base_url: &str) -> String {
    format!(
        "[[models]]\nid = \"fake\"\nprovider = \"openai\"\nbase_url = \"{base_url}\"\nmodel = \"fake\"\n\
         context_window = 32000\nmax_output_tokens = 1024\n\n[[agents]]\nid = \"main\"\nmodels = [\"fake\"]\n"
    )
}
