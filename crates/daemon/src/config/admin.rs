//! `[admin]`: where figures can be read from outside of the socket.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Check, key_path};

/// `[admin]`: what is served beside the socket, over TCP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AdminConfig {
    /// An address and a port at which `/metrics` and `/v1/health` are served, and nothing else; none: neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
}

impl AdminConfig {
    /// Where to listen, if anywhere.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listen.as_ref()?.trim().parse().ok()
    }
}

/// Checks the address; warns where others than this machine can reach it.
pub(super) fn check(check: &mut Check<'_, '_>, admin: &AdminConfig) {
    let Some(listen) = &admin.listen else { return };
    match admin.address() {
        None => check.wrong(
            &key_path!["admin", "listen"],
            format!("`listen` = \"{listen}\" is not an address with a port"),
            "write numbers, such as \"127.0.0.1:9464\" or \"[::1]:9464\"",
        ),
        Some(address) if !address.ip().is_loopback() => check.warnings.push(format!(
            "[admin]: `listen` = \"{listen}\" can be reached from other machines, without a password: let a firewall \
             see to it that only your Prometheus does"
        )),
        Some(_) => {}
    }
}
