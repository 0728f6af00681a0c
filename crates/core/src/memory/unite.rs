//! Merging memories that say the same, by a person's command.

use cairn_types::event::MemoryEvent;
use cairn_types::memory::Memory;

/// Why memories cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUnited {
    #[error("there is nothing to unite: name two memories or more")]
    Alone,
    /// One would be visible where the other was not.
    #[error("{0} is of another agent or scope: only memories that the same people see can be made one")]
    Elsewhere(cairn_types::ids::MemoryId),
}

/// Merges memories: `kept` takes the text and the highest importance; the others are forgotten and do not come back by
/// themselves.
///
/// # Errors
/// There are no others, or one of them belongs to another agent or scope.
pub fn unite(kept: &Memory, others: &[Memory], text: &str) -> Result<Vec<MemoryEvent>, NotUnited> {
    let others: Vec<&Memory> = others.iter().filter(|other| other.id != kept.id).collect();
    if others.is_empty() {
        return Err(NotUnited::Alone);
    }
    let elsewhere = |other: &&&Memory| (&other.agent, &other.scope) != (&kept.agent, &kept.scope);
    if let Some(other) = others.iter().find(elsewhere) {
        return Err(NotUnited::Elsewhere(other.id.clone()));
    }
    let importance = others.iter().map(|other| other.importance).fold(kept.importance, f64::max);
    // They go first: their text may be the one that is kept.
    let forgotten = others.iter().map(|other| MemoryEvent::Forgotten { id: other.id.clone(), wished: false });
    let text = (text != kept.text).then(|| text.to_owned());
    let importance = (importance > kept.importance).then_some(importance);
    let edited = MemoryEvent::Edited { id: kept.id.clone(), text, kind: None, importance };
    let changes = !matches!(&edited, MemoryEvent::Edited { text: None, importance: None, .. });
    Ok(forgotten.chain(changes.then_some(edited)).collect())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::testing;
    use cairn_types::ids::{AgentId, MemoryId};
    use cairn_types::memory::{MemoryKind, Scope, TYPED};

    fn memory(id: &str, scope: Scope, importance: f64) -> Memory {
        Memory {
            id: MemoryId::from(id),
            agent: AgentId::from("main"),
            scope,
            kind: MemoryKind::Fact,
            text: format!("text of {id}"),
            subject: None,
            importance,
            sightings: 1,
            source: testing::source(None, TYPED),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            recalled_at: None,
            uses: 0,
            superseded_by: None,
            until: None,
        }
    }

    #[test]
    fn the_kept_one_takes_the_text_and_the_highest_importance_and_the_others_are_forgotten() {
        let [a, b, c] =
            [("a", 0.2), ("b", 0.9), ("c", 0.4)].map(|(id, importance)| memory(id, Scope::Agent, importance));
        let forgotten = |id: &str| MemoryEvent::Forgotten { id: MemoryId::from(id), wished: false };
        let edited = |text: Option<&str>, importance| MemoryEvent::Edited {
            id: a.id.clone(),
            text: text.map(str::to_owned),
            kind: None,
            importance,
        };
        let all = unite(&a, &[a.clone(), b.clone(), c.clone()], "both");
        assert_eq!(all, Ok(vec![forgotten("b"), forgotten("c"), edited(Some("both"), Some(0.9))]));
        assert_eq!(
            unite(&b, std::slice::from_ref(&c), "text of b"),
            Ok(vec![forgotten("c")]),
            "nothing of it changes"
        );
        assert_eq!(unite(&a, std::slice::from_ref(&a), "both"), Err(NotUnited::Alone));
    }

    #[test]
    fn what_others_see_is_not_made_one_with_what_they_do_not() {
        let (everywhere, here) =
            (memory("a", Scope::Agent, 0.1), memory("b", "chat:local/x".parse().unwrap(), 0.1));
        assert_eq!(
            unite(&everywhere, std::slice::from_ref(&here), "both"),
            Err(NotUnited::Elsewhere(here.id.clone()))
        );
        assert_eq!(
            unite(&here, std::slice::from_ref(&everywhere), "both"),
            Err(NotUnited::Elsewhere(everywhere.id))
        );
    }
}
