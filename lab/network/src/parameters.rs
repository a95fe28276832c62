//! The parameters of a request for a pod, and how one is refused.

use axum::{
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};

/// A refusal as clients of Kubernetes read it.
pub(crate) fn refuse(code: StatusCode, message: &str) -> Response {
    let reason = if code == StatusCode::SERVICE_UNAVAILABLE { "ServiceUnavailable" } else { "BadRequest" };
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16()});
    (code, [(CONTENT_TYPE, "application/json")], status.to_string()).into_response()
}

/// The parameters of a request, in their order; one may be there several times.
#[derive(Debug, Default, Clone)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(crate) fn of(query: &str) -> Self {
        let uri = format!("/?{query}").parse::<axum::http::Uri>().unwrap_or_default();
        let read = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri);
        Self(read.map(|axum::extract::Query(all)| all).unwrap_or_default())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.all(name).last().is_some_and(|value| matches!(value, "true" | "1"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, String> {
        self.all(name)
            .last()
            .map(|text| text.parse().map_err(|_| format!("{name}: {text:?} is no number")))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_may_be_there_several_times() {
        let query = Parameters::of("command=sh&command=-c&command=echo%20a&stdout=true&stdin=false");
        assert_eq!(query.all("command").collect::<Vec<_>>(), ["sh", "-c", "echo a"]);
        assert!(query.flag("stdout") && !query.flag("stdin") && !query.flag("tty"));
    }
}
