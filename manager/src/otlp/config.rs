//! The file of `--tracing-config-file`: a `TracingConfiguration` as the components of Kubernetes read it.
//!
//! Pure: text in, a checked configuration out. (apiserver.config.k8s.io/v1 `TracingConfiguration`.)

use serde::Deserialize;

/// Where spans go if the file does not say: OTLP's port for gRPC.
const ENDPOINT: &str = "localhost:4317";
/// All traces are kept.
const MILLION: i32 = 1_000_000;

/// Where spans go and how many traces are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracingConfig {
    /// The collector, as a URL.
    pub endpoint: String,
    /// Of a million traces so many are kept, 0 to 1,000,000.
    pub sampling_rate_per_million: u32,
}

/// A file that is no configuration of traces.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TracingConfigError {
    /// It is no YAML, or has fields that nobody knows.
    #[error("{0}")]
    Yaml(String),
    /// It is another kind of object.
    #[error("{api_version} {kind} is not apiserver.config.k8s.io/v1 TracingConfiguration (or v1beta1)")]
    Kind {
        /// What it says to be.
        api_version: String,
        /// Likewise.
        kind: String,
    },
    /// An endpoint that cannot be used.
    #[error(
        "endpoint: {0:?} is no HOST:PORT; spans go over gRPC without TLS, as from the components of Kubernetes"
    )]
    Endpoint(String),
    /// A rate out of range.
    #[error("samplingRatePerMillion: {0} is not 0 to 1000000")]
    Rate(i32),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    endpoint: Option<String>,
    sampling_rate_per_million: Option<i32>,
}

impl TracingConfig {
    /// Reads a file's text, YAML or JSON.
    ///
    /// # Errors
    /// If it is no `TracingConfiguration` or says what cannot be done.
    pub fn parse(text: &str) -> Result<Self, TracingConfigError> {
        let file: File = serde_saphyr::from_str(text).map_err(|error| {
            TracingConfigError::Yaml(error.to_string().lines().next().unwrap_or_default().into())
        })?;
        let known = ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1"];
        if !known.contains(&file.api_version.as_str()) || file.kind != "TracingConfiguration" {
            return Err(TracingConfigError::Kind { api_version: file.api_version, kind: file.kind });
        }
        let rate = file.sampling_rate_per_million.unwrap_or(0);
        let sampling_rate_per_million =
            u32::try_from(rate).ok().filter(|_| rate <= MILLION).ok_or(TracingConfigError::Rate(rate))?;
        let endpoint = url(file.endpoint.as_deref().unwrap_or(ENDPOINT))?;
        Ok(Self { endpoint, sampling_rate_per_million })
    }

    /// Whether the trace with this number is kept. The numbers are spread evenly; a trace is kept at every higher rate too.
    #[must_use]
    pub fn keeps(&self, id: u64) -> bool {
        let limit = (u128::from(self.sampling_rate_per_million) << 64) / 1_000_000;
        u128::from(id) < limit
    }
}

/// The URL of `HOST:PORT`, in front of which upstream takes `dns:` too.
fn url(endpoint: &str) -> Result<String, TracingConfigError> {
    let bad = || TracingConfigError::Endpoint(endpoint.to_owned());
    let rest =
        ["dns:///", "dns://", "dns:", "http://"].iter().find_map(|scheme| endpoint.strip_prefix(scheme));
    let uri: http::Uri = format!("http://{}", rest.unwrap_or(endpoint)).parse().map_err(|_| bad())?;
    let whole = uri.port_u16().is_some_and(|port| port > 0) && ["", "/"].contains(&uri.path());
    if whole && uri.host().is_some_and(|host| !host.is_empty()) { Ok(uri.to_string()) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parse(rest: &str) -> Result<TracingConfig, TracingConfigError> {
        TracingConfig::parse(&format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n{rest}"
        ))
    }

    #[test]
    fn what_the_file_does_not_say_is_upstreams_default() {
        let config = parse("").unwrap();
        assert_eq!(config.endpoint, "http://localhost:4317/");
        assert!(!config.keeps(0), "no trace is kept unless a rate is given");
    }

    #[rstest]
    #[case("endpoint: 10.0.0.1:4317", Ok("http://10.0.0.1:4317/"))]
    #[case("endpoint: '[fd00::1]:4317'", Ok("http://[fd00::1]:4317/"))]
    #[case("endpoint: dns:///collector.monitoring:4317", Ok("http://collector.monitoring:4317/"))]
    #[case("endpoint: https://collector:4317", Err("endpoint: \"https://collector:4317\" is no HOST:PORT"))]
    #[case("endpoint: unix:///run/otel", Err("endpoint: \"unix:///run/otel\" is no HOST:PORT"))]
    #[case("endpoint: collector", Err("endpoint: \"collector\" is no HOST:PORT"))]
    #[case("samplingRatePerMillion: -1", Err("samplingRatePerMillion: -1 is not"))]
    #[case("samplingRatePerMillion: 1000001", Err("samplingRatePerMillion: 1000001 is not"))]
    #[case("samplingRate: 5", Err("samplingRate"))]
    fn the_file_is_checked(#[case] rest: &str, #[case] expected: Result<&str, &str>) {
        match (parse(rest), expected) {
            (Ok(config), Ok(endpoint)) => assert_eq!(config.endpoint, endpoint),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn another_kind_is_refused() {
        let error = TracingConfig::parse("apiVersion: v1\nkind: Service\n").unwrap_err();
        assert!(error.to_string().starts_with("v1 Service is not"), "{error}");
    }

    #[test]
    fn a_rate_keeps_its_share() {
        let config = parse("samplingRatePerMillion: 250000").unwrap();
        let kept = (0..1000_u64).filter(|n| config.keeps(n * (u64::MAX / 1000) + u64::MAX / 2000)).count();
        assert_eq!(kept, 250);
        assert!(parse("samplingRatePerMillion: 1000000").unwrap().keeps(u64::MAX));
    }
}
