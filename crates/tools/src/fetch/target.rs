//! Decides what may be fetched: the list of hosts, and the check of an address before any lookup.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use super::error::FetchError;

const PORTS: [u16; 2] = [80, 443];

const URL_MAX: usize = 8_192;

/// Names used only in local networks, with all names below them.
const LOCAL_NAMES: [&str; 7] =
    ["localhost", "local", "localdomain", "internal", "intranet", "lan", "home.arpa"];

/// An invalid entry in the list of hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no host: write `docs.rs`, `*.rust-lang.org` for all names below it, `*` for all public hosts, each with a \
     port (`example.org:8443`) where it is neither 80 nor 443"
)]
pub struct BadHost(pub String);

#[derive(Debug, Clone, Default)]
pub(super) struct Hosts {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    pattern: Pattern,
    /// The allowed port; `None`: 80 and 443.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    All,
    One(String),
    Below(String),
}

impl Hosts {
    pub(super) fn new(entries: &[String]) -> Result<Self, BadHost> {
        let entry = |text: &String| Entry::new(text).ok_or_else(|| BadHost(text.clone()));
        Ok(Self { entries: entries.iter().map(entry).collect::<Result<_, _>>()? })
    }

    /// These hosts and one more.
    pub(super) fn with(&self, host: &str) -> Self {
        let host = host.trim_end_matches('.').to_owned();
        let mut entries = self.entries.clone();
        entries.push(Entry { pattern: Pattern::One(host), port: None });
        Self { entries }
    }

    fn judge(&self, host: &str, port: u16) -> Result<(), FetchError> {
        let named: Vec<&Entry> = self.entries.iter().filter(|entry| entry.pattern.is(host)).collect();
        if named.is_empty() {
            return Err(FetchError::Host { host: host.to_owned(), allowed: self.to_string() });
        }
        let fits = |entry: &&Entry| entry.port.map_or(PORTS.contains(&port), |own| own == port);
        if named.iter().any(fits) { Ok(()) } else { Err(FetchError::Port(port)) }
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        for (idx, Entry { pattern, port }) in self.entries.iter().take(SHOWN).enumerate() {
            let comma = if idx == 0 { "" } else { ", " };
            match pattern {
                Pattern::All => write!(f, "{comma}*")?,
                Pattern::One(host) => write!(f, "{comma}{host}")?,
                Pattern::Below(host) => write!(f, "{comma}*.{host}")?,
            }
            if let Some(port) = port {
                write!(f, ":{port}")?;
            }
        }
        match self.entries.len() {
            0 => f.write_str("none"),
            n if n > SHOWN => write!(f, " and {} more", n - SHOWN),
            _ => Ok(()),
        }
    }
}

impl Entry {
    fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, Some(port.parse().ok().filter(|port| *port > 0)?))
            }
            _ => (text, None),
        };
        let pattern = match host.strip_prefix("*.") {
            None if host == "*" => Pattern::All,
            None => Pattern::One(name(host)?),
            Some(host) => Pattern::Below(name(host)?),
        };
        Some(Self { pattern, port })
    }
}

/// A host in the form that URLs use: lower case, ASCII, without the final dot.
fn name(host: &str) -> Option<String> {
    if host.is_empty() || host.contains(['*', '/', '@', '?', '#', ' ']) {
        return None;
    }
    Some(Host::parse(host).ok()?.to_string().trim_end_matches('.').to_owned()).filter(|name| !name.is_empty())
}

impl Pattern {
    fn is(&self, host: &str) -> bool {
        match self {
            Self::All => true,
            Self::One(name) => host == name,
            Self::Below(name) => host.strip_suffix(name.as_str()).is_some_and(|head| head.ends_with('.')),
        }
    }
}

/// Parses an address from the model.
pub(super) fn parse(text: &str) -> Result<Url, FetchError> {
    if text.len() > URL_MAX {
        return Err(FetchError::Url(format!("it is longer than {URL_MAX} bytes")));
    }
    let url = Url::parse(text.trim()).map_err(|error| FetchError::Url(error.to_string()))?;
    Ok(url)
}

/// Checks the target of a request. `is_public`: whether an address may be connected to. A name is not resolved here;
/// its addresses are checked when the connection is made.
pub(super) fn judge(url: &Url, hosts: &Hosts, is_public: impl Fn(IpAddr) -> bool) -> Result<(), FetchError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(FetchError::Scheme(url.scheme().chars().take(20).collect()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(FetchError::Credentials);
    }
    let Some(host) = url.host() else {
        return Err(FetchError::Url("it names no host".to_owned()));
    };
    let named = host.to_string().trim_end_matches('.').to_owned();
    let address = match host {
        Host::Ipv4(address) => Some(IpAddr::V4(address)),
        Host::Ipv6(address) => Some(IpAddr::V6(address)),
        Host::Domain(_) => None,
    };
    let private = address.map_or_else(|| is_local_name(&named), |address| !is_public(address));
    if private {
        return Err(FetchError::Private(named));
    }
    let port = url.port_or_known_default().unwrap_or_default();
    hosts.judge(&named, port)
}

/// Whether a name is local, whatever it resolves to.
fn is_local_name(name: &str) -> bool {
    let below =
        |local: &str| name.strip_suffix(local).is_some_and(|head| head.is_empty() || head.ends_with('.'));
    !name.contains('.') || LOCAL_NAMES.iter().any(|local| below(local))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::address::is_public;
    use super::*;

    fn hosts(entries: &[&str]) -> Hosts {
        Hosts::new(&entries.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    fn judged(url: &str, entries: &[&str]) -> Result<(), FetchError> {
        judge(&parse(url)?, &hosts(entries), is_public)
    }

    #[rstest]
    #[case("https://docs.rs/tokio", &["docs.rs"])]
    #[case("HTTPS://DOCS.RS/", &["docs.rs"])]
    #[case("https://docs.rs/", &["Docs.RS"])]
    #[case("https://docs.rs./", &["docs.rs"])]
    #[case("https://docs.rs:443/", &["docs.rs"])]
    #[case("http://docs.rs:80/", &["docs.rs"])]
    #[case("https://docs.rs:80/", &["docs.rs"])]
    #[case("https://doc.rust-lang.org/", &["*.rust-lang.org"])]
    #[case("https://a.b.rust-lang.org/", &["*.rust-lang.org"])]
    #[case("https://example.org:8443/", &["example.org:8443"])]
    #[case("https://example.org:8443/", &["example.org", "example.org:8443"])]
    #[case("https://example.org/", &["*"])]
    #[case("https://b\u{fc}cher.example.com/", &["xn--bcher-kva.example.com"])]
    #[case("https://xn--bcher-kva.example.com/", &["b\u{fc}cher.example.com"])]
    #[case("http://1.1.1.1/", &["*"])]
    #[case("http://[2606:4700:4700::1111]/", &["[2606:4700:4700::1111]"])]
    #[case("http://[2606:4700:4700::1111]:8080/", &["[2606:4700:4700:0::1111]:8080"])]
    #[case("http://@docs.rs/", &["docs.rs"])]
    fn what_is_on_the_list_may_be_fetched(#[case] url: &str, #[case] entries: &[&str]) {
        assert_eq!(judged(url, entries), Ok(()));
    }

    #[rstest]
    #[case("https://docs.rs.evil.com/", &["docs.rs"])]
    #[case("https://evildocs.rs/", &["docs.rs"])]
    #[case("https://rust-lang.org/", &["*.rust-lang.org"])]
    #[case("https://evilrust-lang.org/", &["*.rust-lang.org"])]
    #[case("https://rust-lang.org.evil.com/", &["*.rust-lang.org"])]
    #[case("https://docs.rs\\@evil.com/", &["evil.com"])]
    #[case("https://example.org/", &[])]
    fn what_is_not_on_the_list_is_refused(#[case] url: &str, #[case] entries: &[&str]) {
        let error = judged(url, entries).unwrap_err();
        assert!(matches!(error, FetchError::Host { .. }), "{error}");
    }

    #[test]
    fn the_refusal_names_what_may_be_fetched() {
        let error = judged("https://a.com/", &["docs.rs", "*.rust-lang.org", "x.org:81"]).unwrap_err();
        assert!(error.to_string().ends_with(": docs.rs, *.rust-lang.org, x.org:81"), "{error}");
    }

    /// Every way to write an address that is not public: all are refused though all hosts are allowed.
    #[rstest]
    #[case::plain("http://127.0.0.1/")]
    #[case::decimal("http://2130706433/")]
    #[case::octal("http://0177.0.0.1/")]
    #[case::octal_whole("http://017700000001/")]
    #[case::hex("http://0x7f000001/")]
    #[case::hex_parts("http://0x7f.0x0.0x0.0x1/")]
    #[case::hex_capital("http://0X7F.1/")]
    #[case::short("http://127.1/")]
    #[case::short_three("http://127.0.1/")]
    #[case::mixed("http://0x7f.0.0.01/")]
    #[case::zero("http://0/")]
    #[case::trailing_dot("http://127.0.0.1./")]
    #[case::decimal_with_dot("http://2130706433./")]
    #[case::percent("http://%31%32%37.0.0.1/")]
    #[case::fullwidth("http://\u{ff11}\u{ff12}\u{ff17}.0.0.1/")]
    #[case::circled("http://\u{2460}\u{2461}\u{2466}.0.0.1/")]
    #[case::ideographic_dots("http://127\u{3002}0\u{3002}0\u{3002}1/")]
    #[case::soft_hyphen("http://127.0.0\u{ad}.1/")]
    #[case::no_slashes("http:127.0.0.1")]
    #[case::backslashes("http:\\\\127.0.0.1\\")]
    #[case::tab_inside("http://127.0\t.0.1/")]
    #[case::metadata("http://169.254.169.254/latest/meta-data/")]
    #[case::metadata_decimal("http://2852039166/")]
    #[case::private("http://192.168.1.1/")]
    #[case::shared("http://100.100.100.200/")]
    #[case::v6_loopback("http://[::1]/")]
    #[case::v6_long("http://[0:0:0:0:0:0:0:1]/")]
    #[case::v6_any("http://[::]/")]
    #[case::v6_mapped("http://[::ffff:127.0.0.1]/")]
    #[case::v6_mapped_hex("http://[::ffff:7f00:1]/")]
    #[case::v6_mapped_capital("http://[::FFFF:7F00:1]/")]
    #[case::v6_compatible("http://[::127.0.0.1]/")]
    #[case::v6_translated("http://[64:ff9b::7f00:1]/")]
    #[case::v6_6to4("http://[2002:7f00:1::]/")]
    #[case::v6_local("http://[fd00:ec2::254]/")]
    #[case::v6_link("http://[fe80::1]/")]
    #[case::localhost("http://localhost/")]
    #[case::localhost_capital("http://LOCALHOST/")]
    #[case::localhost_dot("http://localhost./")]
    #[case::localhost_fullwidth("http://\u{ff4c}ocalhost/")]
    #[case::below_localhost("http://a.localhost/")]
    #[case::metadata_name("http://metadata.google.internal/")]
    #[case::metadata_short("http://metadata/")]
    #[case::one_label("http://intranet/")]
    #[case::printer("http://printer.local/")]
    #[case::empty_user("http://@127.0.0.1/")]
    fn an_address_that_is_not_public_is_refused_however_it_is_written(#[case] url: &str) {
        let error = judged(url, &["*", "127.0.0.1", "[::1]", "localhost"]).unwrap_err();
        assert!(matches!(error, FetchError::Private(_)), "{error}");
    }

    #[rstest]
    #[case("http://docs.rs@127.0.0.1/", "password")]
    #[case("http://user:secret@docs.rs/", "password")]
    #[case("http://:secret@docs.rs/", "password")]
    #[case("http://[fe80::1%25eth0]/", "no address")]
    #[case("http://[fe80::1%eth0]/", "no address")]
    #[case("http://256.0.0.1/", "no address")]
    #[case("http://1.2.3.4.5/", "no address")]
    #[case("http://127.0.0.1\u{0}.docs.rs/", "no address")]
    #[case("http://127.0.0.1%00.docs.rs/", "no address")]
    #[case("http://", "no address")]
    #[case("docs.rs", "no address")]
    #[case("", "no address")]
    #[case("file:///etc/passwd", "not `file`")]
    #[case("ftp://docs.rs/", "not `ftp`")]
    #[case("gopher://docs.rs/", "not `gopher`")]
    #[case("data:text/plain,hello", "not `data`")]
    #[case("javascript:alert(1)", "not `javascript`")]
    #[case("unix:/run/docker.sock", "not `unix`")]
    #[case("http://docs.rs:22/", "port 22")]
    #[case("https://docs.rs:8443/", "port 8443")]
    #[case("https://docs.rs:0/", "port 0")]
    #[case("https://docs.rs:65536/", "no address")]
    fn what_is_no_plain_address_of_the_web_is_refused(#[case] url: &str, #[case] words: &str) {
        let error = judged(url, &["*"]).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains("secret"), "{error}");
    }

    #[rstest]
    #[case("")]
    #[case("*.")]
    #[case("a.*.org")]
    #[case("https://docs.rs")]
    #[case("docs.rs/tokio")]
    #[case("docs.rs:")]
    #[case("docs.rs:0")]
    #[case("docs.rs:http")]
    #[case("user@docs.rs")]
    #[case("two hosts")]
    fn an_entry_that_is_no_host_is_named(#[case] entry: &str) {
        assert_eq!(
            Hosts::new(&["docs.rs".to_owned(), entry.to_owned()]).unwrap_err(),
            BadHost(entry.to_owned())
        );
    }

    #[test]
    fn a_port_named_with_a_host_is_that_hosts_alone() {
        let entries = ["example.org:8443", "docs.rs"];
        assert_eq!(judged("https://docs.rs:8443/", &entries), Err(FetchError::Port(8443)));
        assert_eq!(judged("https://example.org/", &entries), Err(FetchError::Port(443)));
        let long = format!("https://docs.rs/{}", "x".repeat(9_000));
        assert!(judged(&long, &entries).unwrap_err().to_string().contains("longer"));
    }
}
