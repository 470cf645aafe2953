//! What an answer means for the operation: the table of design.md, as functions.

use super::{HttpFailure, answer::Answer};
use countermand_core::event::{CancelAnswer, CreateAnswer, RequestAnswer};
use http::StatusCode;

/// Those 4xx that say nothing about whether it was done: timeout, conflict, too early.
const fn proves_nothing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 425)
}

/// A create that was not answered with a 2xx that can be used.
pub(super) fn not_created(failure: HttpFailure) -> CreateAnswer {
    match failure {
        HttpFailure::NotSent(trouble) => CreateAnswer::NotSent(trouble),
        HttpFailure::NotFilledIn(trouble) => CreateAnswer::Refused(trouble),
        HttpFailure::Status(StatusCode::TOO_MANY_REQUESTS, trouble) => CreateAnswer::Throttled(trouble),
        HttpFailure::Status(status, trouble) if status.is_client_error() && !proves_nothing(status) => {
            CreateAnswer::Refused(trouble)
        }
        failure => CreateAnswer::Lost(failure.into_trouble()),
    }
}

/// A cancel: any acknowledgement is a receipt, and a status read tells the rest.
pub(super) fn cancelled(answer: Result<Answer, HttpFailure>) -> CancelAnswer {
    match answer {
        Ok(answer) if answer.status.is_success() || matches!(answer.status.as_u16(), 404 | 409 | 410) => {
            CancelAnswer::Accepted { how: answer.status.as_u16().to_string() }
        }
        Ok(answer) => CancelAnswer::NotAccepted(answer.trouble()),
        Err(failure) => CancelAnswer::NotAccepted(failure.into_trouble()),
    }
}

/// A mark or an undo. `gone_is_done`: what a DELETE does not find is deleted.
pub(super) fn requested(answer: Result<Answer, HttpFailure>, gone_is_done: bool) -> RequestAnswer {
    let answer = match answer {
        Ok(answer) => answer,
        Err(HttpFailure::NotFilledIn(trouble)) => return RequestAnswer::Refused(trouble),
        Err(failure) => return RequestAnswer::Failed(failure.into_trouble()),
    };
    let status = answer.status;
    if status.is_success() || (gone_is_done && matches!(status.as_u16(), 404 | 410)) {
        RequestAnswer::Done
    } else if status.is_client_error() && !proves_nothing(status) && status != StatusCode::TOO_MANY_REQUESTS {
        RequestAnswer::Refused(answer.trouble())
    } else {
        RequestAnswer::Failed(answer.trouble())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countermand_core::event::Trouble;

    #[test]
    fn every_status_of_a_create_that_is_no_2xx_has_one_meaning() {
        for code in (100..200).chain(300..600) {
            let failure = HttpFailure::Status(StatusCode::from_u16(code).unwrap(), Trouble::default());
            let name = match not_created(failure) {
                CreateAnswer::Throttled(_) => "throttled",
                CreateAnswer::Refused(_) => "refused",
                CreateAnswer::Lost(_) => "lost",
                other => panic!("{other:?}"),
            };
            let expected = match code {
                429 => "throttled",
                408 | 409 | 425 => "lost",
                400..=499 => "refused",
                _ => "lost",
            };
            assert_eq!(name, expected, "{code}");
        }
    }
}
