//! What can be known of a message that is too long to be kept: its id, wherever in it that stands.

/// Reads a JSON object piece by piece and keeps nothing but its `id`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Skim {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The last name or simple value of the outermost object, cut off.
    word: Vec<u8>,
    /// Whether the word is the value of `id`.
    is_id: bool,
    id: Option<Vec<u8>>,
    has_method: bool,
}

/// Longer ones are of no interest.
const WORD: usize = 64;

impl Skim {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.take(*byte);
        }
    }

    fn take(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return self.keep(byte);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.end_of_value();
                self.depth = self.depth.saturating_sub(1);
            }
            b',' => self.end_of_value(),
            b':' if self.depth == 1 => {
                let name = std::mem::take(&mut self.word);
                self.is_id = name == b"\"id\"";
                self.has_method |= name == b"\"method\"";
            }
            _ if byte.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.word.len() < WORD {
            self.word.push(byte);
        }
    }

    fn end_of_value(&mut self) {
        if self.depth == 1 {
            let word = std::mem::take(&mut self.word);
            if std::mem::take(&mut self.is_id) {
                self.id = Some(word);
            }
        }
    }

    /// The id of an answer, as it was written. `None` if it is anything else.
    pub(crate) fn answered(&self) -> Option<&str> {
        let id = self.id.as_ref().filter(|_| !self.has_method)?;
        std::str::from_utf8(id).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(json: &str) -> Option<String> {
        let mut skim = Skim::default();
        for piece in json.as_bytes().chunks(3) {
            skim.feed(piece);
        }
        skim.answered().map(ToOwned::to_owned)
    }

    #[test]
    fn an_answer_is_known_by_its_id_wherever_that_stands() {
        let own = r#"{"id":1,"a":["}\"",{"id":2}],"id ":3}"#;
        assert_eq!(answered(&format!(r#"{{"jsonrpc":"2.0","id":7,"result":{own}}}"#)).as_deref(), Some("7"));
        assert_eq!(answered(&format!(r#"{{"result": {own} , "id" : 7 }}"#)).as_deref(), Some("7"));
        assert_eq!(answered(&format!(r#"{{"result":{own},"id":"7"}}"#)).as_deref(), Some("\"7\""));
        assert_eq!(answered(&format!(r#"{{"result":{own}}}"#)), None);
        assert_eq!(answered(&format!(r#"{{"method":"m","id":7,"params":{own}}}"#)), None);
        assert_eq!(answered("no json at all, \"id\":7"), None);
    }
}
