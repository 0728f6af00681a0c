//! `time`: the time now, in any time zone.

use cairn_core::model::ToolDef;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

pub(super) const NAME: &str = "time";

pub(super) fn definition() -> ToolDef {
    ToolDef {
        name: NAME.to_owned(),
        description: "The time now.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "zone": { "type": "string", "description": "IANA time zone, such as Europe/Berlin" }
            }
        }),
    }
}

/// The time in the zone that is asked for, else in the agent's.
pub(super) fn tell(arguments: &Value, now: Timestamp, own_zone: &str) -> Result<String, String> {
    let wanted = arguments.get("zone").and_then(Value::as_str).filter(|zone| !zone.trim().is_empty());
    let name = wanted.unwrap_or(own_zone).trim();
    let zone = TimeZone::get(name)
        .map_err(|_| format!("`{name}` is no time zone; write an IANA name, such as Europe/Berlin or UTC"))?;
    Ok(format!("{} ({name})", now.to_zoned(zone).strftime("%A, %Y-%m-%d %H:%M:%S, UTC%:z")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_told_in_any_zone() {
        let now: Timestamp = "2026-07-01T12:00:00Z".parse().unwrap();
        assert_eq!(tell(&json!({}), now, "UTC").unwrap(), "Wednesday, 2026-07-01 12:00:00, UTC+00:00 (UTC)");
        let berlin = tell(&json!({ "zone": "Europe/Berlin" }), now, "UTC").unwrap();
        assert_eq!(berlin, "Wednesday, 2026-07-01 14:00:00, UTC+02:00 (Europe/Berlin)");
        assert!(tell(&json!({ "zone": "Middle/Earth" }), now, "UTC").unwrap_err().contains("IANA"));
    }
}
