//! Builds the schema tree from the schemas of `k8s-openapi` and the table of facts.

use std::collections::HashMap;

use k8s_openapi::api::{
    apps, authentication, authorization, autoscaling, coordination, core, discovery, events, networking,
    policy,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use service_api::crds;

use super::custom;
use super::facts::FACTS;
use super::{Field, KindSchema, ListKind, ListType, MapType, Merge, Omit, Scalar, Schemas, StructType, Type};

/// The marks of one field or type, in the order of the table.
type Marks = Vec<&'static str>;

/// Marks by `package`, type and field; the field `@` is the type itself.
type Facts<'k> = HashMap<(&'k str, &'k str, &'k str), Marks>;

const KINDS: [(&str, &str, &str); 26] = [
    ("", "Namespace", "io.k8s.api.core.v1.Namespace"),
    ("", "Node", "io.k8s.api.core.v1.Node"),
    ("", "Pod", "io.k8s.api.core.v1.Pod"),
    ("", "Service", "io.k8s.api.core.v1.Service"),
    ("", "Endpoints", "io.k8s.api.core.v1.Endpoints"),
    ("", "Event", "io.k8s.api.core.v1.Event"),
    ("", "ConfigMap", "io.k8s.api.core.v1.ConfigMap"),
    ("", "ServiceAccount", "io.k8s.api.core.v1.ServiceAccount"),
    ("", "Binding", "io.k8s.api.core.v1.Binding"),
    ("", "Status", "io.k8s.apimachinery.pkg.apis.meta.v1.Status"),
    ("", "DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
    ("events.k8s.io", "Event", "io.k8s.api.events.v1.Event"),
    ("coordination.k8s.io", "Lease", "io.k8s.api.coordination.v1.Lease"),
    ("discovery.k8s.io", "EndpointSlice", "io.k8s.api.discovery.v1.EndpointSlice"),
    ("networking.k8s.io", "ServiceCIDR", "io.k8s.api.networking.v1.ServiceCIDR"),
    ("networking.k8s.io", "IPAddress", "io.k8s.api.networking.v1.IPAddress"),
    ("apps", "Deployment", "io.k8s.api.apps.v1.Deployment"),
    ("apps", "ReplicaSet", "io.k8s.api.apps.v1.ReplicaSet"),
    ("", "Secret", "io.k8s.api.core.v1.Secret"),
    ("policy", "Eviction", "io.k8s.api.policy.v1.Eviction"),
    ("authentication.k8s.io", "SelfSubjectReview", "io.k8s.api.authentication.v1.SelfSubjectReview"),
    ("authentication.k8s.io", "TokenReview", "io.k8s.api.authentication.v1.TokenReview"),
    (
        "authorization.k8s.io",
        "LocalSubjectAccessReview",
        "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    ),
    (
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    ),
    ("authorization.k8s.io", "SelfSubjectRulesReview", "io.k8s.api.authorization.v1.SelfSubjectRulesReview"),
    ("authorization.k8s.io", "SubjectAccessReview", "io.k8s.api.authorization.v1.SubjectAccessReview"),
];

const SCALE: (&str, &str, &str) = ("autoscaling", "Scale", "io.k8s.api.autoscaling.v1.Scale");

/// Our own kinds.
const OWN: [&str; 3] = ["NodePort", "NodePortRange", "ServicePool"];

/// All definitions that the served kinds and their lists need, by OpenAPI name.
pub fn definitions() -> Map<String, Value> {
    fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
        generator.subschema_for::<T>();
    }
    let mut generator = SchemaGenerator::default();
    let g = &mut generator;
    add::<core::v1::Namespace>(g);
    add::<core::v1::Node>(g);
    add::<core::v1::Pod>(g);
    add::<core::v1::Service>(g);
    add::<core::v1::Endpoints>(g);
    add::<core::v1::Event>(g);
    add::<core::v1::ConfigMap>(g);
    add::<core::v1::ServiceAccount>(g);
    add::<core::v1::Binding>(g);
    add::<meta::ListMeta>(g);
    add::<meta::Status>(g);
    add::<meta::DeleteOptions>(g);
    add::<events::v1::Event>(g);
    add::<coordination::v1::Lease>(g);
    add::<discovery::v1::EndpointSlice>(g);
    add::<networking::v1::ServiceCIDR>(g);
    add::<networking::v1::IPAddress>(g);
    add::<apps::v1::Deployment>(g);
    add::<apps::v1::ReplicaSet>(g);
    add::<autoscaling::v1::Scale>(g);
    add::<core::v1::Secret>(g);
    add::<policy::v1::Eviction>(g);
    add::<authentication::v1::SelfSubjectReview>(g);
    add::<authentication::v1::TokenReview>(g);
    add::<authorization::v1::LocalSubjectAccessReview>(g);
    add::<authorization::v1::SelfSubjectAccessReview>(g);
    add::<authorization::v1::SelfSubjectRulesReview>(g);
    add::<authorization::v1::SubjectAccessReview>(g);
    let mut definitions = generator.take_definitions(false);
    drop_younger(&mut definitions);
    custom::add(&mut definitions);
    definitions
}

/// Removes the fields that the served version does not have yet.
fn drop_younger(definitions: &mut Map<String, Value>) {
    for ((package, name, field), marks) in facts() {
        if !marks.contains(&"x") {
            continue;
        }
        for (id, definition) in definitions.iter_mut() {
            if split_id(id) == (package, name)
                && let Some(properties) = definition.get_mut("properties").and_then(Value::as_object_mut)
            {
                properties.remove(field);
            }
        }
    }
}

fn facts() -> Facts<'static> {
    let mut facts = Facts::new();
    for line in FACTS.lines() {
        let mut words = line.split(' ');
        let (Some(package), Some(name)) = (words.next(), words.next()) else { continue };
        for word in words {
            let (field, marks) = word.split_once(':').unwrap_or((word, ""));
            facts.entry((package, name, field)).or_default().extend(marks.split(','));
        }
    }
    facts
}

/// Lines of the table that fit no field, for a test.
#[cfg(test)]
pub(super) fn unknown_facts() -> Vec<String> {
    let definitions = definitions();
    let mut unknown: Vec<String> = facts()
        .into_iter()
        .filter(|((package, name, field), marks)| {
            let known = definitions.iter().any(|(id, definition)| {
                split_id(id) == (*package, *name)
                    && (*field == "@" || definition["properties"].get(field).is_some())
            });
            !known && !marks.contains(&"x")
        })
        .map(|((package, name, field), _)| format!("{package} {name} {field}"))
        .collect();
    unknown.sort();
    unknown
}

/// `io.k8s.api.core.v1.Service` -> (`core`, `Service`); everything of apimachinery's meta package -> `meta`.
pub(crate) fn split_id(id: &str) -> (&str, &str) {
    let mut parts = id.rsplit('.');
    let name = parts.next().unwrap_or_default();
    let _version = parts.next();
    (parts.next().unwrap_or_default(), name)
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

pub(super) fn build() -> Schemas {
    let definitions = definitions();
    let facts = facts();
    let mut builder =
        Builder { definitions: &definitions, facts: &facts, structs: Vec::new(), known: HashMap::new() };
    let own = OWN.map(|kind| (crds::GROUP, kind, leak(&custom::id(kind))));
    let roots = KINDS.into_iter().chain([SCALE]).map(|kind| (kind, "v1"));
    let roots = roots.chain(own.into_iter().map(|kind| (kind, crds::VERSION)));
    let roots: Vec<_> = roots.map(|(kind, version)| (kind, version, builder.strukt(kind.2))).collect();
    let mut structs: Vec<StructType> = builder.structs.into_iter().flatten().collect();
    fill_always(&mut structs);
    let kinds = roots
        .into_iter()
        .map(|((group, kind, _), version, root)| KindSchema {
            group,
            version,
            kind,
            api_version: if group.is_empty() { version } else { leak(&format!("{group}/{version}")) },
            root,
            zero: Value::Object(structs.get(root).map(|s| s.always.clone()).unwrap_or_default()),
        })
        .collect();
    Schemas { structs, kinds }
}

struct Builder<'a> {
    definitions: &'a Map<String, Value>,
    facts: &'a Facts<'static>,
    structs: Vec<Option<StructType>>,
    known: HashMap<String, usize>,
}

impl Builder<'_> {
    fn strukt(&mut self, id: &str) -> usize {
        if let Some(at) = self.known.get(id) {
            return *at;
        }
        let at = self.structs.len();
        self.structs.push(None);
        self.known.insert(id.to_owned(), at);
        let definition = self.definitions.get(id).unwrap_or(&Value::Null);
        let required: Vec<&str> =
            definition["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let (package, name) = split_id(id);
        let mut fields: Vec<Field> = definition["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, schema)| {
                let marks = self.marks(package, name, field);
                self.field(field, schema, required.contains(&field.as_str()), &marks)
            })
            .collect();
        fields.sort_by_key(|f| f.name);
        let atomic = self.marks(package, name, "@").contains(&"atomic");
        let strukt = StructType { name: leak(name), id: leak(id), fields, atomic, always: Map::new() };
        if let Some(slot) = self.structs.get_mut(at) {
            *slot = Some(strukt);
        }
        at
    }

    fn marks(&self, package: &str, name: &str, field: &str) -> Marks {
        marks(self.facts, package, name, field)
    }

    fn field(&mut self, name: &str, schema: &Value, required: bool, marks: &Marks) -> Field {
        let ty = self.ty(schema, marks);
        let has = |mark: &str| marks.contains(&mark);
        let omit = if has("!") || has("v") || (required && !has("-")) {
            Omit::Never
        } else if has("*") || matches!(ty, Type::Struct(_)) {
            Omit::Null
        } else {
            Omit::Zero
        };
        let argument = |mark: &str| {
            marks.iter().find_map(|m| m.strip_prefix(mark)?.strip_prefix('[')?.strip_suffix(']'))
        };
        Field {
            name: leak(name),
            ty,
            omit,
            pointer: has("*"),
            key_default: argument("default"),
            merge: Merge { key: argument("merge"), retain_keys: has("keys") },
        }
    }

    fn ty(&mut self, schema: &Value, marks: &Marks) -> Type {
        let go = marks.iter().find_map(|m| m.strip_prefix('='));
        if let Some(id) = schema["$ref"].as_str().and_then(|r| r.rsplit('/').next()) {
            return self.reference(id);
        }
        match schema["type"].as_str() {
            Some("array") => Type::List(Box::new(ListType {
                item: self
                    .ty(&schema["items"], &marks.iter().copied().filter(|m| m.starts_with('=')).collect()),
                kind: list_kind(marks),
            })),
            Some("object") if schema.get("additionalProperties").is_some() => Type::Map(Box::new(MapType {
                value: self.ty(&schema["additionalProperties"], &Vec::new()),
                atomic: marks.contains(&"atomic"),
                go,
            })),
            Some(kind) => scalar(kind, schema["format"].as_str(), go),
            None => Type::Scalar(Scalar::Any, "interface {}"),
        }
    }

    fn reference(&mut self, id: &str) -> Type {
        match split_id(id).1 {
            "IntOrString" => Type::Scalar(Scalar::IntOrString, "int32"),
            "Quantity" => Type::Scalar(Scalar::Quantity, "resource.Quantity"),
            "Time" => Type::Scalar(Scalar::Time, "string"),
            "MicroTime" => Type::Scalar(Scalar::MicroTime, "string"),
            "FieldsV1" | "RawExtension" | "Patch" => Type::Scalar(Scalar::Any, "interface {}"),
            _ => Type::Struct(self.strukt(id)),
        }
    }
}

fn marks<'k>(facts: &Facts<'k>, package: &'k str, name: &'k str, field: &'k str) -> Marks {
    facts.get(&(package, name, field)).cloned().unwrap_or_default()
}

fn list_kind(marks: &Marks) -> ListKind {
    if marks.contains(&"set") {
        return ListKind::Set;
    }
    let keys = marks.iter().find_map(|m| m.strip_prefix("map[")?.strip_suffix(']'));
    keys.map_or(ListKind::Atomic, |keys| {
        let mut keys: Vec<&'static str> = keys.split(';').collect();
        keys.sort_unstable();
        ListKind::Map(keys)
    })
}

fn scalar(kind: &str, format: Option<&str>, go: Option<&'static str>) -> Type {
    let (scalar, basic) = match (kind, format) {
        ("string", Some("byte")) => (Scalar::Bytes, "[]uint8"),
        ("string", Some("date-time")) => (Scalar::Time, "string"),
        ("string", _) => (Scalar::String, "string"),
        ("boolean", _) => (Scalar::Bool, "bool"),
        ("integer", Some("int32")) => (Scalar::Int32, "int32"),
        ("integer", _) => (Scalar::Int64, "int64"),
        ("number", _) => (Scalar::Double, "float64"),
        _ => (Scalar::Any, "interface {}"),
    };
    Type::Scalar(scalar, go.unwrap_or(basic))
}

/// Fills in what each struct prints without being sent anything; structs by value nest.
fn fill_always(structs: &mut [StructType]) {
    let mut done: Vec<Option<Map<String, Value>>> = vec![None; structs.len()];
    for at in 0..structs.len() {
        always(structs, &mut done, at);
    }
    for (strukt, map) in structs.iter_mut().zip(done) {
        strukt.always = map.unwrap_or_default();
    }
}

fn always(
    structs: &[StructType],
    done: &mut Vec<Option<Map<String, Value>>>,
    at: usize,
) -> Map<String, Value> {
    if let Some(Some(map)) = done.get(at) {
        return map.clone();
    }
    let mut map = Map::new();
    for field in structs.get(at).into_iter().flat_map(|s| &s.fields) {
        if field.omit == Omit::Never {
            let zero = match &field.ty {
                _ if field.pointer => Value::Null,
                Type::Struct(inner) => Value::Object(always(structs, done, *inner)),
                Type::List(_) | Type::Map(_) => Value::Null,
                Type::Scalar(scalar, _) => scalar.zero(),
            };
            map.insert(field.name.to_owned(), zero);
        }
    }
    if let Some(slot) = done.get_mut(at) {
        *slot = Some(map.clone());
    }
    map
}

impl Scalar {
    /// What Go prints for the zero value.
    pub fn zero(self) -> Value {
        match self {
            Scalar::String => Value::String(String::new()),
            Scalar::Bool => Value::Bool(false),
            Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString => Value::from(0),
            Scalar::Quantity => Value::String("0".to_owned()),
            Scalar::Bytes | Scalar::Time | Scalar::MicroTime | Scalar::Any => Value::Null,
        }
    }
}
