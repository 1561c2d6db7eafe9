// Package layout has what the operator and the container job-executor-proxy of a runner's pod agree on: names,
// paths, variables, the port and the audience of the token. Package socket has what the proxy and the executor
// agree on.
package layout

// Containers of the operator's in a runner's pod.
const (
	// InitContainer installs the executor.
	InitContainer = "job-executor-init"
	// ProxyContainer serves it to others.
	ProxyContainer = "job-executor-proxy"
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
	// Store is where it keeps output, results and artifacts.
	Store = "/signadot/store"
	// TokenDir is the folder of the token of the pod, TokenFile the name of the file and TokenPath its path.
	TokenDir  = "/var/run/secrets/job-runner" //nolint:gosec // A path.
	TokenFile = "token"
	TokenPath = TokenDir + "/" + TokenFile
)

// Audience is the audience of the token.
const Audience = "job-runner.signadot.com"

// PortName and Port are those of the proxy.
const (
	PortName = "job-exec"
	Port     = 7443
)

// ReadyPath and HealthPort are where the kubelet asks the proxy over HTTP whether it is ready.
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
	// EnvNamespace, EnvPod and EnvPodUID are the pod, and EnvPodIP is its address.
	EnvNamespace = "POD_NAMESPACE"
	EnvPod       = "POD_NAME"
	EnvPodUID    = "POD_UID"
	EnvPodIP     = "POD_IP"
	// EnvGroup is the name of the runner group.
	EnvGroup = "JOB_RUNNER_GROUP"
	// EnvMain is the name of the main container.
	EnvMain = "JOB_MAIN_CONTAINER"
	// EnvStoreBytes is how many bytes the proxy can keep in the store, and EnvArtifactBytes how many of them
	// artifacts may take.
	EnvStoreBytes    = "JOB_STORE_BYTES"
	EnvArtifactBytes = "JOB_ARTIFACT_BYTES"
)

const (
	// OutputBytes is what the output of an execution takes at most: 64 MiB of the head and of the tail of two
	// streams, and their books.
	OutputBytes = 4 * 65 << 20
	// KeptExecutions is the number of executions with output that is not released for which there is space.
	KeptExecutions = 4
)
