//! What the address of a model's server tells about it.

use std::net::{IpAddr, Ipv4Addr};

use url::Url;

/// Reads the address of a server.
///
/// # Errors
/// What is wrong with it, such as `is no address: invalid port number`.
pub fn parse(address: &str) -> Result<Url, String> {
    let url: Url = address.parse().map_err(|error| format!("is no address: {error}"))?;
    match url.host_str() {
        Some(host) if !host.is_empty() => Ok(url),
        _ => Err("names no server".to_owned()),
    }
}

/// The call that an address already ends with, of these calls of a model's server; a query does not count.
pub fn whole_call<'a>(url: &Url, calls: &[&'a str]) -> Option<&'a str> {
    let path = url.path().trim_end_matches('/');
    calls.iter().find(|call| path.ends_with(**call)).copied()
}

/// Whether a model's server is on this machine or in a private network, as far as its address says: a loopback, private,
/// shared or link-local address, a name without a domain, or one of a domain that is never public (RFC 6761, 6762, 8375,
/// and ICANN's `.internal`).
pub fn is_nearby(base_url: &str) -> bool {
    let Ok(url) = base_url.trim().parse::<Url>() else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => is_private(ip),
        Ok(IpAddr::V6(ip)) => match ip.to_ipv4_mapped() {
            Some(ip) => is_private(ip),
            None => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
        },
        Err(_) => {
            let host = host.to_ascii_lowercase();
            !host.is_empty() && (!host.contains('.') || PRIVATE_DOMAINS.iter().any(|end| host.ends_with(end)))
        }
    }
}

/// Domains of private networks; `.lan` is what most home routers use.
const PRIVATE_DOMAINS: [&str; 5] = [".localhost", ".local", ".lan", ".internal", ".home.arpa"];

fn is_private(ip: Ipv4Addr) -> bool {
    let [a, b, ..] = ip.octets();
    // Shared addresses (RFC 6598), which overlay networks such as Tailscale use.
    ip.is_loopback() || ip.is_private() || ip.is_link_local() || (a == 100 && (64..128).contains(&b))
}

/// Whether a model takes breakpoints for the provider's cache in OpenAI's formats: OpenAI's models do from GPT-5.6 on, and
/// Azure's deployments, which are mostly named after the model. Others refuse them.
pub fn has_breakpoints(base_url: &str, model: &str) -> bool {
    let url = base_url.trim().parse::<Url>().ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    let Some(name) = model.rsplit('/').next().and_then(|name| name.strip_prefix("gpt-")) else {
        return false;
    };
    let version = name.split('-').next().unwrap_or_default();
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let version = (major.parse::<u32>().unwrap_or(0), minor.parse::<u32>().unwrap_or(0));
    // Azure's deployments may be named gpt-35 or gpt-41, as dots were not allowed there once.
    (host == "api.openai.com" || is_of_azure(host)) && ((5, 6)..(20, 0)).contains(&version)
}

/// Whether a host is one of Azure's: <https://learn.microsoft.com/azure/ai-services/openai/reference>.
pub fn is_of_azure(host: &str) -> bool {
    const DOMAINS: [&str; 3] =
        [".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"];
    DOMAINS.iter().any(|domain| host.ends_with(domain))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{has_breakpoints, is_nearby};

    const OWN: &str = "https://api.openai.com/v1";
    const AZURE: &str = "https://me.openai.azure.com/openai/v1?api-version=preview";

    #[rstest]
    #[case(OWN, "gpt-5.6", true)]
    #[case(OWN, "gpt-5.6-luna-2026-07-09", true)]
    #[case(OWN, "gpt-5.10", true)]
    #[case(OWN, "gpt-6-astra", true)]
    #[case(OWN, "gpt-6.1-sol", true)]
    #[case(OWN, "gpt-5.5", false)]
    #[case(OWN, "gpt-5", false)]
    #[case(OWN, "gpt-4o", false)]
    #[case(OWN, "gpt-oss-120b", false)]
    #[case(OWN, "o3", false)]
    #[case(OWN, "", false)]
    #[case(AZURE, "gpt-5.6-terra", true)]
    #[case("https://me.services.ai.azure.com/openai/v1", "gpt-6", true)]
    #[case(AZURE, "gpt-41", false)]
    #[case(AZURE, "my-deployment", false)]
    #[case("https://openrouter.ai/api/v1", "openai/gpt-5.6", false)]
    #[case("http://127.0.0.1:8080/v1", "gpt-5.6", false)]
    #[case("https://api.openai.com.example.org/v1", "gpt-5.6", false)]
    #[case("nowhere", "gpt-5.6", false)]
    fn breakpoints_are_for_openais_newer_models(
        #[case] base_url: &str,
        #[case] model: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(has_breakpoints(base_url, model), expected);
    }

    #[rstest]
    #[case::loopback("http://127.0.0.1:11434/v1", true)]
    #[case::by_name("http://localhost:1234/v1", true)]
    #[case::of_the_sixth("http://[::1]:8080/v1", true)]
    #[case::mapped("http://[::ffff:10.0.0.7]/v1", true)]
    #[case::unique_local("http://[fd00::7]:8000/v1", true)]
    #[case::home("http://192.168.178.20:11434/v1", true)]
    #[case::shared("http://100.101.1.2:11434", true)]
    #[case::a_container("http://ollama:11434/v1", true)]
    #[case::the_host_of_a_container("http://host.docker.internal:11434/v1", true)]
    #[case::multicast_dns("http://gpu.local./v1", true)]
    #[case::public_address("http://8.8.8.8/v1", false)]
    #[case::beside_the_shared("http://100.128.1.2/v1", false)]
    #[case::public_of_the_sixth("https://[2606:4700::1]/v1", false)]
    #[case::public_name("https://api.openai.com/v1", false)]
    #[case::a_name_that_looks_private("https://local.example.com/v1", false)]
    #[case::no_address("nonsense", false)]
    fn servers_nearby_are_told_from_public_ones(#[case] base_url: &str, #[case] nearby: bool) {
        assert_eq!(is_nearby(base_url), nearby);
    }
}
