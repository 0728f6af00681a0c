//! Messages that a daemon cannot take at that moment: its hint says to send them again with the same id.

use std::io;

use hyper::StatusCode;
use serde_json::Value;

/// Times that a message is sent at most.
const TRIES: u64 = 30;

/// Whether a message that was sent so often is to be sent again; it is not where it was taken.
///
/// # Errors
/// It was refused otherwise than by `unavailable`, or too often.
pub fn is_to_be_sent_again(n_sent: u64, status: StatusCode, reply: &Value) -> io::Result<bool> {
    if status.is_success() {
        return Ok(false);
    }
    if reply["error"]["code"] == "unavailable" && n_sent < TRIES {
        return Ok(true);
    }
    Err(io::Error::other(format!("sent {n_sent} times: {status}: {reply}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_sent_again_while_the_daemon_cannot_take_it_and_not_for_ever() {
        let refused = |n_sent, code: &str| {
            let reply = json!({ "error": { "code": code } });
            is_to_be_sent_again(n_sent, StatusCode::SERVICE_UNAVAILABLE, &reply).ok()
        };
        assert_eq!(is_to_be_sent_again(1, StatusCode::OK, &json!({})).ok(), Some(false));
        assert_eq!((refused(1, "unavailable"), refused(TRIES - 1, "unavailable")), (Some(true), Some(true)));
        assert_eq!(refused(TRIES, "unavailable"), None);
        assert_eq!(refused(1, "stopping"), None, "another refusal has no such hint");
    }
}
