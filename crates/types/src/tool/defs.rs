//! Definitions of tools for models, counted and written as JSON once, when a configuration or a server's list is read.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::tokens::estimate;
use crate::wire::format::KeptText;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDef {
    pub name: String,
    pub description: String,
    pub parameters: serde_json::Value,
}

/// The tools of an agent, in the order in which its models get them. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ToolDefs(Arc<Written>);

#[derive(Debug, Default)]
struct Written {
    defs: Vec<ToolDef>,
    /// Their parameters as JSON, in the same order.
    parameters: Vec<String>,
    tokens: u64,
    /// The list as JSON, for call traces; made when the first one needs it.
    kept: OnceLock<KeptText>,
}

impl ToolDefs {
    /// Tokens of all of them, before correction.
    pub fn tokens(&self) -> u64 {
        self.0.tokens
    }

    /// The list as JSON, with the hash by which call traces refer to it.
    pub fn kept(&self) -> &KeptText {
        let list = || serde_json::to_string(&self.0.defs).unwrap_or_default();
        self.0.kept.get_or_init(|| KeptText::of(&list()))
    }

    /// Each with its parameters as JSON.
    pub fn written(&self) -> impl ExactSizeIterator<Item = (&ToolDef, &str)> {
        self.0.defs.iter().zip(self.0.parameters.iter().map(String::as_str))
    }
}

impl Deref for ToolDefs {
    type Target = [ToolDef];

    fn deref(&self) -> &[ToolDef] {
        &self.0.defs
    }
}

impl PartialEq for ToolDefs {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.defs == other.0.defs
    }
}

impl From<Vec<ToolDef>> for ToolDefs {
    fn from(defs: Vec<ToolDef>) -> Self {
        let parameters: Vec<String> = defs.iter().map(|tool| tool.parameters.to_string()).collect();
        let one = |(tool, parameters): (&ToolDef, &String)| {
            u64::from(estimate(&tool.name) + estimate(&tool.description) + estimate(parameters) + 8)
        };
        let tokens = defs.iter().zip(&parameters).map(one).sum();
        Self(Arc::new(Written { defs, parameters, tokens, kept: OnceLock::new() }))
    }
}

impl FromIterator<ToolDef> for ToolDefs {
    fn from_iter<T: IntoIterator<Item = ToolDef>>(defs: T) -> Self {
        Vec::from_iter(defs).into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_are_counted_and_written_as_a_request_has_them() {
        let tool = |name: &str, parameters| ToolDef {
            name: name.to_owned(),
            description: "finds what was said".to_owned(),
            parameters,
        };
        let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}});
        let (one, other) = (tool("find", schema.clone()), tool("time", json!({})));
        let tools = ToolDefs::from(vec![one.clone(), other.clone()]);
        let written: Vec<_> = tools.written().collect();
        assert_eq!(written, [(&one, schema.to_string().as_str()), (&other, "{}")]);
        let words =
            |tool: &ToolDef| [tool.name.clone(), tool.description.clone(), tool.parameters.to_string()];
        let count =
            |tool: &ToolDef| words(tool).iter().map(|text| u64::from(estimate(text))).sum::<u64>() + 8;
        assert_eq!(tools.tokens(), count(&one) + count(&other));
        assert_eq!(ToolDefs::default().tokens(), 0);
        assert_eq!(tools, ToolDefs::from_iter([one.clone(), other]));
        assert_ne!(tools, ToolDefs::from(vec![one]));
    }
}
