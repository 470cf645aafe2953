//! An address that is told something by a POST.

use crate::{
    definition::{HttpLimits, Value},
    secret::{Secret, Secrets},
    upstream,
};
use http::{HeaderName, HeaderValue, header};
use url::Url;

pub(super) async fn post(
    url: &Value,
    headers: &[(String, Value)],
    told: &serde_json::Value,
    secrets: &Secrets,
) -> Result<(), String> {
    let address = secrets.value(url).await.map_err(|error| error.to_string())?;
    let mut used = vec![address.clone()];
    let url =
        Url::parse(address.expose().trim()).map_err(|error| format!("the webhook is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("the webhook starts with `http://` or `https://`".into());
    }
    let client = upstream::http_client(&HttpLimits::default(), url.scheme())
        .map_err(|error| format!("the webhook cannot be asked: {}", upstream::cause(&error)))?;
    let mut request = client
        .post(url)
        .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .body(told.to_string());
    for (name, value) in headers {
        let secret = secrets.value(value).await.map_err(|error| error.to_string())?;
        let unfit = || format!("the header `{name}` of the webhook cannot be sent");
        let mut line = HeaderValue::from_str(secret.expose()).map_err(|_| unfit())?;
        line.set_sensitive(true);
        request = request.header(HeaderName::try_from(name.as_str()).map_err(|_| unfit())?, line);
        used.push(secret);
    }
    let redact = |text: String| used.iter().fold(text, |text: String, secret: &Secret| secret.redact(&text));
    match request.send().await {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(format!("the webhook answered {}", answer.status())),
        Err(error) => Err(redact(format!("the webhook did not answer: {}", upstream::cause(&error)))),
    }
}
