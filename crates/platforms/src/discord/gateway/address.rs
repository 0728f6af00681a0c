//! Checks where the token may be sent: the gateway's host must be Discord's or one from the configuration.

use cairn_types::ports::AdapterFailure;
use reqwest::Url;

use crate::discord::DISCORD_API;

/// An invalid address in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} of Discord: {reason}")]
pub struct BadAddress {
    pub key: &'static str,
    pub reason: &'static str,
}

/// The addresses of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    api: Url,
    gateway: Option<Url>,
    cdn: Option<Url>,
}

impl Addresses {
    /// Parses and checks the three addresses.
    ///
    /// # Errors
    /// One of them is invalid: bad scheme, no host, credentials or a query.
    pub(crate) fn new(api: &str, gateway: Option<&str>, cdn: Option<&str>) -> Result<Self, BadAddress> {
        let read = |key, text: &str, schemes: [&str; 2], kind| {
            let bad = |reason| BadAddress { key, reason };
            let url = Url::parse(text.trim()).map_err(|_| bad("is no address"))?;
            if !schemes.contains(&url.scheme()) || url.host_str().is_none() {
                return Err(bad(kind));
            }
            if !url.username().is_empty() || url.password().is_some() {
                return Err(bad("has a user or a password in it, which is not supported"));
            }
            if url.query().is_some() || url.fragment().is_some() {
                return Err(bad("has a query in it"));
            }
            Ok(url)
        };
        let api = read("api_url", api, ["https", "http"], "must begin with https:// or http://")?;
        let gateway = gateway
            .map(|text| read("gateway_url", text, ["wss", "ws"], "must begin with wss:// or ws://"))
            .transpose()?;
        let cdn = cdn
            .map(|text| read("cdn_url", text, ["https", "http"], "must begin with https:// or http://"))
            .transpose()?;
        Ok(Self { api, gateway, cdn })
    }

    /// `cdn_url`: the host for attachments, if configured.
    pub(crate) fn cdn(&self) -> Option<&Url> {
        self.cdn.as_ref()
    }

    pub(crate) fn api(&self) -> &Url {
        &self.api
    }

    /// Whether the API or the gateway is not Discord's own.
    pub(crate) fn own(&self) -> bool {
        self.gateway.is_some() || !self.discords_api()
    }

    fn discords_api(&self) -> bool {
        Url::parse(DISCORD_API).ok().as_ref() == Some(&self.api)
    }

    /// The gateway address for a new session: `gateway_url`, otherwise the one from the API.
    ///
    /// # Errors
    /// The API names a host that must not get the token.
    pub(super) fn gateway(&self, said: &str) -> Result<Url, AdapterFailure> {
        self.gateway.clone().map_or_else(|| self.check(said), Ok).map(with_version)
    }

    /// The gateway address for resuming a session: the one that the gateway named, but `gateway_url` if that has
    /// another host.
    ///
    /// # Errors
    /// The gateway names a host that must not get the token.
    pub(super) fn resume(&self, said: &str) -> Result<Url, AdapterFailure> {
        let said = self.check(said);
        let is_own = |own: &&Url| said.as_ref().is_ok_and(|said| own.host_str() == said.host_str());
        match &self.gateway {
            Some(own) if !is_own(&own) => Ok(with_version(own.clone())),
            _ => said.map(with_version),
        }
    }

    /// Accepts hosts from the configuration, and `discord.gg` if the API is Discord's.
    fn check(&self, said: &str) -> Result<Url, AdapterFailure> {
        let url = Url::parse(said).ok();
        let host = url.as_ref().and_then(Url::host_str);
        let (Some(url), Some(host)) = (&url, host) else {
            return Err(failure("the gateway's address cannot be read".to_owned()));
        };
        let discords = self.discords_api() && (host == "discord.gg" || host.ends_with(".discord.gg"));
        let named = [Some(&self.api), self.gateway.as_ref()]
            .into_iter()
            .flatten()
            .any(|known| known.host_str() == Some(host));
        if !discords && !named {
            let host: String = host.chars().take(80).collect();
            return Err(failure(format!("a gateway of another host was named, {host}: refused")));
        }
        let plain = self.gateway.as_ref().map_or(self.api.scheme() == "http", |own| own.scheme() == "ws");
        match url.scheme() {
            "wss" => Ok(url.clone()),
            "ws" if plain => Ok(url.clone()),
            _ => Err(failure("a gateway without TLS was named: refused".to_owned())),
        }
    }
}

fn failure(reason: String) -> AdapterFailure {
    AdapterFailure {
        reason,
        hint: "the token goes only to the hosts of api_url and gateway_url; check both in the configuration"
            .to_owned(),
        lasting: true,
    }
}

fn with_version(mut url: Url) -> Url {
    url.set_query(Some("v=10&encoding=json"));
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_discords_own_gateway_is_believed_by_default() {
        let ours = Addresses::new(DISCORD_API, None, None).expect("is sound");
        assert!(ours.gateway("wss://gateway.discord.gg").is_ok());
        assert!(ours.resume("wss://gateway-us-east1-b.discord.gg").is_ok());
        for other in [
            "wss://discord.gg.evil.example",
            "wss://evildiscord.gg",
            "wss://gateway.discord.gg@evil.example",
            "ws://gateway.discord.gg",
            "https://gateway.discord.gg",
            "",
        ] {
            assert!(ours.gateway(other).expect_err(other).lasting);
        }
    }

    #[test]
    fn with_an_address_of_ones_own_no_other_host_is_believed() {
        let own = Addresses::new("http://127.0.0.1:8080", None, None).expect("is sound");
        assert_eq!(
            own.gateway("ws://127.0.0.1:9090/").expect("same host").as_str(),
            "ws://127.0.0.1:9090/?v=10&encoding=json"
        );
        for other in ["wss://gateway.discord.gg", "ws://localhost:9090"] {
            assert!(own.gateway(other).expect_err(other).reason.contains("refused"));
            assert!(own.resume(other).is_err());
        }
        let both =
            Addresses::new("https://api.example", Some("wss://gate.example/path"), None).expect("is sound");
        for said in ["wss://api.example", "wss://gateway.discord.gg", "ws://gate.example", ""] {
            let gate = "wss://gate.example/path?v=10&encoding=json";
            assert_eq!(both.gateway(said).expect("is set").as_str(), gate, "{said}");
            assert_eq!(both.resume(said).expect("is set").as_str(), gate, "{said}");
        }
        let within = both.resume("wss://gate.example/node-7").expect("is of its host");
        assert_eq!(within.path(), "/node-7");
    }

    #[test]
    fn a_gateway_of_ones_own_before_discord_is_the_only_one_used() {
        let own = Addresses::new(DISCORD_API, Some("wss://gate.example"), None).expect("is sound");
        let expected = "wss://gate.example/?v=10&encoding=json";
        assert_eq!(own.gateway("wss://gateway.discord.gg").expect("is Discord's").as_str(), expected);
        assert_eq!(own.resume("wss://gateway-1.discord.gg").expect("is Discord's").as_str(), expected);
        assert_eq!(own.resume("wss://evil.example").expect("is passed over").as_str(), expected);
    }

    #[test]
    fn addresses_that_are_none_are_named_by_their_key() {
        for (api, gateway, cdn, key) in [
            ("discord.com", None, None, "api_url"),
            ("ftp://discord.com", None, None, "api_url"),
            ("https://user:word@discord.com", None, None, "api_url"),
            (DISCORD_API, Some("https://gateway"), None, "gateway_url"),
            (DISCORD_API, None, Some("cdn.example"), "cdn_url"),
        ] {
            assert_eq!(Addresses::new(api, gateway, cdn).expect_err(api).key, key);
        }
        assert!(!Addresses::new("https://discord.com/", None, None).expect("is sound").own());
    }
}
