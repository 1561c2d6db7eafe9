// Package layout has what the containers of a runner's pod agree on: paths, variables, the port and the
// audience of the token. It uses the standard library only, since the executor does.
package layout

// The three containers of the operator's that a runner's pod has, but for the main one, which is the user's.
const (
	// InitContainer installs the executor.
	InitContainer = "job-executor-init"
	// ProxyContainer serves it to others.
	ProxyContainer = "job-executor-proxy"
)

// Volumes of the pod.
const (
	// VolumeJob is mounted at Root in all three containers.
	VolumeJob = "signadot-job"
	// VolumeStore is mounted at Store, in the proxy alone: output, results and artifacts.
	VolumeStore = "signadot-job-store"
	// VolumeToken is mounted at TokenDir, in the proxy alone.
	VolumeToken = "signadot-job-token" //nolint:gosec // A name.
)

// Paths.
const (
	// Root is where the volume that the executor and the proxy share is mounted.
	Root = "/signadot/job"
	// Executor is the executor's program, which the init container puts there.
	Executor = Root + "/bin/job-executor"
	// RunDir is the folder of the socket and of what the executor records, with mode 1777. The init container
	// creates it.
	RunDir = Root + "/run"
	// Socket is where the executor serves the proxy.
	Socket = RunDir + "/executor.sock"
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
	// EnvNamespace, EnvPod and EnvPodUID are the pod, and EnvPodIP is its address.
	EnvNamespace = "POD_NAMESPACE"
	EnvPod       = "POD_NAME"
	EnvPodUID    = "POD_UID"
	EnvPodIP     = "POD_IP"
	// EnvService is the address of a Service of the cluster. The kubelet sets it in all pods.
	EnvService = "KUBERNETES_SERVICE_HOST"
	// EnvGroup is the name of the runner group.
	EnvGroup = "JOB_RUNNER_GROUP"
	// EnvMain is the name of the main container.
	EnvMain = "JOB_MAIN_CONTAINER"
	// EnvArtifactBytes is how many bytes of artifacts the store keeps.
	EnvArtifactBytes = "JOB_ARTIFACT_BYTES"
)

// StreamBytes is how many bytes of the output of an execution are kept at most: the head and the tail of both
// streams, 64 MiB each.
const StreamBytes = 4 * 64 << 20

// KeptExecutions is the maximum number of executions of which a pod keeps the output until it is released.
const KeptExecutions = 4
