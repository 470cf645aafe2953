//! What the answer to a create, or to a look-up, means.

mod support;

use countermand::{
    core::event::{CreateAnswer, FindAnswer},
    core::ports::Payload,
    definition::{Extract, FindDefinition, IdSource, Work},
};
use serde_json::{Map, Value, json};
use support::*;

fn word(answer: &CreateAnswer) -> &'static str {
    match answer {
        CreateAnswer::Created { id: Some(_), .. } => "created",
        CreateAnswer::Created { id: None, .. } => "created without an id",
        CreateAnswer::NotSent(_) => "not sent",
        CreateAnswer::Throttled(_) => "throttled",
        CreateAnswer::Refused(trouble) if trouble.unauthorised => "refused, unauthorised",
        CreateAnswer::Refused(_) => "refused",
        CreateAnswer::Lost(_) => "lost",
    }
}

async fn create_of(script: Answer) -> CreateAnswer {
    let fake = Fake::new([script]).await;
    let definition = job_at(&fake);
    performer(&definition).create(&plain_row(&definition)).await.answer
}

fn saved(pairs: &[(&str, Value)]) -> Map<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

#[tokio::test]
async fn every_answer_to_a_create_has_the_meaning_of_the_table() {
    for (script, expected) in [
        (json(201, r#"{"id": 17}"#), "created"),
        (json(200, r#"{"id": null}"#), "created without an id"),
        (json(200, r#"{"other": 1}"#), "created without an id"),
        (answer(200, "", "<html>"), "lost"),
        (answer(204, "", ""), "lost"),
        (answer(303, "location: /elsewhere\r\n", ""), "lost"),
        (answer(400, "", "no"), "refused"),
        (answer(401, "", ""), "refused, unauthorised"),
        (answer(403, "", ""), "refused, unauthorised"),
        (answer(404, "", ""), "refused"),
        (answer(408, "", ""), "lost"),
        (answer(409, "", ""), "lost"),
        (answer(422, "", ""), "refused"),
        (answer(425, "", ""), "lost"),
        (answer(429, "", ""), "throttled"),
        (answer(500, "", ""), "lost"),
        (answer(503, "", ""), "lost"),
        (Answer::Then(String::new()), "lost"),
        (Answer::Then("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"id\":".into()), "lost"),
    ] {
        let shown = match &script {
            Answer::Bytes(text) | Answer::Then(text) | Answer::Hold(text) => text.clone(),
        };
        assert_eq!(word(&create_of(script).await), expected, "{shown}");
    }
}

#[tokio::test]
async fn a_create_that_finds_no_listener_was_not_sent() {
    let definition = job_at(&Fake::new([]).await);
    let CreateAnswer::NotSent(trouble) = performer(&definition).create(&plain_row(&definition)).await.answer
    else {
        panic!("it was sent")
    };
    assert!(
        trouble.message.contains("POST /jobs: no connection to http://127.0.0.1:"),
        "{}",
        trouble.message
    );
    assert!(trouble.message.ends_with("nothing was sent"), "{}", trouble.message);
}

#[tokio::test]
async fn a_name_that_does_not_resolve_and_tls_that_fails_are_not_sent() {
    let mut fake = Fake::new([]).await;
    let mut definition = job_at(&fake);
    http(&mut definition).base_url = "http://no-such-host.invalid".into();
    assert_eq!(word(&performer(&definition).create(&plain_row(&definition)).await.answer), "not sent");
    http(&mut definition).base_url = fake.base.replace("http", "https");
    http(&mut definition).limits.connect_timeout = std::time::Duration::from_millis(200);
    // Where the machine has no TLS roots at all, the upstream is refused before.
    if let Ok(performer) = upstreams().for_definition(&definition) {
        assert_eq!(word(&performer.create(&plain_row(&definition)).await.answer), "not sent");
    }
    assert_eq!(fake.requests(), []);
}

#[tokio::test]
async fn what_cannot_be_filled_in_is_refused_before_it_is_sent() {
    let mut fake = Fake::new([]).await;
    let mut job = job();
    job.create.request = request("POST /jobs/${args.tag}");
    let definition = definition(upstream(&fake.base), Work::Job(Box::new(job)));
    let answer = performer(&definition).create(&row(&definition, json!({"tag": ".."}))).await.answer;
    assert_eq!(word(&answer), "refused");
    assert_eq!(fake.requests(), []);
}

#[tokio::test]
async fn an_id_and_what_is_saved_come_out_of_body_or_header() {
    let body = r#"{"id": "a/b", "url": "/next"}"#;
    assert_eq!(
        create_of(json(202, body)).await,
        CreateAnswer::Created { id: Some("a/b".into()), saved: saved(&[("url", json!("/next"))]) }
    );
    let fake = Fake::new([answer(202, "location: /jobs/9\r\n", "no json"), answer(202, "", "")]).await;
    let mut job = job();
    job.create.id = IdSource::Response(Extract::Header("Location".into()));
    let definition = definition(upstream(&fake.base), Work::Job(Box::new(job)));
    let performer = performer(&definition);
    assert_eq!(
        performer.create(&plain_row(&definition)).await.answer,
        CreateAnswer::Created { id: Some("/jobs/9".into()), saved: Map::new() }
    );
    assert_eq!(word(&performer.create(&plain_row(&definition)).await.answer), "created without an id");
}

#[tokio::test]
async fn an_id_that_we_make_needs_no_body_and_a_conflict_on_it_is_lost() {
    let mut fake = Fake::new([answer(201, "", ""), answer(409, "", "exists")]).await;
    let mut job = job();
    job.create.request = request("PUT /jobs/${op.id}");
    job.create.id = IdSource::Ours("${op.name}".parse().unwrap());
    let definition = definition(upstream(&fake.base), Work::Job(Box::new(job)));
    let performer = performer(&definition);
    let mut row = plain_row(&definition);
    row.upstream_id = None;
    let name = key().name();
    assert_eq!(
        performer.create(&row).await.answer,
        CreateAnswer::Created { id: Some(name.clone().into()), saved: Map::new() }
    );
    assert_eq!(fake.request().await.line, format!("PUT /jobs/{name}"));
    assert_eq!(word(&performer.create(&row).await.answer), "lost");
}

#[tokio::test]
async fn a_call_s_own_arguments_fill_in_only_its_create() {
    let mut fake = Fake::new([json(200, r#"{"id": 1}"#), answer(204, "", "")]).await;
    let mut job = job();
    job.create.request.query = vec![("secret".into(), template("${args.password}"))];
    let mut definition = definition(upstream(&fake.base), Work::Job(Box::new(job)));
    definition.mark = Some(request("PUT /mark"));
    definition.mark.as_mut().unwrap().query = vec![("secret".into(), template("${args.password}"))];
    let Value::Object(arguments) = json!({"password": "p"}) else { unreachable!() };
    let performer = upstreams().for_call(&definition, arguments).unwrap();
    performer.create(&plain_row(&definition)).await;
    performer.mark(&plain_row(&definition)).await;
    assert_eq!(fake.request().await.line, "POST /jobs?secret=p");
    assert_eq!(fake.request().await.line, "PUT /mark");
}

#[tokio::test]
async fn a_single_request_has_ended_with_its_2xx_whatever_its_body_is() {
    let fake = Fake::new([
        json(201, r#"{"order": {"id": 7}}"#),
        answer(200, "content-type: text/plain\r\n", "thanks"),
        Answer::Then("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nthan".into()),
        answer(429, "retry-after: 3\r\n", ""),
    ])
    .await;
    let mut http = once();
    http.value = "$.order".into();
    let definition = definition(upstream(&fake.base), Work::Http(Box::new(http)));
    let performer = performer(&definition);
    let row = plain_row(&definition);
    let first = performer.create(&row).await;
    assert_eq!(first.answer, CreateAnswer::Created { id: None, saved: Map::new() });
    assert_eq!(first.payload, Some(Payload::Json(json!({"id": 7}))));
    let text = Payload::Text { media_type: "text/plain".into(), text: "thanks".into() };
    assert_eq!(performer.create(&row).await.payload, Some(text));
    let cut = performer.create(&row).await;
    assert_eq!((word(&cut.answer), cut.payload), ("created without an id", None));
    assert!(performer.result(&row).await.unwrap_err().message.contains("was carried out"));
    let CreateAnswer::Throttled(trouble) = performer.create(&row).await.answer else {
        panic!("not throttled")
    };
    assert_eq!(trouble.retry_after, Some(std::time::Duration::from_secs(3)));
}

#[tokio::test]
async fn a_single_request_whose_id_broke_off_is_lost() {
    let fake = Fake::new([Answer::Then("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".into())]).await;
    let mut http = once();
    http.id = Some(path("$.id"));
    let definition = definition(upstream(&fake.base), Work::Http(Box::new(http)));
    assert_eq!(word(&performer(&definition).create(&plain_row(&definition)).await.answer), "lost");
}

async fn find_of(script: Answer, find: FindDefinition) -> FindAnswer {
    let fake = Fake::new([script]).await;
    let mut job = job();
    job.find = Some(find);
    let definition = definition(upstream(&fake.base), Work::Job(Box::new(job)));
    performer(&definition).find(&plain_row(&definition)).await
}

#[tokio::test]
async fn a_look_up_hits_misses_or_says_nothing() {
    let by_key = || job().find.unwrap();
    let listed = format!(r#"{{"jobs": [{{"key": "x", "id": 1}}, {{"key": "{}", "id": 2}}]}}"#, key());
    let hit = |id: &str| FindAnswer::Hit { id: Some(id.into()), saved: Map::new() };
    assert_eq!(find_of(json(200, &listed), by_key()).await, hit("2"));
    assert_eq!(find_of(json(200, r#"{"jobs": []}"#), by_key()).await, FindAnswer::Miss);
    assert_eq!(find_of(json(200, r#"{"jobs": [{"key": "x", "id": 1}]}"#), by_key()).await, FindAnswer::Miss);
    assert_eq!(find_of(answer(404, "", ""), by_key()).await, FindAnswer::Miss);
    assert_eq!(find_of(answer(204, "", ""), by_key()).await, FindAnswer::Miss);
    for nothing in [
        answer(200, "", "<html>"),
        answer(500, "", ""),
        answer(403, "", ""),
        answer(302, "", ""),
        Answer::Then("".into()),
    ] {
        assert!(matches!(find_of(nothing, by_key()).await, FindAnswer::Failed(_)));
    }
    let by_status = FindDefinition { request: request("GET /orders"), id: None };
    assert_eq!(
        find_of(answer(200, "", ""), by_status).await,
        FindAnswer::Hit { id: None, saved: Map::new() }
    );
}
