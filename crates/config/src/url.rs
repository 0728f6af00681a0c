//! Checks of servers' addresses in the file.

use cairn_types::wire::address;

/// What is wrong with an address; `None`: nothing. `schemes`: how it may start.
pub(super) fn trouble(url: &str, schemes: &[&str]) -> Option<String> {
    let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
    let trouble = match rest {
        None => return Some(format!("must begin with {}", schemes.join(" or "))),
        Some(rest) if rest.is_empty() || rest.starts_with(['/', ':']) => "names no server",
        Some(rest) if rest.split('/').next().is_some_and(|host| host.contains('@')) => {
            "has an account in it; keys are named by api_key_env or api_key_file, tokens by token_env or token_file"
        }
        // Azure's addresses have `?api-version=`.
        Some(rest)
            if rest
                .replacen("?api-version=", "", 1)
                .chars()
                .any(|c| c.is_whitespace() || c.is_control() || "?#".contains(c)) =>
        {
            "has white space, `?` or `#` in it"
        }
        Some(_) => return address::parse(url).err(),
    };
    Some(trouble.to_owned())
}

/// The address as it may be shown: not at all when it has an account in it.
pub(super) fn shown(url: &str) -> &str {
    if url.contains('@') { "…" } else { url }
}

/// The host of an address, in lower case, without its port.
pub(super) fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        // An IPv6 address has colons of its own.
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_neither_port_nor_path() {
        assert_eq!(host("https://Bot.Example:8443/api"), "bot.example");
        assert_eq!(host("ws://[::1]:8082"), "::1");
        assert_eq!(host("http://127.0.0.1"), "127.0.0.1");
    }
}
