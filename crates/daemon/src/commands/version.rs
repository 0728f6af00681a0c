//! `cairn --version`: the commit, the system and the features of this build.

/// The commit, or `not recorded`.
pub(super) const COMMIT: &str = env!("CAIRN_COMMIT");

/// The text after the program's name.
pub(super) const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit:   ",
    env!("CAIRN_COMMIT"),
    "\nbuild:    ",
    env!("CAIRN_TARGET"),
    ", ",
    env!("CAIRN_PROFILE"),
    "\nnetworks: discord, telegram, bridges, local\nmodels:   openai, anthropic, offline\ntools:    mcp, fetch, web_search",
);

#[cfg(test)]
mod tests {
    use super::LONG;
    use cairn_config::NetworkKind;

    #[test]
    fn every_network_is_named() {
        for kind in NetworkKind::ALL.into_iter().chain([NetworkKind::Bridge]) {
            assert!(LONG.contains(kind.name()), "{LONG}");
        }
    }
}
