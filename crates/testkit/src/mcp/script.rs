//! How a server behaves: a value in a test, a JSON file for a process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fault::{At, Strike};

/// Versions of the protocol that begin with `initialize`, oldest first.
pub const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// How a server behaves. All of it may change while it runs: a process reads its file again with every message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    pub name: String,
    pub version: String,
    /// The newest version of the protocol that it speaks.
    pub protocol: String,
    pub instructions: Option<String>,
    /// Changes to the list of tools. An object with the name of a listed tool replaces those keys of it (a null removes one);
    /// with `"remove": true` it takes the tool away; any other item is listed as it is, last.
    pub tools: Vec<Value>,
    /// The tools of the runtime that are listed; unset: all of them.
    pub only: Option<Vec<String>>,
    /// Tools on a page; 0: all.
    pub page: usize,
    /// Its faults, as [`super::Strike::parse`] reads them.
    pub faults: Vec<String>,
    /// Over HTTP it answers with JSON where it can, not with server-sent events.
    pub json: bool,
    /// Headers that each HTTP request must have; 401 without them.
    pub requires: BTreeMap<String, String>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            name: "fake-mcp".to_owned(),
            version: "1.0.0".to_owned(),
            protocol: VERSIONS[VERSIONS.len() - 1].to_owned(),
            instructions: None,
            tools: Vec::new(),
            only: None,
            page: 0,
            faults: Vec::new(),
            json: false,
            requires: BTreeMap::new(),
        }
    }
}

impl Script {
    /// With that version of the server.
    pub fn version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.version);
        self
    }

    /// With that newest version of the protocol.
    pub fn protocol(mut self, protocol: &str) -> Self {
        protocol.clone_into(&mut self.protocol);
        self
    }

    /// With one more change to the list of tools; see [`Script::tools`].
    pub fn tool(mut self, tool: Value) -> Self {
        self.tools.push(tool);
        self
    }

    /// With no other tools of the runtime than these.
    pub fn only(mut self, tools: &[&str]) -> Self {
        self.only = Some(tools.iter().map(ToString::to_string).collect());
        self
    }

    pub fn page(mut self, tools: usize) -> Self {
        self.page = tools;
        self
    }

    /// With one more fault: `hang@initialize`.
    pub fn fault(mut self, fault: &str) -> Self {
        let strike = Strike::parse(fault).unwrap_or_else(|error| panic!("{error}"));
        self.faults.push(strike.name());
        self
    }

    /// Over HTTP: answers with JSON where it can.
    pub fn json(mut self) -> Self {
        self.json = true;
        self
    }

    /// Over HTTP: refuses requests without that header.
    pub fn requires(mut self, name: &str, value: &str) -> Self {
        self.requires.insert(name.to_lowercase(), value.to_owned());
        self
    }

    /// Writes it for a process to read: in one piece, so that nobody reads half of it.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        std::fs::rename(new, path)
    }

    /// What a process read.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    pub(super) fn strikes(&self) -> Vec<Strike> {
        self.faults.iter().filter_map(|fault| Strike::parse(fault).ok()).collect()
    }

    pub(super) fn strikes_at(&self, place: At) -> Vec<super::Fault> {
        let here = self.strikes().into_iter().filter(|strike| strike.at.covers(place));
        here.map(|strike| strike.fault).collect()
    }

    pub(super) fn has(&self, fault: &super::Fault) -> bool {
        self.strikes().iter().any(|strike| strike.fault == *fault)
    }
}

/// A script as it is at this moment.
pub(super) struct Behaviour {
    path: Option<PathBuf>,
    /// What it is without a file; with one, its faults are added.
    base: Mutex<Script>,
}

impl Behaviour {
    pub(super) fn new(path: Option<PathBuf>, base: Script) -> Self {
        Self { path, base: Mutex::new(base) }
    }

    pub(super) fn now(&self) -> Script {
        let base = self.base.lock().clone();
        let Some(path) = &self.path else { return base };
        match Script::read(path) {
            Ok(script) => Script { faults: [script.faults, base.faults].concat(), ..script },
            Err(error) => {
                eprintln!("the script {} cannot be read: {error}", path.display());
                base
            }
        }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.base.lock());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_process_reads_what_a_test_wrote() {
        let dir = std::env::temp_dir().join(format!("fake-mcp-script-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("script.json");
        let script = Script::default().fault("hang").only(&["echo"]).tool(json!({"name": "x"})).page(3);
        script.write(&path).unwrap();
        let base = Script::default().fault("huge=7@list");
        let read = Behaviour::new(Some(path), base).now();
        assert_eq!(read.faults, ["hang@call", "huge=7@list"]);
        assert_eq!((read.only, read.tools, read.page), (script.only, script.tools, 3));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
