//! The API server inside the nodes' namespaces: at the port and the loopback address that the kubeconfig names, so that programs which run
//! there need no other one.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::{fabric::Fabric, namespace::Namespace};

impl Fabric {
    /// Passes connections to the loopback address of each node on to the API server at this address of the machine, until the set is
    /// dropped.
    pub fn pass_on_to(&self, server: SocketAddr) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for (node, namespace) in self.nodes() {
            match listen(&namespace, server.port()) {
                Ok(listener) => drop(tasks.spawn(pass_on(listener, server))),
                Err(error) => {
                    tracing::warn!(node, %error, "programs on the node do not reach the API server");
                }
            }
        }
        tasks
    }
}

fn listen(namespace: &Namespace, port: u16) -> io::Result<TcpListener> {
    let listener = namespace.within(|| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)))?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn pass_on(listener: TcpListener, server: SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((mut client, _)) = accepted else { continue };
                connections.spawn(async move {
                    let mut server = TcpStream::connect(server).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
