//! What goes back to the peer.

use bytes::Bytes;
use serde_json::{Value, json};

/// An answer that is not written yet.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    /// How many bytes of padding the body has behind its first fields.
    pub(crate) padding: u64,
    /// Whether the body comes byte by byte.
    pub(crate) trickle: bool,
    /// Whether its end is that of the connection.
    pub(crate) ends_with_connection: bool,
}

/// The end of a padded body.
const PAD_END: &[u8] = b"\"}";

impl Answer {
    pub(crate) fn json(status: u16, body: &Value) -> Answer {
        Answer {
            status,
            headers: vec![("content-type", "application/json".into())],
            body: Bytes::from(body.to_string()),
            padding: 0,
            trickle: false,
            ends_with_connection: false,
        }
    }

    pub(crate) fn error(status: u16, message: &str) -> Answer {
        Answer::json(status, &json!({ "error": message }))
    }

    pub(crate) fn no_content() -> Answer {
        Answer::json(204, &json!({})).empty()
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    /// The same success, said to humans.
    pub(crate) fn not_json(self) -> Answer {
        let body = Bytes::from_static(b"<!doctype html><title>Welcome</title><p>Please log in.");
        Answer { headers: vec![("content-type", "text/html".into())], body, ..self }
    }

    /// The same success, without a word.
    pub(crate) fn empty(self) -> Answer {
        Answer { headers: Vec::new(), body: Bytes::new(), ..self }
    }

    /// The same answer, made at least `bytes` long by one more field.
    pub(crate) fn huge(mut self, bytes: u64) -> Answer {
        let Some(open) = self.body.strip_suffix(b"}") else { return self };
        let comma = if open.ends_with(b"{") { "" } else { "," };
        let start = [open, comma.as_bytes(), b"\"padding\":\""].concat();
        self.padding = bytes.saturating_sub((start.len() + PAD_END.len()) as u64);
        self.body = Bytes::from(start);
        if self.padding == 0 {
            self.padding = 1;
        }
        self
    }

    /// The same answer, byte by byte.
    pub(crate) fn trickled(self) -> Answer {
        Answer { trickle: true, ..self }
    }

    /// The same answer, of unknown length.
    pub(crate) fn without_length(self) -> Answer {
        Answer { ends_with_connection: true, ..self }
    }

    /// Head, body and what follows the padding.
    pub(crate) fn parts(&self, keep_alive: bool) -> (Bytes, Bytes, Bytes) {
        let tail = if self.padding == 0 { Bytes::new() } else { Bytes::from_static(PAD_END) };
        let length = self.body.len() as u64 + self.padding + tail.len() as u64;
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.status != 204 && !self.ends_with_connection {
            head.push_str(&format!("content-length: {length}\r\n"));
        }
        if !keep_alive || self.ends_with_connection {
            head.push_str("connection: close\r\n");
        }
        head.push_str("\r\n");
        (Bytes::from(head), self.body.clone(), tail)
    }
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Unknown")
}
