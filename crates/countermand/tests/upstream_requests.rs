//! What the answers to cancels, marks and undo requests mean.

mod support;

use countermand::{
    core::event::{CancelAnswer, RequestAnswer},
    definition::{CancelDefinition, Work},
};
use support::*;

#[tokio::test]
async fn a_cancel_is_accepted_by_any_acknowledgement() {
    for code in [200, 202, 204, 404, 409, 410] {
        let mut fake = Fake::new([answer(code, "", "")]).await;
        let definition = job_at(&fake);
        let answer = performer(&definition).cancel(&plain_row(&definition), false).await;
        assert_eq!(answer, CancelAnswer::Accepted { how: code.to_string() });
        assert_eq!(fake.request().await.line, "DELETE /jobs/j%2F1");
    }
}

#[tokio::test]
async fn a_cancel_is_not_accepted_by_anything_else() {
    for (script, unauthorised) in [
        (answer(400, "", ""), false),
        (answer(401, "", ""), true),
        (answer(403, "", ""), true),
        (answer(429, "", ""), false),
        (answer(500, "", ""), false),
        (answer(307, "location: /other\r\n", ""), false),
        (Answer::Then(String::new()), false),
    ] {
        let mut fake = Fake::new([script]).await;
        let definition = job_at(&fake);
        match performer(&definition).cancel(&plain_row(&definition), false).await {
            CancelAnswer::NotAccepted(trouble) => {
                assert_eq!(trouble.unauthorised, unauthorised, "{trouble:?}")
            }
            accepted => panic!("{accepted:?}"),
        }
        assert_eq!(fake.requests().len(), 1, "a cancel is neither repeated nor redirected here");
    }
}

#[tokio::test]
async fn an_accepted_cancel_does_not_wait_for_a_body_that_never_ends() {
    let fake = Fake::new([Answer::Hold("HTTP/1.1 202 X\r\ncontent-length: 9\r\n\r\nhalf".into())]).await;
    let definition = job_at(&fake);
    let answer = performer(&definition).cancel(&plain_row(&definition), false).await;
    assert_eq!(answer, CancelAnswer::Accepted { how: "202".into() });
}

#[tokio::test]
async fn the_forced_cancel_is_another_request() {
    let mut fake = Fake::new([answer(202, "", "")]).await;
    let definition = job_at(&fake);
    performer(&definition).cancel(&plain_row(&definition), true).await;
    assert_eq!(fake.request().await.line, "DELETE /jobs/j%2F1/now");
}

#[tokio::test]
async fn a_cancel_that_is_not_offered_is_not_accepted() {
    let fake = Fake::new([]).await;
    let mut job = job();
    job.cancel = CancelDefinition::Unsupported("no such call".into());
    let definition = definition(upstream(&fake.base), Work::Job(Box::new(job)));
    let CancelAnswer::NotAccepted(trouble) =
        performer(&definition).cancel(&plain_row(&definition), false).await
    else {
        panic!("accepted")
    };
    assert!(trouble.message.contains("no such call"));
}

fn word(answer: &RequestAnswer) -> &'static str {
    match answer {
        RequestAnswer::Done => "done",
        RequestAnswer::Refused(_) => "refused",
        RequestAnswer::Failed(_) => "failed",
    }
}

#[tokio::test]
async fn an_undo_is_done_refused_or_tried_again() {
    for (code, delete, post) in [
        (200, "done", "done"),
        (404, "done", "refused"),
        (410, "done", "refused"),
        (400, "refused", "refused"),
        (403, "refused", "refused"),
        (408, "failed", "failed"),
        (409, "failed", "failed"),
        (425, "failed", "failed"),
        (429, "failed", "failed"),
        (302, "failed", "failed"),
        (500, "failed", "failed"),
    ] {
        let fake = Fake::new([answer(code, "", ""), answer(code, "", ""), answer(code, "", "")]).await;
        let mut definition = job_at(&fake);
        definition.compensate = vec![undo("DELETE /rows"), undo("POST /undo")];
        definition.mark = Some(request("DELETE /mark"));
        let performer = performer(&definition);
        let mut row = plain_row(&definition);
        assert_eq!(word(&performer.undo(&row).await), delete, "{code}");
        row.undo_next = 1;
        assert_eq!(word(&performer.undo(&row).await), post, "{code}");
        assert_eq!(word(&performer.mark(&row).await), post, "a mark is not an undo: {code}");
    }
}

#[tokio::test]
async fn an_undo_carries_its_own_key_and_the_kept_arguments() {
    let mut fake = Fake::new([answer(204, "", "")]).await;
    let mut definition = job_at(&fake);
    let mut request = request("DELETE /rows/${args.tag}");
    request.query = vec![("key".into(), template("${op.undo_key}"))];
    definition.compensate = vec![countermand::definition::UndoDefinition::Request(request)];
    let mut row = row(&definition, serde_json::json!({"tag": "a b"}));
    let undo_key = countermand::core::Key::from_random([9; 16]);
    row.undo_key = Some(undo_key);
    assert_eq!(performer(&definition).undo(&row).await, RequestAnswer::Done);
    assert_eq!(fake.request().await.line, format!("DELETE /rows/a%20b?key={undo_key}"));
    row.undo_next = 1;
    assert_eq!(word(&performer(&definition).undo(&row).await), "refused");
}
