// Package inject decides which pods get a DevMesh sidecar and says how to put
// it in, as values: a pod as the API server sent it in, a decision and a JSON
// patch out. It knows no clock, network, cluster or log; package webhook serves
// it.
//
// # Who gets a sidecar
//
// A pod that asks for it: by the annotation sidecar.signadot.com/inject on its
// template, or, when the pod itself says nothing, by the label of the same name
// on its namespace. The value is "true"; "http" and "grpc", which older
// releases required, mean the same. The pod's own word wins over the
// namespace's, so "false" on a pod keeps it out of a namespace that asks.
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
// The handler makes no API call, so the owner is worked out from the pod alone:
// a ReplicaSet of a Deployment is called <deployment>-<hash>, and the pod
// carries the same hash in the label pod-template-hash (a Rollout's in
// rollouts-pod-template-hash). Nothing is trusted to be what it says here: the
// xDS server learns who a sidecar is from its token.
//
// # How it is put in
//
// The patch works on the JSON the API server sent and consists of additions,
// but for the probes below. No list is replaced and no field we do not know is
// touched, so a pod with fields newer than this program keeps them. A pod that
// already has the sidecar is left alone, so injecting twice is injecting once.
//
// The sidecar is a native one, an init container that restarts by itself, and it comes
// before the redirecting init container: traffic turns to the sidecar only once its
// startup probe has seen it listen. Its preStop hook tells it that the pod ends (ADR 26).
//
// # Which ports
//
// Every inbound TCP port, declared or not: a declaration is only information in
// Kubernetes, and a Service may lead to a port that nobody declared, beside
// others that somebody did. Not redirecting it would let requests with a routing
// key reach the baseline in silence. Ports in the annotation
// sidecar.signadot.com/exclude-ports ("9090,9443") and the sidecar's own stay
// untouched.
//
// # Which of them are passed on unseen
//
// In some protocols the server speaks first. Looking at what the client says
// would hold such a connection up for as long as the sidecar has patience, so it
// is told which ports are of that kind. The annotation
// sidecar.signadot.com/plain-ports says it ("3306,5432", or "none") and wins over
// all. Without it they are devmesh.DefaultPlainPorts and the container ports whose
// name begins with such a protocol: dict, ftp, imap, lmtp, mariadb, mysql, nats,
// nntp, pop3, rfb, sftp, sieve, smtp, ssh, submission, svn, telnet, vnc, alone or
// before a dash, as in mysql-primary. A port with one of the words grpc, grpcweb,
// h2, h2c, http, http1, http2, web, websocket or ws in its name is never one of
// them: requests on it are routed, whatever its number.
//
// # Edges
//
// Where requests come from outside the cluster, whoever sends them could choose a sandbox.
// The annotation sidecar.signadot.com/edge: "true" has the sidecar take routing keys out of
// all that it reads, so that every request reaches the baseline, and the application hands
// no key on. A value that is neither "true" nor "false" counts as "true", with a warning.
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
