//! What a request weighs: about how many bytes are read and written for it. It decides where the request is worked on, see
//! [`super::heavy`], and never what is answered.

use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, USER_AGENT};
use http::request::Parts;

use crate::patch::PatchForm;
use crate::registry::verbs::Api;

use super::body::{self, PatchKind};
use super::negotiate::{Format, Offer, negotiate};
use super::params::Query;
use super::path;
use super::resources::header;

/// About how many bytes a request is about: its body, the object it shows or changes, the objects it goes through.
pub(crate) fn of(api: &Api, parts: &Parts, body: &Bytes) -> usize {
    let registry = &api.registry;
    let Some((target, _)) = path::resolve(registry, parts.uri.path()) else { return body.len() };
    let id = registry.stored(target.id);
    if !target.name.is_empty() {
        let stored = api
            .store
            .read(|view| view.get(id, &target.namespace, &target.name).map_or(0, |stored| stored.body.len()));
        // Copies make more of an object than the object and the patch are.
        let copies = matches!(body::patch_kind(&parts.headers), Ok(PatchKind::Change(PatchForm::Json)));
        let factor = if copies && parts.method == Method::PATCH { COPYING } else { 1 };
        return body.len() * factor + if parts.method == Method::GET { stored / 4 } else { stored };
    }
    let stats = api.store.read(|view| view.stats(id));
    let query = parts.uri.query().unwrap_or_default();
    // Each object is compared with each term of a selector, of about sixteen bytes.
    let compared = if query.len() > LONG_QUERY { stats.objects * query.len() / 16 } else { 0 };
    let at_once = parts.method == Method::DELETE || reads_objects(query) || is_sent_whole(parts, query);
    let passed = match parts.method {
        Method::GET if goes_back(query) => stats.objects * SORTED,
        Method::GET => stats.objects * PASSED,
        _ => 0,
    };
    body.len() + compared + passed + if at_once { stats.object_bytes } else { 0 }
}

/// A query beyond this many bytes may have a selector that takes its time.
const LONG_QUERY: usize = 512;
/// What it costs to pass over an object of a collection, as bytes that are read.
const PASSED: usize = 8;
/// The same where an older state is put together.
const SORTED: usize = 64;
/// What an operation of a JSON patch of so many bytes may add to the object, as a factor.
const COPYING: usize = 32;

/// Must the objects themselves be read to be selected? So it is for fields other than name and namespace.
fn reads_objects(query: &str) -> bool {
    query.contains("fieldSelector=") && !query.contains("fieldSelector=metadata.name")
}

/// May an older state of the collection be asked for?
fn goes_back(query: &str) -> bool {
    query.contains("continue=") || query.contains("resourceVersion=")
}

/// Lists are sent in pieces, but for those that are written as YAML or to be read by people.
fn is_sent_whole(parts: &Parts, query: &str) -> bool {
    let query = Query::parse(query);
    let rendering = negotiate(
        header(&parts.headers, ACCEPT),
        query.flag("pretty"),
        header(&parts.headers, USER_AGENT).unwrap_or_default(),
        Offer::Objects,
    );
    rendering.is_ok_and(|rendering| rendering.pretty || rendering.format != Format::Json)
}

#[cfg(test)]
mod tests {
    use http::Request;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::http::heavy::LIGHT;
    use crate::registry::testing::lab;

    fn weigh(method: &str, path: &str, body: usize) -> usize {
        let lab = lab(&["10.96.0.0/16"]);
        let api = Api { registry: lab.registry, store: lab.store };
        let id = api.registry.id("", "configmaps").unwrap();
        for at in 0..600 {
            let metadata = json!({"namespace": "default", "name": format!("c{at}")});
            let object = json!({"metadata": metadata, "data": {"a": "x".repeat(100)}});
            api.store.write(|tx| tx.put(id, object)).unwrap();
        }
        let parts = Request::builder().method(method).uri(path).body(()).unwrap().into_parts().0;
        of(&api, &parts, &Bytes::from(vec![b' '; body]))
    }

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

    #[rstest]
    #[case::a_body("POST", MAPS, 100_000, true)]
    #[case::a_small_body("POST", MAPS, 1000, false)]
    #[case::a_question("POST", REVIEWS, 100_000, true)]
    #[case::options_of_a_delete("DELETE", "/api/v1/namespaces/default/configmaps/c1", 100_000, true)]
    #[case::an_eviction("POST", "/api/v1/namespaces/default/pods/p/eviction", 100_000, true)]
    #[case::what_is_not_served("POST", "/apis/example.com/v1/things", 100_000, true)]
    #[case::a_list("GET", MAPS, 0, false)]
    #[case::by_name("GET", "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name=c1", 0, false)]
    #[case::by_another_field("GET", "/api/v1/namespaces/default/configmaps?fieldSelector=a=b", 0, true)]
    #[case::of_old("GET", "/api/v1/namespaces/default/configmaps?resourceVersion=2&limit=5", 0, true)]
    #[case::all_are_deleted("DELETE", MAPS, 0, true)]
    fn what_is_heavy(#[case] method: &str, #[case] path: &str, #[case] body: usize, #[case] heavy: bool) {
        let weight = weigh(method, path, body);
        assert_eq!(weight > LIGHT, heavy, "{weight}");
    }
}
