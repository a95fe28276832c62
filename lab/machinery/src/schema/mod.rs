//! What the fields of every served kind are: the tree that decoding, patches, field ownership and OpenAPI walk.
//!
//! Names, types and descriptions come from `k8s-openapi`; what its schemas do not tell (list keys, atomicity, Go type
//! names, what an empty value prints as) stands in our own table. It never looks at a request and holds no state.

use std::sync::OnceLock;

use serde_json::{Map, Value};

mod build;
mod custom;
mod facts;

pub use build::definitions;

/// The schema of one kind in one API version.
#[derive(Debug)]
pub struct KindSchema {
    /// API group, empty for core.
    pub group: &'static str,
    /// Version inside the group, such as `v1`.
    pub version: &'static str,
    /// Kind, such as `Service`.
    pub kind: &'static str,
    /// `group/version`, or the version alone for core.
    pub api_version: &'static str,
    /// Index of the kind's own struct.
    root: usize,
    /// What an object of this kind without any field prints.
    zero: Value,
}

impl KindSchema {
    /// The struct of the kind itself.
    pub fn root(&'static self) -> &'static StructType {
        structs(self.root)
    }

    /// The object that Go prints for a new, empty value of the kind (without `apiVersion` and `kind`).
    pub fn zero(&'static self) -> &'static Value {
        &self.zero
    }
}

/// A Go struct: named fields, sorted by their JSON names.
#[derive(Debug)]
pub struct StructType {
    /// The Go name, such as `ServicePort`.
    pub name: &'static str,
    /// The name in the OpenAPI documents, such as `io.k8s.api.core.v1.ServicePort`.
    pub id: &'static str,
    /// Its fields, sorted by name.
    pub fields: Vec<Field>,
    /// Server-side apply treats it as one value.
    pub atomic: bool,
    /// The fields that are printed even when nothing was sent, with what is printed.
    pub always: Map<String, Value>,
}

impl StructType {
    /// The field of that JSON name.
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        let at = self.fields.binary_search_by(|f| f.name.cmp(name)).ok()?;
        self.fields.get(at).map(|field| (at, field))
    }
}

/// When a field is left out of the printed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omit {
    /// When it has its zero value (`omitempty`).
    Zero,
    /// When it was not sent, or null (a pointer with `omitempty`).
    Null,
    /// Never.
    Never,
}

/// One field of a struct.
#[derive(Debug)]
pub struct Field {
    /// JSON name.
    pub name: &'static str,
    /// Type.
    pub ty: Type,
    /// When it is left out.
    pub omit: Omit,
    /// A pointer in Go: absent and zero are two things.
    pub pointer: bool,
    /// What stands for it in a list key when it was not sent.
    pub key_default: Option<&'static str>,
    /// How strategic merge patches treat it.
    pub merge: Merge,
}

/// How strategic merge patches treat a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// A list that is merged: by this key, or as a set of scalars when the key is empty.
    pub key: Option<&'static str>,
    /// `$retainKeys` is understood.
    pub retain_keys: bool,
}

/// The type of a field, list item or map value.
#[derive(Debug)]
pub enum Type {
    /// A struct, by index.
    Struct(usize),
    /// A list.
    List(Box<ListType>),
    /// A map with string keys.
    Map(Box<MapType>),
    /// A single value; the text is the Go type that decode errors name.
    Scalar(Scalar, &'static str),
}

impl Type {
    /// The struct behind the type, if it is one.
    pub fn as_struct(&self) -> Option<&'static StructType> {
        match self {
            Type::Struct(at) => Some(structs(*at)),
            _ => None,
        }
    }

    /// The scalar behind the type, if it is one.
    pub fn as_scalar(&self) -> Option<Scalar> {
        match self {
            Type::Scalar(scalar, _) => Some(*scalar),
            _ => None,
        }
    }

    /// The Go type as decode errors name it, such as `[]v1.ServicePort`.
    pub fn go_name(&self) -> String {
        match self {
            Type::Struct(at) => format!("v1.{}", structs(*at).name),
            Type::List(list) => format!("[]{}", list.item.go_name()),
            Type::Map(map) => {
                map.go.map_or_else(|| format!("map[string]{}", map.value.go_name()), ToOwned::to_owned)
            }
            Type::Scalar(_, go) => (*go).to_owned(),
        }
    }
}

/// A list and how its items are told apart.
#[derive(Debug)]
pub struct ListType {
    /// Type of the items.
    pub item: Type,
    /// How server-side apply treats it.
    pub kind: ListKind,
}

/// How server-side apply treats a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// As one value.
    Atomic,
    /// As a set of scalars.
    Set,
    /// As a map whose keys are these fields of the items, sorted by name.
    Map(Vec<&'static str>),
}

/// A map with string keys.
#[derive(Debug)]
pub struct MapType {
    /// Type of the values.
    pub value: Type,
    /// Server-side apply treats it as one value.
    pub atomic: bool,
    /// The Go name of the map type, where it has one.
    pub go: Option<&'static str>,
}

/// The types of single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    String,
    /// Text that is base64 of bytes.
    Bytes,
    /// True or false.
    Bool,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// Floating point number.
    Double,
    /// A 32-bit integer or text.
    IntOrString,
    /// A resource quantity.
    Quantity,
    /// A time in whole seconds.
    Time,
    /// A time in microseconds.
    MicroTime,
    /// Anything (raw extensions, `fieldsV1`).
    Any,
}

/// All kinds and the structs below them.
#[derive(Debug)]
struct Schemas {
    structs: Vec<StructType>,
    kinds: Vec<KindSchema>,
}

static SCHEMAS: OnceLock<Schemas> = OnceLock::new();

fn schemas() -> &'static Schemas {
    SCHEMAS.get_or_init(build::build)
}

fn structs(at: usize) -> &'static StructType {
    // Indices are only made by `build`, which also makes the table.
    &schemas().structs[at]
}

/// The schema of a served kind, or `None`.
pub fn find(group: &str, version: &str, kind: &str) -> Option<&'static KindSchema> {
    kinds().iter().find(|k| k.kind == kind && k.group == group && k.version == version)
}

/// All kinds that have a schema.
pub fn kinds() -> &'static [KindSchema] {
    &schemas().kinds
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(group: &str, kind: &str, path: &[&str]) -> &'static Field {
        let mut strukt = find(group, "v1", kind).unwrap().root();
        let mut field = None;
        for name in path {
            let found = strukt.field(name).unwrap_or_else(|| panic!("{kind} has no {name}")).1;
            field = Some(found);
            strukt = match &found.ty {
                Type::Struct(at) => structs(*at),
                Type::List(list) => list.item.as_struct().unwrap_or(strukt),
                _ => strukt,
            };
        }
        field.unwrap()
    }

    #[rstest]
    #[case("", "Service", &["spec", "ports"], "[]v1.ServicePort")]
    #[case("", "Service", &["spec", "type"], "v1.ServiceType")]
    #[case("", "Service", &["spec", "selector"], "map[string]string")]
    #[case("", "Service", &["metadata"], "v1.ObjectMeta")]
    #[case("", "Service", &["metadata", "uid"], "types.UID")]
    #[case("", "Service", &["spec", "ports", "port"], "int32")]
    #[case("", "Service", &["spec", "ipFamilies"], "[]v1.IPFamily")]
    #[case("", "Node", &["status", "capacity"], "v1.ResourceList")]
    #[case("discovery.k8s.io", "EndpointSlice", &["endpoints", "conditions", "ready"], "bool")]
    fn go_types(#[case] group: &str, #[case] kind: &str, #[case] path: &[&str], #[case] expected: &str) {
        assert_eq!(at(group, kind, path).ty.go_name(), expected);
    }

    #[test]
    fn service_ports_are_keyed_by_port_and_protocol_and_merged_by_port() {
        let ports = at("", "Service", &["spec", "ports"]);
        let Type::List(list) = &ports.ty else { panic!("not a list") };
        assert_eq!(list.kind, ListKind::Map(vec!["port", "protocol"]));
        assert_eq!(ports.merge.key, Some("port"));
        assert_eq!(at("", "Service", &["spec", "ports", "protocol"]).key_default, Some("TCP"));
    }

    #[rstest]
    #[case("", "Service", serde_json::json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}))]
    #[case("networking.k8s.io", "ServiceCIDR", serde_json::json!({"metadata": {}, "spec": {}, "status": {}}))]
    #[case("discovery.k8s.io", "EndpointSlice",
        serde_json::json!({"metadata": {}, "addressType": "", "endpoints": null, "ports": null}))]
    fn empty_objects(#[case] group: &str, #[case] kind: &str, #[case] expected: Value) {
        assert_eq!(find(group, "v1", kind).unwrap().zero(), &expected);
    }

    #[test]
    fn every_line_of_the_table_names_a_field_that_exists() {
        assert_eq!(build::unknown_facts(), Vec::<String>::new());
    }
}
