//! Leadership by a Lease: of several processes one writes (coordination.k8s.io/v1).
//!
//! Owns getting, keeping and giving back the lease; never what the leader does.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::Api;
use tokio::time::Instant;

use crate::error::Error;

/// How leadership is sought; the names are those of upstream's flags.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    /// `--leader-elect-resource-namespace`
    pub namespace: String,
    /// `--leader-elect-resource-name`
    pub name: String,
    /// Who seeks it; different for each process.
    pub identity: String,
    /// `--leader-elect-lease-duration`: others wait so long for a silent leader.
    pub lease_duration: Duration,
    /// `--leader-elect-renew-deadline`: a leader that could not renew for so long gives up.
    pub renew_deadline: Duration,
    /// `--leader-elect-retry-period`: the time between tries.
    pub retry_period: Duration,
}

impl LeaderElection {
    /// Upstream's times and place, for this process.
    #[must_use]
    pub fn new(identity: String) -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            name: "service-controller-manager".to_owned(),
            identity,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// A lease that is held.
#[derive(Debug)]
pub struct Leadership {
    api: Api<Lease>,
    election: LeaderElection,
    lease: Lease,
    renewed: Instant,
}

/// Waits until this process holds the lease.
#[must_use = "leadership has to be kept"]
pub async fn acquire(client: kube::Client, election: LeaderElection) -> Leadership {
    let api: Api<Lease> = Api::namespaced(client, &election.namespace);
    let mut watched: Option<(String, Instant)> = None;
    loop {
        match attempt(&api, &election, &mut watched).await {
            Ok(Some(lease)) => {
                tracing::info!(identity = election.identity, lease = election.name, "leading");
                return Leadership { api, election, lease, renewed: Instant::now() };
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, lease = election.name, "lease not readable, tried again"),
        }
        tokio::time::sleep(election.retry_period).await;
    }
}

/// One try. A lease that somebody else holds is free when it has not changed for its duration, by
/// our own clock.
async fn attempt(
    api: &Api<Lease>,
    election: &LeaderElection,
    watched: &mut Option<(String, Instant)>,
) -> Result<Option<Lease>, kube::Error> {
    let now = MicroTime(jiff::Timestamp::now());
    let Some(mut lease) = api.get_opt(&election.name).await? else {
        let lease = Lease {
            metadata: ObjectMeta { name: Some(election.name.clone()), ..ObjectMeta::default() },
            spec: Some(held(election, now.clone(), now, 0)),
        };
        return taken(api.create(&PostParams::default(), &lease).await);
    };
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.unwrap_or_default();
    let version = lease.metadata.resource_version.clone().unwrap_or_default();
    if !holder.is_empty() && holder != election.identity {
        let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0);
        match watched {
            Some((known, since)) if *known == version => {
                if since.elapsed() < Duration::from_secs(seconds) {
                    return Ok(None);
                }
            }
            _ => {
                *watched = Some((version, Instant::now()));
                return Ok(None);
            }
        }
    }
    let transitions = spec.lease_transitions.unwrap_or(0) + i32::from(holder != election.identity);
    lease.spec = Some(held(election, now.clone(), now, transitions));
    taken(api.replace(&election.name, &PostParams::default(), &lease).await)
}

/// Somebody else may have been faster.
fn taken(result: Result<Lease, kube::Error>) -> Result<Option<Lease>, kube::Error> {
    match result {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(error) => Err(error),
    }
}

fn held(election: &LeaderElection, acquired: MicroTime, renewed: MicroTime, transitions: i32) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(election.identity.clone()),
        lease_duration_seconds: i32::try_from(election.lease_duration.as_secs()).ok(),
        acquire_time: Some(acquired),
        renew_time: Some(renewed),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

impl Leadership {
    /// Renews the lease for as long as it can; gives why it could not.
    pub async fn keep(&mut self) -> Error {
        loop {
            tokio::time::sleep(self.election.retry_period).await;
            let why = match self.renew().await {
                Ok(()) => {
                    self.renewed = Instant::now();
                    continue;
                }
                Err(kube::Error::Api(status)) if status.code == 409 => "somebody else wrote it".to_owned(),
                Err(error) => {
                    if self.renewed.elapsed() < self.election.renew_deadline {
                        tracing::warn!(%error, "lease not renewed, tried again");
                        continue;
                    }
                    error.to_string()
                }
            };
            let LeaderElection { namespace, name, .. } = self.election.clone();
            return Error::LeaseLost { namespace, name, why };
        }
    }

    async fn renew(&mut self) -> Result<(), kube::Error> {
        let mut lease = self.lease.clone();
        if let Some(spec) = &mut lease.spec {
            spec.renew_time = Some(MicroTime(jiff::Timestamp::now()));
        }
        let params = PostParams::default();
        let replaced = self.api.replace(&self.election.name, &params, &lease);
        let deadline = self.election.renew_deadline;
        self.lease = tokio::time::timeout(deadline, replaced)
            .await
            .unwrap_or_else(|_| Err(kube::Error::Service("no answer in time".into())))?;
        Ok(())
    }

    /// Gives the lease back, so that another process need not wait.
    pub async fn release(mut self) {
        if let Some(spec) = &mut self.lease.spec {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
        }
        if let Err(error) = self.api.replace(&self.election.name, &PostParams::default(), &self.lease).await {
            tracing::debug!(%error, "lease not given back");
        }
    }
}
