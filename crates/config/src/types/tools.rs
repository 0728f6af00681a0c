//! `[[mcp]]`, `[fetch]` and `[search]`: where tools come from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A tool server, and how to run or reach it. Either `command` or `url`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct McpConfig {
    /// Its name, which agents use for its tools as "ID/TOOL" or "ID/*": 1 to 24 of A-Z a-z 0-9 -
    #[schemars(example = &"files", regex(pattern = "^[A-Za-z0-9-]{1,24}$"))]
    pub id: String,
    /// A server that runs as a child process and uses standard input and output: a program, by path or by a name in the
    /// daemon's PATH, with its arguments. It gets only the variables listed here, not even PATH.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"/usr/local/bin/mcp-files")]
    pub command: Option<String>,
    #[schemars(example = ["/srv/shared"])]
    pub args: Vec<String>,
    #[schemars(example = json!({ "PATH": "/usr/bin:/bin" }))]
    pub env: BTreeMap<String, String>,
    /// Secret variables: for each, the daemon's environment variable, or the file, that has the value. A relative file
    /// is looked up among systemd's credentials first.
    #[schemars(example = json!({ "SERVICE_TOKEN": "SERVICE_TOKEN" }))]
    pub env_from_env: BTreeMap<String, String>,
    #[schemars(example = json!({ "SERVICE_TOKEN": "service-token" }))]
    pub env_from_file: BTreeMap<String, PathBuf>,
    /// Its working folder. Not set: a separate folder in the state folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"/srv/shared")]
    pub cwd: Option<PathBuf>,
    /// Maximum memory for its data, in MiB, and maximum number of open files, if the system supports such limits. 0: no
    /// limit.
    #[schemars(range(max = 1_048_576))]
    pub memory_mib: u64,
    #[schemars(range(max = 1_048_576))]
    pub open_files: u64,
    /// Instead of `command`: a server reached by URL (streamable HTTP; OAuth logins and the older HTTP+SSE are not
    /// supported), with additional request headers; secret ones as above. Only these secrets are removed from its
    /// output.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"https://tools.example/mcp", extend("x-alternative" = true))]
    pub url: Option<String>,
    #[schemars(example = json!({ "X-Team": "ops" }), extend("x-alternative" = true))]
    pub headers: BTreeMap<String, String>,
    #[schemars(example = json!({ "Authorization": "TOOLS_AUTHORIZATION" }), extend("x-alternative" = true))]
    pub headers_from_env: BTreeMap<String, String>,
    #[schemars(example = json!({ "Authorization": "tools-authorization" }), extend("x-alternative" = true))]
    pub headers_from_file: BTreeMap<String, PathBuf>,
    /// Time limits of a call and of its start, in seconds; maximum size of a message from it, in MiB.
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_secs: u64,
    #[schemars(range(min = 1, max = 3_600))]
    pub start_timeout_secs: u64,
    #[schemars(range(min = 1, max = 1_024))]
    pub max_message_mib: u64,
    /// Send its pictures, sounds and files to the chat. false: the agent sees and keeps them, and can send single ones
    /// with `send_file`.
    pub send_files: bool,
}

impl Default for McpConfig {
    fn default() -> Self {
        Self {
            id: String::new(),
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            env_from_env: BTreeMap::new(),
            env_from_file: BTreeMap::new(),
            cwd: None,
            memory_mib: 1024,
            open_files: 256,
            url: None,
            headers: BTreeMap::new(),
            headers_from_env: BTreeMap::new(),
            headers_from_file: BTreeMap::new(),
            timeout_secs: 60,
            start_timeout_secs: 30,
            max_message_mib: 16,
            send_files: true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FetchConfig {
    /// The tool `fetch` reads text from the web, for agents that name it in `tools`. It only uses GET, and never reads
    /// from private addresses, even after a name lookup or a redirect.
    pub enabled: bool,
    /// Hosts that it may contact. It needs no approval, and a URL can leak text, so list hosts that you trust. Names,
    /// "*.example.org" for all subdomains, "*" for all; with a port if it is not 80 or 443.
    pub hosts: Vec<String>,
    /// Maximum size of a text, in KiB; time limit of a fetch, in seconds; maximum number of redirects.
    #[schemars(range(min = 1, max = 65_536))]
    pub max_kib: u64,
    #[schemars(range(min = 1, max = 600))]
    pub timeout_secs: u64,
    #[schemars(range(max = 20))]
    pub max_redirects: u32,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self { enabled: false, hosts: Vec::new(), max_kib: 1024, timeout_secs: 20, max_redirects: 5 }
    }
}

/// A search service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchProvider {
    Searxng,
    Brave,
    Tavily,
}

impl SearchProvider {
    /// The address of the service; none: everybody runs their own.
    pub fn default_url(self) -> Option<&'static str> {
        match self {
            Self::Searxng => None,
            Self::Brave => Some("https://api.search.brave.com"),
            Self::Tavily => Some("https://api.tavily.com"),
        }
    }

    /// Whether it takes no searches without a key.
    pub fn needs_key(self) -> bool {
        self != Self::Searxng
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchConfig {
    /// The tool `web_search` asks a search service, for agents that name it in `tools`: "searxng", "brave" or "tavily".
    /// Not set: no such tool. `fetch`, if enabled, may read addresses found in the same chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"searxng")]
    pub provider: Option<SearchProvider>,
    /// The service's address. Required for SearXNG, whose settings must have `json` in `search.formats`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"http://127.0.0.1:8888")]
    pub base_url: Option<String>,
    /// The key of Brave or Tavily: an environment variable or a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"BRAVE_API_KEY")]
    pub api_key_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"search.key", extend("x-alternative" = true))]
    pub api_key_file: Option<PathBuf>,
    /// Maximum number of results of a search; its time limit, in seconds.
    #[schemars(range(min = 1, max = 20))]
    pub results: u64,
    #[schemars(range(min = 1, max = 600))]
    pub timeout_secs: u64,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            provider: None,
            base_url: None,
            api_key_env: None,
            api_key_file: None,
            results: 8,
            timeout_secs: 20,
        }
    }
}

impl SearchConfig {
    /// The address of the service; empty: none is set.
    pub fn url(&self) -> &str {
        let own = self.provider.and_then(SearchProvider::default_url);
        self.base_url.as_deref().or(own).unwrap_or_default()
    }
}
