//! An answer: its head, then its body within the limits, and what it says in words.

use super::{
    HttpFailure, HttpUpstreamClient,
    exchange::cause,
    extract::{Pick, id_of},
    retry_after::retry_after,
    shown::{Shown, one_line},
};
use crate::secret::Secret;
use countermand_core::{
    UpstreamId,
    event::{Says, Trouble},
};
use http::{HeaderMap, StatusCode, header};
use serde_json::Value;
use std::time::Duration;
use url::Url;

/// How much of an upstream's own words a message holds, in bytes.
const WORDS: usize = 200;

/// How much of a body is read, and for how long, where only its words matter.
const GLANCE: (u64, Duration) = (64 << 10, Duration::from_secs(1));

/// Keeps the secrets of a request out of what is said about its answer.
pub(super) struct Redactor(Vec<(String, Secret)>);

impl Redactor {
    pub(super) fn new(used: impl Iterator<Item = (String, Secret)>) -> Self {
        Self(used.collect())
    }

    fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (_, secret)| secret.redact(&text))
    }

    fn references(&self) -> String {
        let references: Vec<&str> = self.0.iter().map(|(reference, _)| reference.as_str()).collect();
        if references.is_empty() { "`headers`".to_owned() } else { references.join(", ") }
    }
}

/// The head of an answer; its body is still on its way.
pub(super) struct Head {
    pub(super) status: StatusCode,
    response: reqwest::Response,
    shown: Shown,
    redactor: Redactor,
    retry_after: Option<Duration>,
    max_bytes: u64,
    read_timeout: Duration,
}

impl Head {
    pub(super) fn new(
        response: reqwest::Response,
        shown: Shown,
        redactor: Redactor,
        client: &HttpUpstreamClient,
    ) -> Self {
        Self {
            status: response.status(),
            shown,
            redactor,
            retry_after: retry_after(response.headers(), client.clock.now().at),
            max_bytes: client.upstream.limits.max_bytes,
            read_timeout: client.upstream.limits.read_timeout,
            response,
        }
    }

    /// Where it redirects to.
    pub(super) fn location(&self) -> Option<Url> {
        location(self.response.headers(), self.response.url())
    }

    /// What the head alone says of an id.
    pub(super) fn id(&self, pick: &Pick) -> Option<UpstreamId> {
        id_of(&pick.of_head(self.response.headers(), self.response.url())?)
    }

    /// The answer with its body: the whole of it for a 2xx, else what it says in words.
    pub(super) async fn answer(self) -> Result<Answer, HttpFailure> {
        if self.status.is_success() { self.whole().await } else { Ok(self.glance().await) }
    }

    /// The answer with its whole body.
    pub(super) async fn whole(mut self) -> Result<Answer, HttpFailure> {
        match read(&mut self.response, self.max_bytes).await {
            Ok(body) => Ok(self.with(body)),
            Err(unread) => {
                let Self { shown, status, max_bytes, read_timeout, .. } = self;
                Err(match unread {
                    Unread::TooLarge => HttpFailure::TooLarge(
                        status,
                        Trouble::new(format!(
                            "{shown}: the answer ({status}) is larger than {max_bytes} bytes: raise `max_bytes` or ask for less"
                        )),
                    ),
                    Unread::Silent => HttpFailure::CutOff(
                        status,
                        Trouble::new(format!(
                            "{shown}: the answer ({status}) was silent for {read_timeout:?} in its body (`read_timeout`)"
                        )),
                    ),
                    Unread::Broke(why) => HttpFailure::CutOff(
                        status,
                        Trouble::new(format!(
                            "{shown}: the answer ({status}) broke off in its body ({why}): check the upstream, and what stands in front of it"
                        )),
                    ),
                })
            }
        }
    }

    /// The answer with as much of its body as arrives soon: its status is what matters.
    pub(super) async fn glance(mut self) -> Answer {
        let (most, patience) = GLANCE;
        let read = tokio::time::timeout(patience, read(&mut self.response, most.min(self.max_bytes))).await;
        let body = read.ok().and_then(Result::ok).unwrap_or_default();
        self.with(body)
    }

    fn with(self, body: Vec<u8>) -> Answer {
        Answer {
            status: self.status,
            url: self.response.url().clone(),
            headers: self.response.headers().clone(),
            body,
            retry_after: self.retry_after,
            shown: self.shown,
            redactor: self.redactor,
        }
    }
}

enum Unread {
    TooLarge,
    Silent,
    Broke(String),
}

impl Unread {
    fn because(error: &reqwest::Error) -> Self {
        if error.is_timeout() { Self::Silent } else { Self::Broke(cause(error)) }
    }
}

async fn read(response: &mut reqwest::Response, most: u64) -> Result<Vec<u8>, Unread> {
    if response.content_length().is_some_and(|length| length > most) {
        return Err(Unread::TooLarge);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Unread::because(&error))? {
        if (body.len() + chunk.len()) as u64 > most {
            return Err(Unread::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// `Location`, resolved against the URL that was asked.
fn location(headers: &HeaderMap, asked: &Url) -> Option<Url> {
    asked.join(headers.get(header::LOCATION)?.to_str().ok()?).ok()
}

/// A whole answer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) retry_after: Option<Duration>,
    shown: Shown,
    redactor: Redactor,
}

impl Answer {
    /// The body as JSON.
    pub(super) fn json(&self) -> Result<Value, HttpFailure> {
        serde_json::from_slice(&self.body).map_err(|error| {
            if let Err(encoded) = self.is_plain() {
                return encoded;
            }
            let said = match self.words() {
                Some(words) => format!("it starts with `{words}`"),
                None if self.body.is_empty() => "it is empty".to_owned(),
                None => "it is not text".to_owned(),
            };
            self.unusable(&format!("the answer ({}) is not JSON ({error}); {said}", self.status.as_u16()))
        })
    }

    /// Compressed answers are not asked for, and not unpacked: `max_bytes` could not bound them.
    pub(super) fn is_plain(&self) -> Result<(), HttpFailure> {
        let encoding = self.headers.get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok());
        match encoding.map(str::trim).filter(|encoding| !matches!(*encoding, "" | "identity")) {
            None => Ok(()),
            Some(encoding) => Err(self.unusable(&format!(
                "the answer ({}) is encoded as `{}`, which was not asked for: turn off compression in front of the upstream",
                self.status.as_u16(),
                self.say(encoding)
            ))),
        }
    }

    /// A good answer that is not what it should be.
    pub(super) fn unusable(&self, problem: &str) -> HttpFailure {
        let message = self.redactor.redact(&format!("{}: {problem}", self.shown));
        HttpFailure::Unusable(Trouble {
            message,
            retry_after: self.retry_after,
            unauthorised: false,
            says: Says::Well,
        })
    }

    /// What an answer that is no 2xx says.
    pub(super) fn failure(&self) -> HttpFailure {
        HttpFailure::Status(self.status, self.trouble())
    }

    /// What an answer that is no 2xx says.
    pub(super) fn trouble(&self) -> Trouble {
        let unauthorised = matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let mut message = format!("{}: it answered {}", self.shown, self.status);
        if let Some(words) = self.words() {
            message = format!("{message}: {words}");
        }
        if unauthorised {
            message = format!("{message}; check what it accepts against {}", self.redactor.references());
        } else if self.status.is_redirection()
            && let Some(to) = location(&self.headers, &self.url)
        {
            let to = format!("{}{}", to.origin().ascii_serialization(), to.path());
            message = format!(
                "{message}; it redirects to {}, which is not followed: check `base_url`",
                one_line(&to, WORDS)
            );
        }
        let says = if self.status.is_server_error() { Says::Ill } else { Says::Well };
        Trouble { message: self.redactor.redact(&message), retry_after: self.retry_after, unauthorised, says }
    }

    /// Text of the upstream, fit for a message.
    pub(super) fn say(&self, text: &str) -> String {
        self.say_at_most(text, WORDS)
    }

    /// Text of the upstream, fit for a message, cut at so many bytes.
    pub(super) fn say_at_most(&self, text: &str, most: usize) -> String {
        // Redacted before it is cut, lest a part of a secret stays.
        one_line(&self.redactor.redact(text), most)
    }

    /// The upstream's own words: what JSON calls its message, or the beginning of a text.
    fn words(&self) -> Option<String> {
        let words = match serde_json::from_slice::<Value>(&self.body) {
            Ok(json) => message_of(&json).map_or_else(|| json.to_string(), str::to_owned),
            Err(_) => match std::str::from_utf8(&self.body) {
                Ok(text) => text.to_owned(),
                Err(error) => String::from_utf8_lossy(&self.body[..error.valid_up_to()]).into_owned(),
            },
        };
        Some(self.say(&words)).filter(|words| !words.is_empty())
    }
}

/// Where APIs put the message of an error.
fn message_of(json: &Value) -> Option<&str> {
    ["/error/message", "/message", "/error_description", "/error", "/detail", "/title"]
        .iter()
        .find_map(|at| json.pointer(at)?.as_str())
}
