// Package inject decides which pods get a DevMesh sidecar and computes the change, as values: a
// pod as the API server sent it in, a decision and a JSON patch out. It uses no clock, network,
// cluster or log; package webhook serves it.
//
// # Pods that get a sidecar
//
// A pod that asks for it: by the annotation sidecar.signadot.com/inject on its template, or,
// when the pod itself has no such annotation, by the label of the same name on its namespace.
// The value is "true"; "http" and "grpc", which older releases required, mean the same. The
// pod's annotation wins over the namespace's label, so "false" on a pod excludes it in a
// namespace that asks.
//
// Only baselines get one, and only where it can work: the pod must belong to a
// Deployment or an Argo Rollout, must not be a fork, must not use the node's
// network, must not use the sidecar's ports, declared or not, and must neither have nor announce the
// proxy of another product (ProxyOf). A pod that asked and is
// refused starts unmeshed and carries the annotation
// sidecar.signadot.com/processed with the reason and what to change. A pod that
// did not ask is not touched at all. Where the namespace enforces a pod security
// level (baseline or restricted) a sidecar would keep the pod from starting, since
// its redirect needs a capability: such pods are refused like the others.
//
// The handler makes no API call, so the owner is derived from the pod alone: a ReplicaSet of a
// Deployment is called <deployment>-<hash>, and the pod carries the same hash in the label
// pod-template-hash (a Rollout's in rollouts-pod-template-hash). This is not relied on for
// security: the xDS server identifies a sidecar by its token.
//
// # The patch
//
// The patch works on the JSON the API server sent and consists of additions, but for the probes
// below. No list is replaced and no unknown field is touched, so a pod with fields newer than
// this program keeps them. A pod that already has the sidecar is left alone, so injecting is
// idempotent.
//
// The sidecar is a native one, an init container that restarts by itself, and it comes before
// the redirecting init container: traffic is redirected to the sidecar only once its startup
// probe has seen it listen. Its preStop hook notifies it that the pod ends (ADR 26).
//
// # Redirected ports
//
// Every inbound TCP port, declared or not: a declaration is only information in Kubernetes, and
// a Service can target a port that is not declared, even if others are. Not redirecting it
// would let requests with a routing key reach the baseline without notice. Ports in the
// annotation sidecar.signadot.com/exclude-ports ("9090,9443") and the sidecar's own stay
// untouched.
//
// # Plain ports
//
// In some protocols the server speaks first. Waiting for the client's first bytes would delay
// such a connection until a timeout, so the sidecar needs to know these ports. The annotation
// sidecar.signadot.com/plain-ports lists them ("3306,5432", or "none") and wins over all.
// Without it they are devmesh.DefaultPlainPorts and the container ports with a name that begins
// with such a protocol: dict, ftp, imap, lmtp, mariadb, mysql, nats, nntp, pop3, rfb, sftp,
// sieve, smtp, ssh, submission, svn, telnet, vnc, alone or before a dash, as in mysql-primary.
// A port with one of the words grpc, grpcweb, h2, h2c, http, http1, http2, web, websocket or ws
// in its name is never one of them: requests on it are routed, whatever its number.
//
// # Edges
//
// Where requests come from outside the cluster, any client could choose a sandbox. The
// annotation sidecar.signadot.com/edge: "true" makes the sidecar remove routing keys from all
// requests that it reads, so that every request reaches the baseline, and the application
// propagates no key. A value that is neither "true" nor "false" counts as "true", with a
// warning.
//
// # Resources
//
// The annotation sidecar.signadot.com/resources sets cpu and memory of the injected containers
// of one workload, within Bounds of the configuration (sized). A value out of bounds is a reason
// against a sidecar.
//
// # Probes
//
// A tcpSocket probe of a redirected port would be answered by the sidecar's
// listener, and find a workload alive that is not. It becomes an httpGet probe of
// the sidecar (devmesh.ReadinessPort, path devmesh.ProbePath and the port), which
// connects to the workload at the pod's address; times and thresholds stay. This
// is done for containers and for init containers that keep running, named ports
// included. A probe with a host of its own, of a port that is not redirected, or
// with something in it that this program does not know is left as it is. Other
// probes need no change: an httpGet or grpc probe is answered by the workload
// through the sidecar, and exec does not use the network.
package inject
