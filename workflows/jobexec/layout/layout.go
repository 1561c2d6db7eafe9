// Package layout has what the operator and the container job-executor-proxy of a runner's pod agree on: names,
// paths, variables, the port and the audience of the token. Package socket has what the proxy and the executor
// agree on.
package layout

import "switchyard.dev/workflows/jobexec/socket"

// Containers of the operator's in a runner's pod.
const (
	// InitContainer installs the executor.
	InitContainer = "job-executor-init"
	// ProxyContainer serves it to others.
	ProxyContainer = "job-executor-proxy"
	// RedirectContainer redirects connections of scripts to the proxy, where the pod may have it.
	RedirectContainer = "job-executor-redirect"
)

// Volumes of the pod.
const (
	// VolumeJob is mounted at socket.Root in the operator's containers and in the main one.
	VolumeJob = "signadot-job"
	// VolumeStore is mounted at Store, in the proxy alone: output, results and artifacts.
	VolumeStore = "signadot-job-store"
	// VolumeToken is mounted at TokenDir, in the proxy alone.
	VolumeToken = "signadot-job-token" //nolint:gosec // A name.
)

// Paths in the proxy.
const (
	// Socket is that of the executor.
	Socket = socket.Path
	// Store is where the proxy keeps output, results and artifacts.
	Store = "/signadot/store"
	// TokenDir is the folder of the token of the pod, and TokenPath its file.
	TokenDir  = "/var/run/secrets/job-runner" //nolint:gosec // A path.
	TokenFile = "token"
	TokenPath = TokenDir + "/" + TokenFile
)

// Audience is the audience of the token of a runner's pod.
const Audience = "job-runner.signadot.com"

// PortName and Port are those of the proxy.
const (
	PortName = "job-exec"
	Port     = 7443
)

// RoutingPort is where the proxy of the requests of scripts is, on 127.0.0.1.
const RoutingPort = 7441

// RedirectPort is where redirected connections of scripts arrive, on the loopback addresses. Those of the user ProxyUser
// are not redirected, which the proxy runs as in such a pod. Redirected is a folder that exists in one.
const (
	RedirectPort = 7442
	ProxyUser    = 7441
	Redirected   = Store + "/redirected"
)

// ReadyPath is where the proxy answers the kubelet whether it is ready, over HTTP, on HealthPort.
const (
	ReadyPath  = "/readyz"
	HealthPort = 7440
)

// Variables in the environment of the proxy.
const (
	// EnvAuthority is the address of the service Runners of the manager, as host:port, and EnvCA the
	// certificates that verify it, in PEM.
	EnvAuthority = "JOB_RUNNERS_ADDRESS"
	EnvCA        = "JOB_RUNNERS_CA"
	// EnvPodUID is the UID of the pod.
	EnvPodUID = "POD_UID"
	// EnvService is the address of a Service of the cluster. The kubelet sets it in all pods.
	EnvService = "KUBERNETES_SERVICE_HOST"
	// EnvOthers are the names of the template's other containers, in a pod that redirects their connections too.
	EnvOthers = "JOB_OTHER_CONTAINERS"
	// EnvArtifactBytes is how many bytes of artifacts the store keeps.
	EnvArtifactBytes = "JOB_ARTIFACT_BYTES"
)

// StreamBytes is how many bytes of the output of an execution are kept at most: the head and the tail of both
// streams, 64 MiB each.
const StreamBytes = 4 * 64 << 20

// ExecutorLost is the reason of an ending that is not known: the main container was restarted while the execution
// ran, or reports no ending.
const ExecutorLost = "ExecutorLost"

// KeptExecutions is the maximum number of executions of which a pod keeps the output until it is released.
const KeptExecutions = 4
