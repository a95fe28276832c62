//! `ranges`: reads the objects of a cluster or of files, and prints what they say about its ranges.
//!
//! Owns where the objects come from. What they mean is the allocators'; how it is printed is in `text`.

mod dump;
mod text;

use std::fmt::Debug;
use std::io::{self, Write as _};

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use service_allocators::ranges::{Objects, Questions, survey};
use service_api::crds::{NodePortRange, ServicePool};

use super::CommandError;
use crate::args::{OutputFormat, RangesArgs};
use crate::cluster::{self, Watched};
use crate::progress::Progress;

/// How many objects one request asks for.
const PAGE: u32 = 500;

/// Why no report can be made of a server.
#[derive(Debug, thiserror::Error)]
#[error("list {what}: {source}")]
pub struct ListError {
    what: String,
    source: kube::Error,
}

/// Prints the report.
pub(super) async fn run(args: RangesArgs) -> Result<(), CommandError> {
    let objects = if args.dump.is_empty() {
        from_server(cluster::connect_as_kubectl(&args.place, Watched::default()).await?).await?
    } else {
        dump::read(&args.dump)?
    };
    let questions = Questions {
        node_ports: args.service_node_port_range,
        ephemeral: args.ephemeral_ports,
        if_cidrs: args.if_cidr,
        if_node_ports: args.if_node_port_range,
        shown: args.show.get(),
        namespace: args.namespace,
    };
    let report = survey(&objects, &questions);
    let text = match args.output {
        OutputFormat::Text => text::render(&report),
        OutputFormat::Json => {
            serde_json::to_string_pretty(&report).map(|text| text + "\n").unwrap_or_default()
        }
    };
    io::stdout().lock().write_all(text.as_bytes()).map_err(CommandError::Output)
}

async fn from_server(client: Client) -> Result<Objects, ListError> {
    let progress = Progress::new("objects listed");
    Ok(Objects {
        services: all::<Service>(&client, &progress).await?.unwrap_or_default(),
        cidrs: all::<ServiceCIDR>(&client, &progress).await?.unwrap_or_default(),
        addresses: all::<IPAddress>(&client, &progress).await?,
        nodes: all::<Node>(&client, &progress).await?.unwrap_or_default(),
        port_ranges: all::<NodePortRange>(&client, &progress).await?.unwrap_or_default(),
        pools: all::<ServicePool>(&client, &progress).await?.unwrap_or_default(),
    })
}

/// All objects of a kind; `None` on a server that does not have the kind.
async fn all<T>(client: &Client, progress: &Progress) -> Result<Option<Vec<T>>, ListError>
where
    T: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api = Api::<T>::all(client.clone());
    let mut page = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let list = match api.list(&page).await {
            Ok(list) => list,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(source) => return Err(ListError { what: T::plural(&()).into_owned(), source }),
        };
        progress.add(list.items.len() as u64);
        found.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(Some(found)),
        }
    }
}
