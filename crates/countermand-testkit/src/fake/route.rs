//! What a request is for, told by its method and path alone.

use serde::{Deserialize, Serialize};

/// The kinds of request that the fake knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// `POST /jobs`
    CreateJob,
    /// `GET /jobs/ID`
    JobStatus,
    /// `GET /jobs/ID/result`
    JobResult,
    /// `DELETE /jobs/ID`
    CancelJob,
    /// `POST /jobs/ID/force`
    ForceJob,
    /// `GET /jobs`
    FindJobs,
    /// `DELETE /rows`
    DeleteRows,
    /// `PUT …/label`
    Label,
    /// `GET /slow`
    Slow,
    /// `POST /orders`
    Order,
    /// `GET /quick`
    Quick,
    /// Anything under `/echo`.
    Echo,
    /// Anything under `/_control`.
    Control,
    /// Anything else.
    Other,
}

/// A request target, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) route: Route,
    /// The decoded `ID` of `/jobs/ID…`.
    pub(crate) job: Option<String>,
    /// What follows `/_control/`.
    pub(crate) command: Option<String>,
    pub(crate) query: Vec<(String, String)>,
}

impl Target {
    pub(crate) fn parse(method: &str, raw: &str) -> Target {
        let (path, query) = raw.split_once('?').unwrap_or((raw, ""));
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let mut job = None;
        let mut command = None;
        let route = match (method, segments.as_slice()) {
            (_, ["echo", ..]) => Route::Echo,
            (_, ["_control", name @ ..]) => {
                command = Some(name.join("/"));
                Route::Control
            }
            ("POST", ["jobs"]) => Route::CreateJob,
            ("GET", ["jobs"]) => Route::FindJobs,
            (_, ["jobs", id, rest @ ..]) => {
                job = Some(decode(id));
                match (method, rest) {
                    ("GET", []) => Route::JobStatus,
                    ("DELETE", []) => Route::CancelJob,
                    ("GET", ["result"]) => Route::JobResult,
                    ("POST", ["force"]) => Route::ForceJob,
                    ("PUT", [.., "label"]) => Route::Label,
                    _ => Route::Other,
                }
            }
            ("DELETE", ["rows"]) => Route::DeleteRows,
            ("PUT", [.., "label"]) => Route::Label,
            ("GET", ["slow"]) => Route::Slow,
            ("POST", ["orders"]) => Route::Order,
            ("GET", ["quick"]) => Route::Quick,
            _ => Route::Other,
        };
        Target { route, job, command, query: parse_query(query) }
    }

    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

fn parse_query(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (decode(&key.replace('+', " ")), decode(&value.replace('+', " "))))
        .collect()
}

fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}
