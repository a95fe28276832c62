//! Links, addresses and routes of one namespace.

use std::{io, net::IpAddr};

use futures::TryStreamExt as _;
use ipnet::IpNet;
use rtnetlink::{
    Handle, LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder, new_connection,
    packet_route::{
        address::AddressHeaderFlags,
        link::{InfoData, InfoKind, InfoVeth},
        route::{RouteAddress, RouteAttribute, RouteMessage, RouteScope},
    },
};
use tokio::task::AbortHandle;

use crate::{error::NetworkError, namespace::Namespace};

/// A way to the links of a namespace.
#[derive(Debug)]
pub(crate) struct Links {
    handle: Handle,
    connection: AbortHandle,
}

impl Drop for Links {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn failed(what: impl Into<String>) -> impl FnOnce(rtnetlink::Error) -> NetworkError {
    |source| NetworkError::Link { what: what.into(), source: Box::new(source) }
}

impl Links {
    /// The links of the machine.
    pub(crate) fn of_machine() -> io::Result<Self> {
        let (connection, handle, _) = new_connection()?;
        Ok(Self { handle, connection: tokio::spawn(connection).abort_handle() })
    }

    /// The links of a namespace.
    pub(crate) fn of(namespace: &Namespace) -> Result<Self, NetworkError> {
        let runtime = tokio::runtime::Handle::current();
        let open = || {
            let _runtime = runtime.enter();
            Self::of_machine()
        };
        namespace
            .within(open)
            .map_err(|source| NetworkError::Namespace { name: namespace.name().to_owned(), source })
    }

    /// The number of a link.
    pub(crate) async fn index(&self, name: &str) -> Result<u32, NetworkError> {
        let found = self.handle.link().get().match_name(name.to_owned()).execute().try_next().await;
        let link = found.map_err(failed(format!("link {name}")))?;
        link.map(|link| link.header.index).ok_or_else(|| NetworkError::Link {
            what: format!("link {name}"),
            source: Box::new(rtnetlink::Error::RequestFailed),
        })
    }

    /// Makes a bridge that is up.
    pub(crate) async fn bridge(&self, name: &str) -> Result<u32, NetworkError> {
        let message = LinkBridge::new(name).up().build();
        self.handle.link().add(message).execute().await.map_err(failed(format!("bridge {name}")))?;
        self.index(name).await
    }

    /// Makes a pair of links: one here, up and perhaps at a bridge, the other in a namespace, of the name `eth0`.
    pub(crate) async fn pair(
        &self,
        name: &str,
        other: &Namespace,
        bridge: Option<u32>,
    ) -> Result<u32, NetworkError> {
        let peer = LinkMessageBuilder::<LinkUnspec>::new().name("eth0").setns_by_fd(other.fd()).build();
        let mut message = LinkMessageBuilder::<LinkVeth>::new_with_info_kind(InfoKind::Veth)
            .name(name)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
            .up();
        if let Some(bridge) = bridge {
            message = message.controller(bridge);
        }
        let made = self.handle.link().add(message.build()).execute().await;
        made.map_err(failed(format!("link {name} to {}", other.name())))?;
        self.index(name).await
    }

    /// Brings a link up; its number.
    pub(crate) async fn up(&self, name: &str) -> Result<u32, NetworkError> {
        let index = self.index(name).await?;
        let message = LinkUnspec::new_with_index(index).up().build();
        self.handle.link().set(message).execute().await.map_err(failed(format!("link {name}")))?;
        Ok(index)
    }

    /// Removes a link.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), NetworkError> {
        let index = self.index(name).await?;
        self.handle.link().del(index).execute().await.map_err(failed(format!("link {name}")))
    }

    /// Gives a link an address.
    pub(crate) async fn address(&self, link: u32, ip: IpAddr, bits: u8) -> Result<(), NetworkError> {
        let mut request = self.handle.address().add(link, ip, bits);
        if ip.is_ipv6() {
            // Nobody else has it, and it can be listened at without a wait.
            request.message_mut().header.flags |= AddressHeaderFlags::Nodad;
        }
        request.execute().await.map_err(failed(format!("address {ip}/{bits}")))
    }

    /// A route to a network, straight over a link or by a gateway.
    pub(crate) async fn route(&self, to: IpNet, link: u32, by: Option<IpAddr>) -> Result<(), NetworkError> {
        let wrong = |_| NetworkError::Family(to.network());
        let mut route = RouteMessageBuilder::<IpAddr>::new()
            .output_interface(link)
            .destination_prefix(to.network(), to.prefix_len())
            .map_err(wrong)?;
        match by {
            Some(by) => route = route.gateway(by).map_err(wrong)?,
            // What a gateway is looked for among.
            None => route = route.scope(RouteScope::Link),
        }
        let added = self.handle.route().add(route.build()).execute().await;
        added.map_err(failed(format!("route to {to}")))
    }

    /// The networks that there are routes to, of both families.
    pub(crate) async fn reached(&self) -> Result<Vec<IpNet>, NetworkError> {
        let mut all = Vec::new();
        for any in [IpAddr::from([0; 4]), IpAddr::from([0; 16])] {
            let message = match any {
                IpAddr::V4(_) => RouteMessageBuilder::<std::net::Ipv4Addr>::new().build(),
                IpAddr::V6(_) => RouteMessageBuilder::<std::net::Ipv6Addr>::new().build(),
            };
            let mut routes = std::pin::pin!(self.handle.route().get(message).execute());
            while let Some(route) = routes.try_next().await.map_err(failed("the machine's routes"))? {
                all.extend(destination(&route));
            }
        }
        Ok(all)
    }
}

fn destination(route: &RouteMessage) -> Option<IpNet> {
    let ip = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(ip)) => Some(IpAddr::V4(*ip)),
        RouteAttribute::Destination(RouteAddress::Inet6(ip)) => Some(IpAddr::V6(*ip)),
        _ => None,
    })?;
    // Groups and the link's own addresses are in nobody's way.
    let own = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local()) || ip.is_multicast();
    IpNet::new(ip, route.header.destination_prefix_length).ok().filter(|_| !own)
}
