//! Examples that `--help` ends with. Each line that begins with the program's name is a command line as it can be given.

pub(super) const LAB: &str = "\
Examples:
  # A cluster to try Services on, with kubectl: no Docker, no etcd
  service-controller-manager lab --demo
  # Three nodes in two zones, a kubeconfig in this directory, objects that outlive the process
  service-controller-manager lab --nodes 3 --zones a,b --kubeconfig-out kubeconfig --data-dir data";

pub(super) const RUN: &str = "\
Examples:
  # The controllers for the cluster that a kubeconfig leads to, as the only replica
  service-controller-manager run --kubeconfig ~/.kube/config --leader-elect=false
  # Beside kube-controller-manager, without writing: what would be written otherwise is in the log and in the metrics
  service-controller-manager run --kubeconfig ~/.kube/config --shadow
  # With a log for programs, and traces of reconciles for a collector
  service-controller-manager run --log-format json --tracing-config-file tracing.yaml";

pub(super) const DIFF: &str = "\
Examples:
  # What would change if these controllers took over a cluster; ends with 1 if that is anything
  service-controller-manager diff
  # Of one namespace, in the cluster of another context of kubectl
  service-controller-manager diff --context staging -n demo
  # Of slices alone, in slices of up to 500 endpoints
  service-controller-manager diff --controllers endpointslice-controller --max-endpoints-per-slice 500";

pub(super) const EXPLAIN: &str = "\
Examples:
  # Why the pods behind a Service are its endpoints, or are not
  service-controller-manager explain service demo/hello
  # Who holds a node port, by a dump of a cluster
  service-controller-manager explain node-port 30080 --dump cluster.yaml
  # Of all Services with a label, one after the other
  service-controller-manager explain services -l app=web -n demo
  # As a plugin of kubectl, for a program
  kubectl svcplane explain svc/hello -n demo -o json";

pub(super) const SIMULATE: &str = "\
Examples:
  # What manifests would lead to, and what each write costs
  service-controller-manager simulate -f manifests.yaml
  # What it would cost a cluster to have smaller slices, or to drain a node
  service-controller-manager simulate --from-server --set max-endpoints-per-slice=50
  service-controller-manager simulate -f cluster.yaml --set node.node-1=drained -o json";

pub(super) const PROXY: &str = "\
Examples:
  # The rules of this node
  service-controller-manager proxy --kubeconfig /etc/kubernetes/proxy.conf
  # What they would be for a dump of a cluster, without touching the kernel
  service-controller-manager proxy --dry-run --dump cluster.yaml --hostname-override node-1";

pub(super) const RANGES: &str = "\
Examples:
  # How full the ranges of a cluster are
  service-controller-manager ranges
  # What of it Services of one namespace hold, in the cluster of another context of kubectl
  service-controller-manager ranges --context staging -n demo
  # Who would have to be created anew with another range, by a dump, for a program
  service-controller-manager ranges --dump cluster.yaml --if-cidr 10.112.0.0/16 -o json";

pub(super) const WEBHOOK: &str = "\
Examples:
  # As the first of three replicas, with the cluster's settings from the environment of the pod
  service-controller-manager webhook --replica-index 0 --replicas 3";

pub(super) const COMPLETION: &str = "\
Examples:
  # For this shell, and for all that follow
  source <(service-controller-manager completion bash)
  service-controller-manager completion bash > /etc/bash_completion.d/service-controller-manager
  service-controller-manager completion zsh > ~/.zfunc/_service-controller-manager
  service-controller-manager completion fish > ~/.config/fish/completions/service-controller-manager.fish";

pub(super) const MAN: &str = "\
Examples:
  # Where man looks for the pages of one user
  service-controller-manager man --dir ~/.local/share/man/man1";

pub(super) const LOGS: &str = "\
Examples:
  # Why the endpoints of a Service changed in the last ten minutes
  kubectl logs -n kube-system deploy/service-controller-manager | service-controller-manager logs --object demo/hello --since 10m
  # What led to an Event: its annotation service-control-plane.io/reconcile-id has the number
  service-controller-manager logs --id 4be1f0c3a2d59e77 controllers.log
  # About the Services and pods with a label
  service-controller-manager logs -l app=web -n demo controllers.log
  # All problems, for a program
  service-controller-manager logs --level warn -o json controllers.log

What cannot be read as a line of the log is shown as it is and counted on the standard error.";
