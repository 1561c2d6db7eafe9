package devmesh

// What a pod must give the sidecar, and what the sidecar gives the pod. The
// injector writes these into the pod; the sidecar's program reads them. Both
// sides take the names from here, so that they cannot drift apart.

// Containers, user and ports.
const (
	// ContainerName is the native sidecar container (an init container with
	// restartPolicy Always) that runs the devmesh program and its Envoy.
	ContainerName = "sd-sidecar"
	// InitContainerName is the init container that redirects the workload's
	// inbound ports to ListenerPort. It runs before ContainerName.
	InitContainerName = "sd-sidecar-init"
	// UID is the user and group the sidecar runs as. Its own traffic is never
	// redirected.
	UID = 1337
	// ListenerPort takes all redirected inbound TCP traffic.
	ListenerPort = 15006
	// ReadinessPort serves ReadinessPath over HTTP on all addresses, for the
	// container's startup and readiness probes. It must not be redirected.
	ReadinessPort = 15021
	// ReadinessPath answers 200 when the listener takes traffic, else 503.
	ReadinessPath = "/ready"
	// ProbePath and a port of the workload, as ProbePath + "8080", on ReadinessPort answers 200
	// when the workload accepts a connection to that port, else 503. The injector turns
	// tcpSocket probes into requests for it: a connection to a redirected port only shows that
	// the sidecar listens.
	ProbePath = "/probe/tcp/"
	// AddressPath on ReadinessPort answers 200 with the address that the connection has arrived at: that
	// of the pod. One that was forwarded has another address than its client sees. By that
	// traffic-manager knows that an address is a sidecar's.
	AddressPath = "/address"
)

// Environment of the sidecar container.
const (
	// EnvWorkloadKind, EnvWorkloadNamespace and EnvWorkloadName name the
	// baseline that the pod belongs to, as the routes API does (kind Deployment
	// or ArgoRollout). They only choose the resource to ask for: whether the pod
	// may have it, the server decides from the pod's token. Required.
	EnvWorkloadKind      = "WORKLOAD_KIND"
	EnvWorkloadNamespace = "WORKLOAD_NAMESPACE"
	EnvWorkloadName      = "WORKLOAD_NAME"
	// EnvXDSAddress is host:port of the route server's xDS endpoint. Default
	// DefaultXDSAddress.
	EnvXDSAddress = "ROUTESERVER_XDS"
	// EnvTrust has the authorities that vouched for route servers when the pod was made, as
	// PEM. With it the sidecar speaks TLS or not at all; those that follow it learns from
	// route servers that it trusts. Without it, it speaks plain.
	EnvTrust = "ROUTESERVER_CA"
	// EnvPlainPorts lists ports of the workload with connections that pass untouched and at
	// once, because their server speaks first, separated by commas; NoPlainPorts for none.
	// Default: DefaultPlainPorts.
	EnvPlainPorts = "PLAIN_PORTS"
	// NoPlainPorts is a word, so that a lost value is an error.
	NoPlainPorts = "none"
	// EnvEdge with the value EdgeYes makes the sidecar remove routing keys from incoming
	// requests.
	EnvEdge = "EDGE"
	EdgeYes = "true"
	// EnvLogLevel is debug, info, warn or error. Default info. The annotation
	// signadot.com/log-level on the pod may set it.
	EnvLogLevel = "LOG_LEVEL"
	// EnvForms is the newest form of routes that the sidecar of a pod takes: FormsRecorded. It is for
	// the operator, which sends no newer ones while a pod of the workload has not got it.
	EnvForms = "ROUTE_FORMS"
	// FormsRecorded adds routes of requests that are recorded and come back (package translate).
	FormsRecorded = "2"
	// EnvPodName, EnvPodNamespace and EnvPodUID come from the downward API
	// (metadata.name, metadata.namespace, metadata.uid). They are for logs and
	// for Envoy's node id only.
	EnvPodName      = "POD_NAME"
	EnvPodNamespace = "POD_NAMESPACE"
	EnvPodUID       = "POD_UID"
	// EnvPodIP comes from the downward API (status.podIP): the address at which
	// the workload is probed.
	EnvPodIP = "POD_IP"
	// EnvMemoryLimit is what the container may hold, in bytes, from the downward API
	// (limits.memory), where it has a limit. What Envoy may hold follows from it. Without:
	// as for 1 GiB.
	EnvMemoryLimit = "MEMORY_LIMIT"
	// EnvRunPath, EnvTokenFile and EnvEnvoy replace RunPath, the token's path and
	// EnvoyPath, where the program runs outside its image. Not set in a pod.
	EnvRunPath   = "DEVMESH_RUN_PATH"
	EnvTokenFile = "DEVMESH_TOKEN_FILE"
	EnvEnvoy     = "ENVOY"
)

// Volumes of the pod, mounted into the sidecar container.
const (
	// RunVolume is an emptyDir mounted read-write at RunPath: the bootstrap, the last
	// routes, the sockets between the program and Envoy. RunSizeLimit bounds it.
	RunVolume    = "sd-sidecar-run"
	RunPath      = "/run/devmesh"
	RunSizeLimit = "64Mi"
	// TokenVolume is a projected volume mounted read-only at TokenPath, with one
	// service account token source: path TokenFile, audience TokenAudience,
	// expirationSeconds TokenSeconds.
	TokenVolume   = "sd-sidecar-token"
	TokenPath     = "/var/run/secrets/signadot.com/devmesh"
	TokenFile     = "token"
	TokenAudience = "routeserver.signadot.svc"
	TokenSeconds  = 3600
)

// Inside the sidecar image.
const (
	// ProgramPath is the sidecar's program. The container's preStop hook runs it with
	// DrainCommand.
	ProgramPath  = "/devmesh"
	DrainCommand = "drain"
	// EnvoyPath is the Envoy binary.
	EnvoyPath = "/envoy"
	// DefaultXDSAddress is where the chart puts the route server's xDS endpoint.
	DefaultXDSAddress = "routeserver.signadot.svc:7779"
	// DefaultLogLevel is used when EnvLogLevel is absent.
	DefaultLogLevel = "info"
)
