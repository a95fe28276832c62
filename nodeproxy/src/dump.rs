//! The rules of a node as text, from a cluster or from a file of objects: nothing is changed and nobody needs to be root.

use std::fmt::Write as _;

use kube::{Api, Client, api::ListParams};
use serde::Deserialize;
use serde_json::Value;
use service_api::address::Family;

use crate::{
    agent::Settings,
    config::NodeView,
    iptables,
    nft::{
        diff::{Change, Table},
        json, render,
    },
    objects::{NodeWire, ServiceCidrWire, ServiceWire, SliceWire},
    sync::Known,
    track::{Cluster, Seen},
};

/// How the text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// What `nft -f` takes.
    Nft,
    /// What `iptables-restore` takes; for each family a part with a heading.
    Iptables,
    /// What `nft -j -f` takes.
    Json,
}

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// A file that holds no objects.
    #[error("the dump cannot be read: {0}")]
    Parse(String),
    /// An object that is not as its kind says.
    #[error("a {kind} in the dump cannot be read: {source}")]
    Object {
        /// Its kind.
        kind: String,
        /// Why not.
        source: serde_json::Error,
    },
    /// The server does not tell.
    #[error("cannot list: {0}")]
    List(#[from] kube::Error),
    /// No such node.
    #[error("there is no Node {0:?}; --hostname-override says which one")]
    Node(String),
}

/// What a small dump may have beyond its length.
const SPARE: usize = 1000;

/// The objects that rules are made of.
#[derive(Debug, Default)]
pub struct Objects {
    services: Vec<ServiceWire>,
    slices: Vec<SliceWire>,
    nodes: Vec<NodeWire>,
    cidrs: Vec<ServiceCidrWire>,
}

/// Lists them.
pub async fn fetch(client: Client) -> Result<Objects, DumpError> {
    let all = ListParams::default();
    let cidrs = match Api::<ServiceCidrWire>::all(client.clone()).list(&all).await {
        Ok(list) => list.items,
        // A server before 1.33 has none.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    Ok(Objects {
        services: Api::all(client.clone()).list(&all).await?.items,
        slices: Api::all(client.clone()).list(&all).await?.items,
        nodes: Api::all(client).list(&all).await?.items,
        cidrs,
    })
}

/// Reads objects as `kubectl get -o yaml` or `-o json` prints them: a List, or documents. Other kinds are left out.
pub fn parse(text: &str) -> Result<Objects, DumpError> {
    let documents = match serde_json::from_str(text) {
        Ok(document) => vec![document],
        Err(_) => documents(text)?,
    };
    let mut objects = Objects::default();
    for document in documents {
        objects.take(document)?;
    }
    Ok(objects)
}

/// The documents of a text in YAML. A dump may be large, but what aliases stand for may not be larger than its text.
fn documents(text: &str) -> Result<Vec<Value>, DumpError> {
    let length = text.len() + SPARE;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(length),
            max_events: length,
            max_nodes: length,
            max_total_scalar_bytes: length,
            max_documents: length,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: length },
    };
    serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| DumpError::Parse(error.to_string()))
}

impl Objects {
    fn take(&mut self, value: Value) -> Result<(), DumpError> {
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "Service" => self.services.push(object(&kind, value)?),
            "EndpointSlice" => self.slices.push(object(&kind, value)?),
            "Node" => self.nodes.push(object(&kind, value)?),
            "ServiceCIDR" => self.cidrs.push(object(&kind, value)?),
            list if list.ends_with("List") => {
                let element = list.strip_suffix("List").unwrap_or_default();
                let items = value.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
                for mut item in items {
                    // Items of a list of one kind do not say it again.
                    if let Value::Object(fields) = &mut item
                        && !element.is_empty()
                    {
                        fields.entry("kind").or_insert_with(|| element.into());
                    }
                    self.take(item)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn object<K: for<'de> Deserialize<'de>>(kind: &str, value: Value) -> Result<K, DumpError> {
    serde_json::from_value(value).map_err(|source| DumpError::Object { kind: kind.to_owned(), source })
}

/// The rules of the node that the settings name.
pub fn rules(objects: &Objects, settings: &Settings, format: OutputFormat) -> Result<String, DumpError> {
    let mut cluster = Cluster::new(&settings.node_name).for_proxy(settings.proxy_name.clone());
    for node in &objects.nodes {
        cluster.on_node(Seen::Object(node.clone()));
    }
    for cidr in &objects.cidrs {
        cluster.on_cidr(Seen::Object(cidr.clone()));
    }
    for service in &objects.services {
        cluster.on_service(Seen::Object(service.clone()));
    }
    for slice in &objects.slices {
        cluster.on_slice(Seen::Object(slice.clone()));
    }
    let Some(info) = cluster.node().cloned() else {
        return Err(DumpError::Node(settings.node_name.clone()));
    };
    // Of another machine's interfaces nothing is known but what its Node says.
    let node = NodeView { interfaces: info.addresses.clone(), info };
    let known = Known { cluster: &cluster, node: &node, settings: &settings.rules };
    let mut text = String::new();
    let mut tables = Vec::new();
    for family in [Family::V4, Family::V6] {
        if format == OutputFormat::Iptables {
            let program = if family == Family::V4 { "iptables-restore" } else { "ip6tables-restore" };
            let _ = writeln!(text, "# for {program} --noflush");
            text.push_str(&iptables::rules(known, family));
        } else {
            let mut table = Table::default();
            let mut change = Change::default();
            known.plan_into(&mut table, &mut change, family);
            tables.push((family, table));
        }
    }
    match format {
        OutputFormat::Iptables => {}
        OutputFormat::Nft => {
            for (family, table) in &tables {
                text.push_str(&render::table(table, *family));
            }
        }
        OutputFormat::Json => text = json::tables(&tables),
    }
    Ok(text)
}
