//! Requests for resources: from method, path, query and body to a verb, and back to a response.
//!
//! Owns the order in which a request's parts are checked. What a verb does is the registry's business.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::header::{ACCEPT, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use jiff::Timestamp;
use serde_json::Value;
use service_api::status;
use tokio_util::sync::CancellationToken;

use crate::decode::{self, Decoded};
use crate::managed_fields::{UpdateContext, track_update};
use crate::patch::apply::{ApplyContext, apply};
use crate::patch::patch;
use crate::registry::Target;
use crate::registry::error::ApiError;
use crate::registry::object::{meta, queried_version};
use crate::registry::options::{DeleteOptions, WriteOptions};
use crate::registry::resource_info::{Representation, ResourceInfo, Review, Verb};
use crate::registry::selectors::Selection;
use crate::registry::strategy::Subresource;
use crate::registry::verbs::{
    self, Answer, Api, Computed, Done, ListAt, Page, PageRequest, Rules, WriteOutcome,
};

use crate::schema::{self, KindSchema};

use super::auth::Token;
use super::body::{self, PatchKind};
use super::caller::Caller;
use super::delete_options::RawDelete;
use super::negotiate::{Offer, Rendering, Shape, negotiate};
use super::params::{ListOptions, Query, WriteVerb, write_options};
use super::respond::{self, View};
use super::reviews::{self, Asked};
use super::table::Include;
use super::{path, unserved, warning, watch};

/// What all requests of a server share.
#[derive(Clone)]
pub struct ServerState {
    /// Kinds and objects.
    pub api: Arc<Api>,
    /// Cancelled when the server ends, so that watches end too.
    pub closing: CancellationToken,
    /// What opens the API.
    pub token: Token,
}

/// A header as text, if it is there and is text.
pub(crate) fn header(headers: &HeaderMap, name: http::header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// What a request turned out to be, for metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestInfo {
    /// The verb in upstream's terms (`LIST`, `WATCH`, `APPLY`, ...).
    pub verb: &'static str,
    /// Place of the resource in the table.
    pub resource: Option<crate::store::ResourceId>,
    /// The subresource, empty for none.
    pub subresource: &'static str,
}

/// Answers a request below `/api/v1` or `/apis/{group}/{version}`.
///
/// # Errors
/// The Status to answer with, and never anything else.
pub fn serve(
    shared: &ServerState,
    parts: &Parts,
    body: Result<Bytes, ApiError>,
    kind: &mut RequestInfo,
) -> Result<Response<Body>, ApiError> {
    let registry = &shared.api.registry;
    let Some((mut target, watched)) = path::resolve(registry, parts.uri.path()) else {
        let place = path::place(parts.uri.path()).unwrap_or_default();
        return Err(unserved::refusal(&parts.method, &place));
    };
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let info = registry.info(target.id);
    let form = target.sub.map_or(info.view_of.map(|(_, _, form)| form), |sub| sub.form);
    let schema = form
        .and_then(|form| schema::find(form.kind.0, form.kind.1, form.kind.2))
        .unwrap_or_else(|| registry.schema(target.id));
    kind.resource = Some(target.id);
    target.id = registry.stored(target.id);
    kind.subresource = target.sub_name().unwrap_or_default();
    let wants_watch = target.name.is_empty() && query.flag("watch").unwrap_or(false);
    let verb = verb_of(&parts.method, &target, info, watched || wants_watch)?;
    kind.verb = verb.name();
    let rendering = negotiate(
        header(&parts.headers, ACCEPT),
        query.flag("pretty"),
        header(&parts.headers, USER_AGENT).unwrap_or_default(),
        Offer::Objects,
    )?;
    let now = Timestamp::now();
    let request = Request { shared, parts, query, target, info, form, schema, rendering, now };
    match verb {
        Verb::Get => request.get(),
        Verb::List => request.list(),
        Verb::Watch => request.watch(),
        Verb::Create => request.create(&body?),
        Verb::Update => request.update(&body?),
        Verb::Patch => request.patch(body, kind),
        Verb::Delete => request.delete(&body?),
        Verb::DeleteCollection => request.delete_collection(&body?),
    }
}

/// Which verb a method is here.
fn verb_of(method: &Method, target: &Target, info: &ResourceInfo, watch: bool) -> Result<Verb, ApiError> {
    let collection = target.name.is_empty();
    let verb = match *method {
        Method::GET if watch && target.sub.is_none() => Some(Verb::Watch),
        Method::GET if collection => Some(Verb::List),
        Method::GET => Some(Verb::Get),
        Method::POST if collection || target.sub.is_some() => Some(Verb::Create),
        Method::PUT if !collection => Some(Verb::Update),
        Method::PATCH if !collection => Some(Verb::Patch),
        Method::DELETE if collection => Some(Verb::DeleteCollection),
        Method::DELETE if target.sub.is_none() => Some(Verb::Delete),
        _ => None,
    };
    let everywhere = collection && info.namespaced() && target.namespace.is_empty();
    let allowed = verb.filter(|verb| match target.sub {
        Some(sub) => sub.verbs.contains(verb),
        None => {
            info.verbs.contains(verb)
                && !(everywhere && matches!(verb, Verb::Create | Verb::DeleteCollection))
        }
    });
    allowed.ok_or_else(|| status::method_not_allowed().into())
}

struct Request<'a> {
    shared: &'a ServerState,
    parts: &'a Parts,
    query: Query<'a>,
    target: Target,
    info: &'a ResourceInfo,
    /// How objects are shown and written here, if not as they are stored.
    form: Option<&'static Representation>,
    /// What a body must be.
    schema: &'static KindSchema,
    rendering: Rendering,
    now: Timestamp,
}

impl Request<'_> {
    fn api(&self) -> &Api {
        &self.shared.api
    }

    fn user_agent(&self) -> &str {
        header(&self.parts.headers, USER_AGENT).unwrap_or_default()
    }

    fn view(&self) -> Result<View, ApiError> {
        let include = match self.rendering.shape {
            Shape::Table => Include::parse(self.query.text("includeObject"))?,
            _ => Include::default(),
        };
        Ok(View { rendering: self.rendering, include, now: self.now, show: self.form.map(|form| form.show) })
    }

    fn show(&self, answer: &Answer, code: StatusCode) -> Result<Response<Body>, ApiError> {
        if self.rendering.shape == Shape::MetadataList && !matches!(answer, Answer::Status(_)) {
            let what = "PartialObjectMetadataList, but the requested object is not a list";
            return Err(status::other_shape(what, self.info.group, self.info.kind).into());
        }
        Ok(respond::answer(self.info, answer, code, self.view()?))
    }

    fn show_list(&self, page: Page) -> Result<Response<Body>, ApiError> {
        if self.rendering.shape == Shape::Metadata {
            let what = "PartialObjectMetadata, but the requested object is a list";
            let kind = format!("{}List", self.info.kind);
            return Err(status::other_shape(what, self.info.group, &kind).into());
        }
        Ok(respond::list(self.info, self.api().registry.prefix(self.target.id), page, self.view()?))
    }

    fn respond(&self, outcome: &WriteOutcome) -> Result<Response<Body>, ApiError> {
        let code = match outcome.done {
            Done::Now => StatusCode::OK,
            Done::Created => StatusCode::CREATED,
            Done::Accepted => StatusCode::ACCEPTED,
        };
        let mut response = self.show(&outcome.answer, code)?;
        warning::append(response.headers_mut(), &outcome.warnings);
        Ok(response)
    }

    fn get(&self) -> Result<Response<Body>, ApiError> {
        let version = self.query.text("resourceVersion");
        if !version.is_empty() {
            let wanted = queried_version(version).map_err(status::plain_500)?;
            let current = self.api().store.revision();
            if wanted > current {
                return Err(status::too_large_resource_version(wanted, current).into());
            }
        }
        let answer = self.api().get(&self.target)?;
        self.show(&answer, StatusCode::OK)
    }

    fn selection(&self, options: &ListOptions) -> Result<Selection, ApiError> {
        let mut fields = options.field_selector.clone();
        if !self.target.name.is_empty() {
            let comma = if fields.is_empty() { "" } else { "," };
            fields = format!("metadata.name={}{comma}{fields}", self.target.name);
        }
        Selection::parse(self.info, &options.label_selector, &fields)
    }

    fn list(&self) -> Result<Response<Body>, ApiError> {
        let options = ListOptions::parse(&self.query, false)?;
        let selection = self.selection(&options)?;
        let request = PageRequest {
            at: list_at(&options)?,
            limit: options.limit,
            continue_token: &options.continue_token,
            selection: &selection,
        };
        let page = verbs::list(self.api(), &self.target, &request)?;
        self.show_list(page)
    }

    fn watch(&self) -> Result<Response<Body>, ApiError> {
        let options = ListOptions::parse(&self.query, true)?;
        let selection = self.selection(&options)?;
        let api = Arc::clone(&self.shared.api);
        watch::watch(api, &self.target, &options, selection, self.view()?, self.shared.closing.clone())
    }

    /// The object in a body, decoded and defaulted.
    fn decode(&self, bytes: &Bytes, options: &WriteOptions) -> Result<Decoded, ApiError> {
        let media = body::media(&self.parts.headers)?;
        let mut decoded = decode::decode(self.schema, bytes, media, options.field_validation)?;
        if self.form.is_none() {
            self.info.strategy.default(&mut decoded.value);
        }
        Ok(decoded)
    }

    /// The stored form of what the client wants.
    fn take(&self, live: Option<&Value>, value: Value) -> Result<Value, ApiError> {
        let Some(form) = self.form else { return Ok(value) };
        if !self.target.name.is_empty() && meta(&value, "name") != self.target.name {
            return Err(verbs::other_name(meta(&value, "name"), &self.target.name));
        }
        let mut object = (form.take)(live, value);
        self.info.strategy.default(&mut object);
        // The namespace of the request counts where the body names none.
        if meta(&object, "namespace").is_empty() {
            verbs::match_namespace(&mut object, &self.target.namespace)?;
        }
        let faults = self.info.strategy.view_faults(&object, live);
        if faults.is_empty() {
            Ok(object)
        } else {
            Err(ApiError::invalid(self.api().info(&self.target), meta(&object, "name"), faults))
        }
    }

    fn create(&self, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
        let options = write_options(&self.query, WriteVerb::Create, self.user_agent())?;
        if self.target.part() == Subresource::Binding {
            let media = body::media(&self.parts.headers)?;
            let binding = body::value(bytes, media, "v1", "Binding")
                .map_err(|error| ApiError::bad_request(format!("the binding cannot be read: {error}")))?;
            return self.respond(&verbs::bind(self.api(), &self.target, &binding, &options, self.now)?);
        }
        if self.target.part() == Subresource::Eviction {
            return self.evict(bytes, &options);
        }
        let Decoded { value, warnings } = self.decode(bytes, &options)?;
        if let Some(review) = self.info.review {
            return self.respond(&verbs::warned(self.answer(review, value, &options), warnings)?);
        }
        let made = self
            .take(None, value)
            .and_then(|object| verbs::create(self.api(), &self.target, object, &options, self.now));
        self.respond(&verbs::warned(made, warnings)?)
    }

    fn evict(&self, bytes: &Bytes, options: &WriteOptions) -> Result<Response<Body>, ApiError> {
        let schema = schema::find("policy", "v1", "Eviction").ok_or_else(status::no_such_resource)?;
        let media = body::media(&self.parts.headers)?;
        let decoded = decode::decode(schema, bytes, media, options.field_validation)?;
        let (mut eviction, warnings) = (decoded.value, decoded.warnings);
        if meta(&eviction, "name") != self.target.name {
            let why = "name in URL does not match name in Eviction object";
            return Err(ApiError::bad_request(why));
        }
        verbs::match_namespace(&mut eviction, &self.target.namespace)?;
        let raw = RawDelete::from_value(eviction["deleteOptions"].take())?;
        let mut delete = raw.check()?;
        delete.dry_run |= options.dry_run;
        self.respond(&verbs::warned(verbs::evict(self.api(), &self.target, &delete, self.now), warnings)?)
    }

    /// The answer to a question, which nothing stays of.
    fn answer(
        &self,
        review: Review,
        mut question: Value,
        options: &WriteOptions,
    ) -> Result<WriteOutcome, ApiError> {
        verbs::match_namespace(&mut question, &self.target.namespace)?;
        let context = UpdateContext { manager: &options.manager, subresource: None, now: self.now };
        track_update(self.schema, None, &mut question, &context);
        let holder = Arc::new(Caller::admin());
        let caller = self.parts.extensions.get::<Arc<Caller>>().unwrap_or(&holder);
        let asked = Asked { caller, token: &self.shared.token, now: self.now };
        let answer = reviews::answer(review, question, &asked)?;
        Ok(WriteOutcome { answer: Answer::Value(answer), done: Done::Created, warnings: Vec::new() })
    }

    fn update(&self, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
        let options = write_options(&self.query, WriteVerb::Update, self.user_agent())?;
        let Decoded { value, warnings } = self.decode(bytes, &options)?;
        self.respond(&verbs::warned(self.put(value, &options), warnings)?)
    }

    fn put(&self, mut value: Value, options: &WriteOptions) -> Result<WriteOutcome, ApiError> {
        if self.form.is_none() {
            // A body for another object is refused whether or not there is one to replace.
            verbs::match_target(&mut value, &self.target)?;
        }
        let uid = meta(&value, "uid").to_owned();
        let rules = Rules {
            // Through `…/status` too, as upstream has it.
            create: matches!(self.target.part(), Subresource::None | Subresource::Status)
                && self.info.strategy.create_on_update(),
            uid: (!uid.is_empty()).then_some(uid.as_str()),
            patch: false,
        };
        verbs::change_apart(self.api(), &self.target, options, self.now, rules, |live| {
            Ok(Computed { object: self.take(live, value.clone())?, warnings: Vec::new(), tracked: false })
        })
    }

    fn patch(
        &self,
        body: Result<Bytes, ApiError>,
        kind: &mut RequestInfo,
    ) -> Result<Response<Body>, ApiError> {
        let form = body::patch_kind(&self.parts.headers)?;
        let bytes = body?;
        let is_apply = form == PatchKind::Apply;
        if is_apply {
            kind.verb = "APPLY";
        }
        let options = write_options(&self.query, WriteVerb::Patch { apply: is_apply }, self.user_agent())?;
        let makes = match self.target.part() {
            Subresource::None => true,
            Subresource::Status => self.info.strategy.create_on_update(),
            _ => false,
        };
        let rules = Rules { create: is_apply && makes, uid: None, patch: true };
        let schema = self.schema;
        let outcome = verbs::change_apart(self.api(), &self.target, &options, self.now, rules, |stored| {
            let shown = self.form.and_then(|form| stored.map(form.show));
            let live = shown.as_ref().or(stored);
            let (mut object, warnings) = match (form, live) {
                (PatchKind::Change(form), Some(live)) => {
                    let patched = patch(schema, live, form, &bytes, options.field_validation)?;
                    (patched.value, patched.warnings)
                }
                (PatchKind::Change(_), None) => {
                    return Err(ApiError::not_found(self.info, &self.target.name));
                }
                (PatchKind::Apply, live) => {
                    let context = ApplyContext {
                        manager: &options.manager,
                        subresource: self.target.sub_name(),
                        force: options.force,
                        now: self.now,
                        validation: options.field_validation,
                    };
                    let applied = apply(schema, live, &bytes, &context)?;
                    (applied.value, applied.warnings)
                }
            };
            if self.form.is_none() {
                self.info.strategy.default(&mut object);
            }
            let object = self.take(stored, object)?;
            Ok(Computed { object, warnings, tracked: is_apply && self.form.is_none() })
        })?;
        self.respond(&outcome)
    }

    fn delete(&self, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
        let options = self.delete_options(bytes)?;
        let outcome = verbs::delete(self.api(), &self.target, &options, self.now)?;
        self.respond(&outcome)
    }

    fn delete_collection(&self, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
        let list_options = ListOptions::parse(&self.query, false)?;
        let options = self.delete_options(bytes)?;
        let selection = self.selection(&list_options)?;
        let request = PageRequest {
            at: list_at(&list_options)?,
            limit: list_options.limit,
            continue_token: &list_options.continue_token,
            selection: &selection,
        };
        let page = verbs::list(self.api(), &self.target, &request)?;
        verbs::delete_collection(self.api(), &self.target, &page.objects, &options, self.now)?;
        self.show_list(page)
    }

    /// Options of a delete: those of the body if there is one, else those of the query.
    fn delete_options(&self, bytes: &Bytes) -> Result<DeleteOptions, ApiError> {
        let raw = if bytes.is_empty() {
            RawDelete::from_query(&self.query)?
        } else {
            RawDelete::from_body(bytes, body::media(&self.parts.headers)?)?
        };
        raw.check()
    }
}

/// The state that a list is asked for.
fn list_at(options: &ListOptions) -> Result<ListAt, ApiError> {
    let text = options.resource_version.as_str();
    if !options.continue_token.is_empty() {
        verbs::check_token(&options.continue_token)?;
        if !matches!(text, "" | "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        return Ok(ListAt::Latest);
    }
    let version: u64 = match text {
        "" => return Ok(ListAt::Latest),
        text => queried_version(text)
            .map_err(|why| ApiError::bad_request(format!("invalid resource version: {why}")))?,
    };
    Ok(match (options.resource_version_match.as_str(), version) {
        (_, 0) => ListAt::Latest,
        ("Exact", version) => ListAt::Exactly(version),
        // Without a match upstream reads a limited list at exactly this version.
        ("", version) if options.limit > 0 => ListAt::Exactly(version),
        (_, version) => ListAt::NotOlderThan(version),
    })
}
