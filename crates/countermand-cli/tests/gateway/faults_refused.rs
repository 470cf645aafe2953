//! Creates that the upstream refuses, puts off, or cannot be reached for.

use crate::{
    faults::{alarmed, cancel, error, keys, requests, stage, success, tag, told},
    over_all,
    stage::{Caller, Door, Stage, Times},
};
use countermand_testkit::fake::{FakeUpstream, Fault, Route};

over_all! {
    async fn a_create_that_is_put_off_with_429_is_sent_again_with_its_key_when_the_upstream_said(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CreateJob, Fault::Status(429, Some(1)), Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        stage.fake.finish("job-1");
        success(&mut caller, &mut pending).await;
        let row = stage.phase("completed").await;
        let sent = requests(&stage, Route::CreateJob);
        assert!(sent.len() == 2 && sent[1] - sent[0] >= 950.0, "Retry-After counts: {sent:?}");
        assert_eq!(keys(&stage, Route::CreateJob), [row["key"].as_str().unwrap()]);
        told(&mut caller, &stage, "finished").await;
        assert_eq!(stage.agree().await.created, 1);
    }
}

over_all! {
    async fn a_cancel_between_two_tries_of_a_create_ends_it_as_never_created(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CreateJob, Fault::Status(429, Some(60)), Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.operations_when("the refusal", |rows| rows.len() == 1 && rows[0]["attempts"] == 1).await;
        caller.cancel(pending).await;
        stage.phase("never_created").await;
        told(&mut caller, &stage, "never_started").await;
        assert_eq!(requests(&stage, Route::CreateJob).len(), 1);
        assert_eq!(stage.agree().await.created, 0);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn a_create_that_is_refused_fails_at_once_and_nothing_runs_upstream(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CreateJob, Fault::Status(422, None), None);
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        for words in ["was not started, and nothing of it runs upstream", "POST /jobs", "422", "a fault that a test asked for"] {
            assert!(text.contains(words), "{text}");
        }
        stage.phase("failed").await;
        told(&mut caller, &stage, "failed").await;
        assert_eq!((requests(&stage, Route::CreateJob).len(), stage.agree().await.created), (1, 0));
    }
}

over_all! {
    async fn a_create_refused_for_its_credentials_says_which_and_is_loud(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CreateJob, Fault::Status(401, None), None);
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        assert!(text.contains("check what it accepts against"), "{text}");
        let row = stage.phase("failed").await;
        alarmed(&caller, &["credentials", row["id"].as_str().unwrap()]).await;
        told(&mut caller, &stage, "failed").await;
        assert_eq!((requests(&stage, Route::CreateJob).len(), stage.agree().await.created), (1, 0));
    }
}

over_all! {
    async fn a_create_answered_with_503_is_sent_again_with_its_key(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CreateJob, Fault::Status(503, None), Some(1));
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        stage.phase("running").await;
        stage.fake.finish("job-1");
        success(&mut caller, &mut pending).await;
        let row = stage.phase("completed").await;
        assert_eq!(keys(&stage, Route::CreateJob), [row["key"].as_str().unwrap()]);
        told(&mut caller, &stage, "finished").await;
        assert_eq!(stage.agree().await.created, 1);
    }
}

over_all! {
    async fn an_upstream_that_only_answers_creates_with_503_fails_the_call_after_a_look_up(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CreateJob, Fault::Status(503, None), None);
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        assert!(text.contains("so it counts as not started") && text.contains("has nothing under its key"), "{text}");
        let row = stage.phase("failed").await;
        assert!(!requests(&stage, Route::FindJobs).is_empty());
        assert_eq!(keys(&stage, Route::CreateJob), [row["key"].as_str().unwrap()]);
        told(&mut caller, &stage, "failed").await;
        assert_eq!(stage.agree().await.created, 0);
    }
}

over_all! {
    async fn a_cancel_while_a_create_is_only_answered_with_503_ends_it_as_never_created(door) {
        let stage = stage().await;
        stage.fake.fault(Route::CreateJob, Fault::Status(503, None), None);
        let mut caller = Caller::at(door, &stage).await;
        let pending = caller.call(1, "run_report", tag()).await;
        stage.fake.wait_for("fault_applied", 1).await;
        cancel(&mut caller, pending, &stage).await;
        stage.phase("never_created").await;
        told(&mut caller, &stage, "never_started").await;
        assert_eq!(stage.agree().await.created, 0);
        caller.nothing_was_sent_for(&[1]).await;
    }
}

over_all! {
    async fn an_upstream_that_refuses_connections_fails_the_call_and_the_message_says_what_to_check(door) {
        let nobody = FakeUpstream::start().await;
        let (url, addr) = (nobody.base_url(), nobody.addr());
        nobody.shutdown().await;
        let edit = |config: String| {
            let base = config.lines().find(|line| line.contains("base_url")).unwrap().split('"').nth(1).unwrap().to_owned();
            config.replace(&base, &url)
        };
        let stage = Stage::with_config(Times::default(), edit).await;
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "run_report", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        for words in ["POST /jobs", &addr.to_string(), "refused", "nothing was sent", "`base_url`"] {
            assert!(text.contains(words), "`{words}` is missing: {text}");
        }
        stage.phase("failed").await;
        told(&mut caller, &stage, "failed").await;
        assert_eq!(stage.agree().await.created, 0);
    }
}

over_all! {
    async fn a_create_that_is_sent_elsewhere_is_not_followed_and_the_message_says_so(door) {
        let elsewhere = FakeUpstream::start().await;
        let stage = stage().await;
        let target = format!("{}/jobs?token=hush", elsewhere.base_url());
        stage.fake.fault(Route::CreateJob, Fault::Redirect(target), None);
        let mut caller = Caller::at(door, &stage).await;
        let mut pending = caller.call(1, "keyless", tag()).await;
        let text = error(&mut caller, &mut pending).await;
        assert!(text.contains("is not followed: check `base_url`") && !text.contains("hush"), "{text}");
        assert!(elsewhere.events().is_empty(), "{:#?}", elsewhere.events());
        // A redirect proves nothing of what was done before it, and nothing could tell.
        stage.phase("orphaned").await;
        told(&mut caller, &stage, "orphaned").await;
        assert_eq!(stage.agree().await.created, 0);
    }
}
