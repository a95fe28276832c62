//! Strategic merge patches: lists merged by key, `$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`.

use std::collections::{HashMap, HashSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::{Map, Value};

use super::directive::{DIRECTIVE, Identities, PatchError, is_replace, no_key};
use super::{go, go_kind, ports};
use crate::decode::{self, FieldValidation, bad_request, integral, typed};
use crate::schema::{Field, KindSchema, ListKind, Scalar, Type};

const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PREFIX: &str = "$deleteFromPrimitiveList/";
const ORDER_PREFIX: &str = "$setElementOrder/";

/// Reads a patch; with it come its duplicate keys.
///
/// # Errors
/// 400 for what is no JSON object.
pub(super) fn read(body: &[u8], validation: FieldValidation) -> Result<(Value, Vec<String>), Box<Status>> {
    let mut patch = decode::value(body).map_err(bad_request)?;
    integral(&mut patch);
    match patch {
        Value::Object(_) => {}
        Value::Null => return Ok((Value::Object(Map::new()), Vec::new())),
        other => {
            let kind = go_kind(&other);
            return Err(bad_request(format!(
                "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            )));
        }
    }
    let duplicates = if validation == FieldValidation::Ignore { Vec::new() } else { typed::duplicates(body) };
    Ok((patch, duplicates))
}

/// Applies a patch to a copy of `live`.
///
/// # Errors
/// 400 for directives that are not of their form and changes that may be meant for several ports, 422 for
/// lists of lists and, with the field, for the rest.
pub(super) fn apply(kind: &'static KindSchema, live: &Value, patch: Value) -> Result<Value, Box<Status>> {
    let mut patched = live.as_object().cloned().unwrap_or_default();
    let Value::Object(mut patch) = patch else { return Ok(live.clone()) };
    ports::complete(kind, &patched, &mut patch);
    let fields = Fields::Struct(kind.root());
    merge_map(&fields, &mut patched, patch).map_err(|error| error.status(kind, live))?;
    Ok(Value::Object(patched))
}

/// Where the types of a map's members come from.
#[derive(Clone, Copy)]
enum Fields<'a> {
    Struct(&'static crate::schema::StructType),
    Values(&'a Type),
    Unknown,
}

impl Fields<'static> {
    fn field(&self, name: &str) -> Option<&'static Field> {
        match self {
            Fields::Struct(strukt) => strukt.field(name).map(|(_, field)| field),
            _ => None,
        }
    }

    fn below(&self, name: &str) -> Fields<'static> {
        match self {
            Fields::Struct(_) => self.field(name).map_or(Fields::Unknown, |field| Fields::of(&field.ty)),
            Fields::Values(ty) => Fields::of(ty),
            Fields::Unknown => Fields::Unknown,
        }
    }

    fn of(ty: &'static Type) -> Fields<'static> {
        match ty {
            Type::Struct(_) => ty.as_struct().map_or(Fields::Unknown, Fields::Struct),
            Type::Map(map) => Fields::Values(&map.value),
            _ => Fields::Unknown,
        }
    }
}

/// How a list field is merged.
struct ListRule {
    /// `None`: the list is replaced. An empty key: a set of scalars.
    key: Option<&'static str>,
    /// Items are told apart by the key and their protocol.
    by_protocol: bool,
    items: Fields<'static>,
}

impl ListRule {
    fn of(field: Option<&'static Field>) -> Self {
        let Some(field) = field else {
            return ListRule { key: None, by_protocol: false, items: Fields::Unknown };
        };
        let Type::List(list) = &field.ty else {
            return ListRule { key: None, by_protocol: false, items: Fields::Unknown };
        };
        let by_protocol = matches!((&list.kind, field.merge.key), (ListKind::Map(keys), Some(key))
            if keys.len() == 2 && keys.contains(&key) && keys.contains(&"protocol"));
        ListRule { key: field.merge.key, by_protocol, items: Fields::of(&list.item) }
    }
}

fn merge_map(
    fields: &Fields<'static>,
    original: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<(), PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                *original = patch;
            }
            Some("delete") => original.clear(),
            _ => return Err(bad_directive(directive, &patch)),
        }
        return Ok(());
    }
    retain_keys(original, &mut patch)?;
    check_names(fields, &patch)?;
    ordered_lists(fields, original, &mut patch)?;
    for (key, value) in patch {
        let (key, deletes) = match key.strip_prefix(DELETE_PREFIX) {
            Some(key) => (key.to_owned(), true),
            None => (key, false),
        };
        if value.is_null() {
            original.remove(&key);
            continue;
        }
        match (original.get_mut(&key), value) {
            (Some(Value::Object(ours)), Value::Object(theirs)) => {
                merge_map(&fields.below(&key), ours, theirs).map_err(|error| error.below(&key))?;
            }
            (Some(Value::Array(ours)), Value::Array(theirs)) => {
                let rule = ListRule::of(fields.field(&key));
                if deletes {
                    let gone: HashSet<String> = theirs.iter().map(ToString::to_string).collect();
                    ours.retain(|item| !gone.contains(&item.to_string()));
                } else if rule.key.is_some() {
                    let merged = merge_list(&rule, std::mem::take(ours), theirs, None);
                    *ours = merged.map_err(|error| error.below(&key))?;
                } else {
                    *ours = theirs;
                }
            }
            (_, value) if !deletes => match without_directives(value) {
                Some(value) => {
                    original.insert(key, value);
                }
                None => {
                    original.remove(&key);
                }
            },
            _ => {}
        }
    }
    Ok(())
}

fn bad_directive(directive: &Value, map: &Map<String, Value>) -> PatchError {
    let map = go::text(&Value::Object(map.clone()));
    PatchError::other(format!("unknown patch type: {} in map: {map}", go::text(directive)))
}

/// Checks the names of directives for lists: each names a list of this map by its field.
fn check_names(fields: &Fields<'static>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    for (name, value) in patch {
        let (prefix, format) = if name.starts_with(ORDER_PREFIX.trim_end_matches('/')) {
            (ORDER_PREFIX, "invalid patch format of setElementOrder list")
        } else if name.starts_with(DELETE_PREFIX.trim_end_matches('/')) {
            (DELETE_PREFIX, "invalid patch format of primitive list")
        } else {
            continue;
        };
        let field = name.strip_prefix(prefix).ok_or(PatchError::Format(format))?;
        let Fields::Struct(strukt) = fields else { continue };
        let Some(known) = fields.field(field) else {
            let words =
                format!("unable to find api field in struct {} for the json field {field:?}", strukt.name);
            return Err(PatchError::other(words));
        };
        let fits = |item: &Value| match &known.ty {
            Type::List(list) if matches!(list.item, Type::Struct(_)) => item.is_object(),
            Type::List(list) if matches!(list.item, Type::Scalar(Scalar::String, _)) => item.is_string(),
            _ => true,
        };
        let given = value.as_array().map_or(&[][..], Vec::as_slice);
        if prefix == DELETE_PREFIX && !given.iter().all(fits) {
            let words = format!("list element types are not identical: {}", go::text(value));
            return Err(PatchError::other(words).below(field));
        }
    }
    Ok(())
}

/// Drops the fields of `original` that `$retainKeys` does not list.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    const BAD: PatchError = PatchError::Format("invalid patch format of retainKeys");
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else { return Err(BAD) };
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let listed = |name: &String| keys.contains(name.as_str());
    let strange = patch.iter().any(|(name, value)| {
        !value.is_null()
            && !name.starts_with(DELETE_PREFIX)
            && !name.starts_with(ORDER_PREFIX)
            && !listed(name)
    });
    if strange {
        return Err(BAD);
    }
    original.retain(|name, _| listed(name));
    Ok(())
}

/// Merges the lists that come with an order and takes them out of the patch.
fn ordered_lists(
    fields: &Fields<'static>,
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(ORDER_PREFIX)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else { continue };
        let key = directive.strip_prefix(ORDER_PREFIX).unwrap_or_default().to_owned();
        let Value::Array(order) = order else {
            return Err(PatchError::Format("invalid patch format of setElementOrder list"));
        };
        let rule = ListRule::of(fields.field(&key));
        let list_of = |value: Option<Value>| match value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(PatchError::Format("invalid patch format of setElementOrder list")),
        };
        let nulled = patch.get(&key).is_some_and(Value::is_null);
        let theirs = list_of(patch.remove(&key))?;
        let ours = if nulled { None } else { list_of(original.get(&key).cloned())? };
        let merged = match (ours, theirs) {
            (None, None) => {
                if nulled {
                    original.remove(&key);
                }
                continue;
            }
            (None, Some(theirs)) => theirs.into_iter().filter_map(without_directives).collect(),
            (Some(ours), theirs) if rule.key.is_some() => {
                merge_list(&rule, ours, theirs.unwrap_or_default(), Some(&order))
                    .map_err(|error| error.below(&key))?
            }
            (Some(ours), theirs) => theirs.unwrap_or(ours),
        };
        original.insert(key, Value::Array(merged));
    }
    Ok(())
}

/// A list item with what tells it from the others.
struct Item {
    id: String,
    value: Value,
}

fn merge_list(
    rule: &ListRule,
    ours: Vec<Value>,
    theirs: Vec<Value>,
    order: Option<&[Value]>,
) -> Result<Vec<Value>, PatchError> {
    let kinds = ours.iter().chain(&theirs);
    if kinds.clone().any(Value::is_array) {
        return Err(PatchError::ListOfLists);
    }
    let key = rule.key.unwrap_or_default();
    if key.is_empty() || !kinds.clone().any(Value::is_object) {
        return Ok(merge_scalars(ours, theirs, order));
    }
    if let Some(other) = kinds.clone().find(|item| !item.is_object()) {
        return Err(PatchError::other(format!(
            "expected a map in a list merged by {key}, but received a {}",
            go_kind(other)
        )));
    }
    let resolved = if rule.by_protocol {
        ports::resolve(key, &ours, &theirs, order)?
    } else {
        by_key(key, &ours, &theirs, order)?
    };
    merge_items(rule, ours, theirs, order, resolved)
}

fn by_key(
    key: &str,
    ours: &[Value],
    theirs: &[Value],
    order: Option<&[Value]>,
) -> Result<Identities, PatchError> {
    let id = |item: &Value| item.get(key).map(ToString::to_string).ok_or_else(|| no_key(item, key));
    Ok(Identities {
        // Live items without the key match nothing.
        ours: ours.iter().map(|item| item.get(key).map(ToString::to_string).unwrap_or_default()).collect(),
        theirs: theirs
            .iter()
            .map(|item| if is_replace(item) { Ok(Vec::new()) } else { id(item).map(|id| vec![id]) })
            .collect::<Result<_, _>>()?,
        order: order.unwrap_or_default().iter().map(id).collect::<Result<_, _>>()?,
    })
}

fn merge_items(
    rule: &ListRule,
    ours: Vec<Value>,
    theirs: Vec<Value>,
    order: Option<&[Value]>,
    ids: Identities,
) -> Result<Vec<Value>, PatchError> {
    let server_order = ids.ours.clone();
    let mut items: Vec<Option<Item>> =
        ids.ours.into_iter().zip(ours).map(|(id, value)| Some(Item { id, value })).collect();
    let mut position: HashMap<String, usize> = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        if let Some(item) = item {
            position.entry(item.id.clone()).or_insert(at);
        }
    }
    let mut plain: Vec<(String, Map<String, Value>)> = Vec::new();
    let mut gone: HashSet<String> = HashSet::new();
    let mut replaced = false;
    for (item, ids) in theirs.into_iter().zip(ids.theirs) {
        let Value::Object(map) = item else { continue };
        match map.get(DIRECTIVE).map(|d| (d.as_str(), d)) {
            None => plain.push((ids.into_iter().next().unwrap_or_default(), map)),
            Some((Some("replace"), _)) => replaced = true,
            Some((Some("delete"), _)) => gone.extend(ids),
            Some((Some("merge"), _)) => {
                return Err(PatchError::other("merging lists cannot yet be specified in the patch"));
            }
            Some((_, directive)) => return Err(bad_directive(directive, &map)),
        }
    }
    for item in items.iter_mut().filter(|item| item.as_ref().is_some_and(|item| gone.contains(&item.id))) {
        *item = None;
    }
    position.retain(|id, _| !gone.contains(id));
    if replaced {
        return Ok(plain.into_iter().filter_map(|(_, map)| without_directives(Value::Object(map))).collect());
    }
    if let Some(order) = order {
        check_order(&plain, order, rule.key.unwrap_or_default())?;
    }
    let patch_order: Vec<String> =
        if order.is_some() { ids.order } else { plain.iter().map(|(id, _)| id.clone()).collect() };
    for (id, map) in plain {
        let at = position.get(&id).copied();
        if let Some(Some(Item { value: Value::Object(ours), .. })) = at.and_then(|at| items.get_mut(at)) {
            merge_map(&rule.items, ours, map)?;
        } else {
            position.insert(id.clone(), items.len());
            items.push(without_directives(Value::Object(map)).map(|value| Item { id, value }));
        }
    }
    Ok(arrange(items.into_iter().flatten().collect(), &patch_order, &server_order))
}

/// The patch's items must come in the order that the patch says the list has; the key alone counts.
fn check_order(plain: &[(String, Map<String, Value>)], order: &[Value], key: &str) -> Result<(), PatchError> {
    let mut rest = order.iter();
    if plain.iter().all(|(_, map)| rest.any(|item| item.get(key) == map.get(key))) {
        return Ok(());
    }
    let list = Value::Array(plain.iter().map(|(_, map)| Value::Object(map.clone())).collect());
    Err(PatchError::other(format!(
        "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
        go::text(&list),
        go::text(&Value::Array(order.to_vec()))
    )))
}

/// Items that the patch names come in its order, the others in the server's; a server's item goes first only when it
/// stood before the patch's next item on the server.
fn arrange(items: Vec<Item>, patch_order: &[String], server_order: &[String]) -> Vec<Value> {
    let rank = |order: &[String]| {
        let mut ranks: HashMap<String, usize> = HashMap::with_capacity(order.len());
        for (at, id) in order.iter().enumerate() {
            ranks.entry(id.clone()).or_insert(at);
        }
        ranks
    };
    let (patch_rank, server_rank) = (rank(patch_order), rank(server_order));
    let (mut patched, mut kept): (Vec<Item>, Vec<Item>) =
        items.into_iter().partition(|item| patch_rank.contains_key(&item.id));
    patched.sort_by_key(|item| patch_rank.get(&item.id).copied());
    kept.sort_by_key(|item| server_rank.get(&item.id).copied().unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(patched.len() + kept.len());
    let (mut kept, mut patched) = (kept.into_iter().peekable(), patched.into_iter().peekable());
    while let (Some(left), Some(right)) = (kept.peek(), patched.peek()) {
        let ranks = (server_rank.get(&left.id), server_rank.get(&right.id));
        let left_first = matches!(ranks, (Some(l), Some(r)) if l < r);
        out.extend(if left_first { kept.next() } else { patched.next() });
    }
    out.extend(kept);
    out.extend(patched);
    out.into_iter().map(|item| item.value).collect()
}

fn merge_scalars(ours: Vec<Value>, theirs: Vec<Value>, order: Option<&[Value]>) -> Vec<Value> {
    let id = ToString::to_string;
    let server_order: Vec<String> = ours.iter().map(id).collect();
    let patch_order: Vec<String> = order.unwrap_or(&theirs).iter().map(id).collect();
    let mut seen = HashSet::new();
    let items = ours
        .into_iter()
        .chain(theirs)
        .map(|value| Item { id: value.to_string(), value })
        .filter(|item| seen.insert(item.id.clone()))
        .collect();
    arrange(items, &patch_order, &server_order)
}

/// A value that the original lacks, without the nulls and directives that then mean nothing; `None` if it is deleted.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) => {
            if map.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
                return None;
            }
            let kept = map
                .into_iter()
                .filter(|(name, value)| {
                    !value.is_null()
                        && name != DIRECTIVE
                        && name != RETAIN_KEYS
                        && !name.starts_with(DELETE_PREFIX)
                        && !name.starts_with(ORDER_PREFIX)
                })
                .filter_map(|(name, value)| without_directives(value).map(|value| (name, value)))
                .collect();
            Some(Value::Object(kept))
        }
        Value::Array(items) => Some(Value::Array(
            items.into_iter().filter(|item| !is_replace(item)).filter_map(without_directives).collect(),
        )),
        other => Some(other),
    }
}
