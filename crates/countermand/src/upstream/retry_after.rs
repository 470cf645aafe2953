//! `Retry-After`, in both of its forms.

use countermand_core::Timestamp;
use http::{HeaderMap, HeaderName, header};
use jiff::fmt::rfc2822;
use std::time::Duration;

/// What is asked for beyond this is no answer to "when".
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the upstream wants us to wait. A date counts from the answer's own `Date`, so that the
/// clocks need not agree; without one, from `now`.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let until = date(text)?;
            until.since(date_of(headers, header::DATE).unwrap_or(now))
        }
    };
    Some(wait.min(LONGEST))
}

fn date_of(headers: &HeaderMap, name: HeaderName) -> Option<Timestamp> {
    date(headers.get(name)?.to_str().ok()?)
}

fn date(text: &str) -> Option<Timestamp> {
    let zoned = rfc2822::parse(text).ok()?;
    Some(Timestamp::from_micros(zoned.timestamp().as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn wait(fields: &[(HeaderName, &str)]) -> Option<Duration> {
        let headers = fields
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
            .collect();
        retry_after(&headers, Timestamp::from_micros(784_111_770_000_000))
    }

    #[test]
    fn seconds_are_seconds() {
        assert_eq!(wait(&[(header::RETRY_AFTER, "120")]), Some(Duration::from_secs(120)));
        assert_eq!(wait(&[(header::RETRY_AFTER, "0")]), Some(Duration::ZERO));
        assert_eq!(wait(&[(header::RETRY_AFTER, "99999999999")]), Some(LONGEST));
    }

    #[test]
    fn a_date_counts_from_the_answer_s_own_date() {
        let until = (header::RETRY_AFTER, "Sun, 06 Nov 1994 08:49:37 GMT");
        let date = (header::DATE, "Sun, 06 Nov 1994 08:49:07 GMT");
        assert_eq!(wait(&[until.clone(), date]), Some(Duration::from_secs(30)));
        assert_eq!(wait(&[until]), Some(Duration::from_secs(7)));
    }

    #[test]
    fn a_date_that_has_passed_is_now_and_nonsense_is_nothing() {
        assert_eq!(wait(&[(header::RETRY_AFTER, "Sun, 06 Nov 1994 08:49:00 GMT")]), Some(Duration::ZERO));
        assert_eq!(wait(&[(header::RETRY_AFTER, "soon")]), None);
        assert_eq!(wait(&[]), None);
    }
}
