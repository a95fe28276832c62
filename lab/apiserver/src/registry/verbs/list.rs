//! Reading collections: at the latest revision or an older one, whole or in pages.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use service_api::status;

use crate::decode::{self, scan};
use crate::registry::error::ApiError;
use crate::registry::selectors::Selection;
use crate::registry::{Store, Target};
use crate::store::{ResourceId, Stored};

use super::Api;

const TOO_OLD_TOKEN: &str = "The provided continue parameter is too old to display a consistent list result. You can \
     start a new list without the continue parameter, or use the continue token in this response to retrieve the \
     remainder of the results. Continuing with the provided token results in an inconsistent list - objects that \
     were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
const TOO_OLD_EXACT: &str = "The resourceVersion for the provided list is too old.";

/// Which state of the collection is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListAt {
    /// The latest.
    Latest,
    /// The latest, which must not be older than this.
    NotOlderThan(u64),
    /// This one.
    Exactly(u64),
}

/// What part of a collection is asked for.
#[derive(Clone, Debug)]
pub struct PageRequest<'a> {
    /// Which state.
    pub at: ListAt,
    /// At most so many objects; 0 is all.
    pub limit: usize,
    /// The token of the page before, empty for the first page.
    pub continue_token: &'a str,
    /// What is selected.
    pub selection: &'a Selection,
}

/// A part of a collection.
#[derive(Debug, Default)]
pub struct Page {
    /// The revision it was read at.
    pub revision: u64,
    /// The objects, in order of namespace and name.
    pub objects: Vec<Arc<Stored>>,
    /// The token of the next page, if there is one.
    pub continue_token: Option<String>,
    /// How many objects follow, where that is known.
    pub remaining: Option<u64>,
}

/// The version of what a token holds.
const VERSION: &str = "meta.k8s.io/v1";

/// Where a list goes on: clients must treat it as opaque.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Token {
    v: String,
    rv: i64,
    start: String,
}

impl Token {
    fn new(revision: i64, after: &Stored) -> Self {
        let start = format!("{}/{}\0", after.namespace, after.name);
        Self { v: VERSION.to_owned(), rv: revision, start }
    }

    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn decode(text: &str) -> Result<Self, ApiError> {
        let invalid = |why: &str| {
            ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes =
            URL_SAFE_NO_PAD.decode(text).map_err(|error| invalid(&decode::base64_fault(&error, text)))?;
        scan::check(&bytes).map_err(|error| invalid(&error.to_string()))?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))?;
        if token.v != VERSION {
            return Err(invalid(&format!("server does not recognize this encoded version {}", token.v)));
        }
        if token.rv == 0 {
            return Err(invalid(&format!("incorrect encoded start resourceVersion (version {VERSION})")));
        }
        if token.start.is_empty() {
            return Err(invalid(&format!("encoded start key empty (version {VERSION})")));
        }
        if token.key().is_none() {
            return Err(invalid(&token.start));
        }
        Ok(token)
    }

    /// The key of the last object of the page before.
    fn key(&self) -> Option<(&str, &str)> {
        self.start.trim_end_matches('\0').split_once('/')
    }
}

/// Checks that a token is one that a list has answered with.
///
/// # Errors
/// 400 in upstream's words.
pub fn check_token(text: &str) -> Result<(), ApiError> {
    Token::decode(text).map(|_| ())
}

/// Reads a page of a collection.
///
/// # Errors
/// 410 when the state asked for is forgotten, 504 when it is not reached yet, 400 for a bad token.
pub fn list(api: &Api, target: &Target, request: &PageRequest<'_>) -> Result<Page, ApiError> {
    if request.continue_token.is_empty() {
        return read(api, target, request, request.at, None);
    }
    let token = Token::decode(request.continue_token)?;
    let at = u64::try_from(token.rv).map_or(ListAt::Latest, ListAt::Exactly);
    read(api, target, request, at, token.key()).map_err(|error| match (error.code(), token.key()) {
        (410, Some((namespace, name))) => expired_token(namespace, name),
        _ => error,
    })
}

/// 410 with a token that goes on at the latest state.
fn expired_token(namespace: &str, name: &str) -> ApiError {
    let token = Token { v: VERSION.to_owned(), rv: -1, start: format!("{namespace}/{name}\0") };
    let mut status = status::gone(TOO_OLD_TOKEN);
    status.metadata.continue_ = Some(token.encode());
    status.into()
}

fn read(
    api: &Api,
    target: &Target,
    request: &PageRequest<'_>,
    at: ListAt,
    after: Option<(&str, &str)>,
) -> Result<Page, ApiError> {
    let info = api.info(target);
    let (selection, limit) = (request.selection, request.limit);
    let only = selection.single_name().filter(|_| info.namespaced() != target.namespace.is_empty());
    let selected = |stored: &Arc<Stored>| selection.is_everything() || selection.matches(info, stored);
    let enough = if limit == 0 { usize::MAX } else { limit };
    let narrow = target.namespace_filter();
    // How many are left is told only where all of them are selected, and the one name that is selected has been found.
    let most_left = match (only, selection.is_everything()) {
        (Some(_), _) => 0,
        (None, true) => usize::MAX,
        (None, false) => 1,
    };
    let (revision, mut objects, mut rest) = api.store.read(|view| {
        let revision = view.revision();
        if let Some(name) = only.filter(|_| after.is_none() && at == ListAt::Latest) {
            let found = view.get(target.id, &target.namespace, name).cloned();
            return (revision, found.into_iter().collect::<Vec<_>>(), 0);
        }
        let mut all = view.list(target.id, narrow, after);
        if selection.is_everything() {
            let objects: Vec<_> = all.by_ref().take(enough).cloned().collect();
            return (revision, objects, all.count());
        }
        (revision, all.cloned().collect(), 0)
    });
    if !selection.is_everything() {
        // Not while the store is looked at: a selector may have thousands of terms.
        (objects, rest) = select(objects.into_iter(), selected, enough, most_left);
    }
    let wanted = match at {
        ListAt::Latest => revision,
        ListAt::NotOlderThan(wanted) | ListAt::Exactly(wanted) => wanted,
    };
    if wanted > revision {
        return Err(status::too_large_resource_version(wanted, revision).into());
    }
    if let ListAt::Exactly(wanted) = at
        && wanted < revision
    {
        // First what there is, then what has changed: the other way round a change between would not be taken back.
        let now = api.store.read(|view| view.list(target.id, narrow, None).cloned().collect::<Vec<_>>());
        let before = first_changes(&api.store, target.id, wanted)
            .map_err(|_| ApiError::from(status::gone(TOO_OLD_EXACT)))?;
        if before.is_empty() {
            // Other resources have changed since, this one has not.
            return Ok(page(wanted, objects, rest, selection));
        }
        let past = past(now, target, before);
        let follows = |stored: &Arc<Stored>| after.is_none_or(|after| is_after(stored, after));
        (objects, rest) = select(past.into_iter().filter(follows), selected, enough, most_left);
        return Ok(page(wanted, objects, rest, selection));
    }
    Ok(page(revision, objects, rest, selection))
}

/// The first `enough` objects that are selected, and how many of all follow them, up to `most_left`.
fn select(
    mut all: impl Iterator<Item = Arc<Stored>>,
    selected: impl Fn(&Arc<Stored>) -> bool,
    enough: usize,
    most_left: usize,
) -> (Vec<Arc<Stored>>, usize) {
    let objects = all.by_ref().filter(selected).take(enough).collect();
    (objects, all.take(most_left).count())
}

/// A page with a token for what is left in the collection behind a full page. Nobody has looked yet whether it is
/// selected, so the last page may be empty.
fn page(revision: u64, objects: Vec<Arc<Stored>>, rest: usize, selection: &Selection) -> Page {
    let mut out = Page { revision, ..Page::default() };
    if rest > 0 {
        let rv = i64::try_from(revision).unwrap_or(i64::MAX);
        out.continue_token = objects.last().map(|last| Token::new(rv, last).encode());
        out.remaining = selection.is_everything().then_some(rest as u64);
    }
    out.objects = objects;
    out
}

/// Does the object come after that key in a list?
fn is_after(stored: &Stored, (namespace, name): (&str, &str)) -> bool {
    let key = |namespace: &str, name: &str| [namespace.as_bytes(), b"/", name.as_bytes()].concat();
    key(&stored.namespace, &stored.name) > key(namespace, name)
}

/// The collection as it was: what there is, with the changes since taken back.
fn past(now: Vec<Arc<Stored>>, target: &Target, mut before: FirstStates) -> Vec<Arc<Stored>> {
    let in_scope = |stored: &Stored| target.namespace.is_empty() || *stored.namespace == *target.namespace;
    let mut objects: Vec<Arc<Stored>> = Vec::with_capacity(now.len());
    for stored in now {
        let key = (Arc::clone(&stored.namespace), Arc::clone(&stored.name));
        match before.remove(&key) {
            None => objects.push(stored),
            Some(previous) => objects.extend(previous),
        }
    }
    objects.extend(before.into_values().flatten().filter(|stored| in_scope(stored)));
    objects.sort_by_cached_key(|stored| [stored.namespace.as_bytes(), b"/", stored.name.as_bytes()].concat());
    objects
}

/// What objects were before their first change, by namespace and name.
type FirstStates = HashMap<(Arc<str>, Arc<str>), Option<Arc<Stored>>>;

/// For each object changed after `revision`, what it was at `revision`.
fn first_changes(
    store: &Store,
    resource: ResourceId,
    revision: u64,
) -> Result<FirstStates, crate::store::Gone> {
    let mut watch = store.watch(resource, revision)?;
    let mut out = HashMap::new();
    loop {
        let events = watch.poll()?;
        if events.is_empty() {
            return Ok(out);
        }
        for event in events {
            let key = (Arc::clone(&event.object.namespace), Arc::clone(&event.object.name));
            out.entry(key).or_insert_with(|| event.previous.clone());
        }
    }
}
