//! What stands in a request beside its body: selectors, tokens of pages, whole queries, the `Accept` header.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::prelude::*;
use rand::rngs::StdRng;

use crate::bodies::{damaged, pick, repeated};

/// A server reads no longer request line.
const LONGEST: usize = 60_000;

fn cut(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(LONGEST);
    bytes
}

pub(crate) fn label_selector(rng: &mut StdRng) -> Vec<u8> {
    let term = pick(rng, &["a@=b", "!a@", "a in (b,c)", "a notin ()", "a@", "a>1", "=", "(", "!!", "a in ("]);
    let text = if rng.random_bool(0.2) {
        let value = pick(rng, &["v@", "v", "", "!"]);
        format!("a in ({})", repeated(rng, value))
    } else {
        repeated(rng, term)
    };
    damaged(rng, text)
}

pub(crate) fn field_selector(rng: &mut StdRng) -> Vec<u8> {
    const TERMS: [&str; 12] = [
        "metadata.name=a@",
        "metadata.name!=a",
        "spec.nodeName==n@",
        "status.podIP=",
        "=",
        "",
        "a",
        "a\\,b=c\\\\",
        "a\\=b=c",
        "!=",
        "spec.unknown=@",
        "\\",
    ];
    let term = pick(rng, &TERMS);
    let text = if rng.random_bool(0.5) {
        repeated(rng, term)
    } else {
        let terms: Vec<&str> = (0..rng.random_range(0..6)).map(|_| pick(rng, &TERMS)).collect();
        terms.join(",")
    };
    damaged(rng, text)
}

/// A token as lists answer with, or nearly so.
fn token(rng: &mut StdRng) -> Vec<u8> {
    let version = pick(rng, &["meta.k8s.io/v1", "meta.k8s.io/v2", ""]);
    let revision =
        pick(rng, &["-1", "0", "1", "5", "99999999", "-9223372036854775808", "1e999", "\"x\"", "null"]);
    let long = "n".repeat(rng.random_range(0..30_000));
    let start = pick(rng, &["default/a\\u0000", "default/a", "/", "a", "", "../../x/y", "a/b/c/d", &long]);
    let text = match rng.random_range(0..4) {
        0 => "[".repeat(rng.random_range(0..20_000)),
        _ => format!(r#"{{"v":"{version}","rv":{revision},"start":"{start}"}}"#),
    };
    damaged(rng, text)
}

pub(crate) fn continue_token(rng: &mut StdRng) -> Vec<u8> {
    let inner = token(rng);
    let text = if rng.random_bool(0.9) {
        URL_SAFE_NO_PAD.encode(inner)
    } else {
        String::from_utf8_lossy(&inner).into_owned()
    };
    let encoded = damaged(rng, text);
    cut([b"limit=1&continue=".to_vec(), escaped(&encoded)].concat())
}

pub(crate) fn query(rng: &mut StdRng) -> Vec<u8> {
    const NAMES: [&str; 16] = [
        "labelSelector",
        "fieldSelector",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "timeoutSeconds",
        "watch",
        "allowWatchBookmarks",
        "sendInitialEvents",
        "pretty",
        "includeObject",
        "dryRun",
        "fieldManager",
        "gracePeriodSeconds",
        "",
    ];
    const VALUES: [&str; 14] = [
        "",
        "0",
        "1",
        "-1",
        "true",
        "false",
        "Exact",
        "NotOlderThan",
        "99999999999999999999",
        "9223372036854775807",
        "18446744073709551615",
        "%zz",
        "\u{1F600}",
        "Metadata",
    ];
    let mut out = Vec::new();
    for _ in 0..rng.random_range(0..6) {
        let value = match rng.random_range(0..5) {
            0 => label_selector(rng),
            1 => field_selector(rng),
            2 => token(rng),
            _ => pick(rng, &VALUES).as_bytes().to_vec(),
        };
        out.extend(pick(rng, &NAMES).as_bytes());
        out.push(b'=');
        out.extend(if rng.random_bool(0.8) { escaped(&value) } else { plain(&value) });
        out.push(b'&');
    }
    if rng.random_bool(0.1) {
        out.extend(repeated(rng, "dryRun=@").replace(',', "&").into_bytes());
    }
    cut(out)
}

/// Percent-encoded, but for letters and digits.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    let one = |byte: &u8| {
        if byte.is_ascii_alphanumeric() { vec![*byte] } else { format!("%{byte:02X}").into_bytes() }
    };
    bytes.iter().flat_map(one).collect()
}

/// As it stands, but for what no request line may have.
fn plain(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|byte| byte.is_ascii_graphic() && *byte != b'#' && *byte != b'&').collect()
}

pub(crate) fn accept(rng: &mut StdRng) -> Vec<u8> {
    const CLAUSES: [&str; 14] = [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "*/*;q=0.1",
        "text/html;q=NaN",
        "application/json;q=inf;stream=watch",
        ";;;===",
        "",
        "application/json;q=-0",
        "application/json;pretty=1;as=\"Table\"",
    ];
    let text = if rng.random_bool(0.3) {
        let clause = pick(rng, &CLAUSES);
        repeated(rng, clause)
    } else {
        let clauses: Vec<&str> = (0..rng.random_range(0..6)).map(|_| pick(rng, &CLAUSES)).collect();
        clauses.join(pick(rng, &[",", ", ", ";", ",,"]))
    };
    let mut bytes = damaged(rng, text);
    bytes.retain(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f));
    cut(bytes)
}
