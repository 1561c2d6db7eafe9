package iocontext

// Audience is the audience of the token of a unit's pod.
const Audience = "io-context.signadot.com"

// Assignment is the input of a unit's pod: GET /v1/units/{lifecycle methods}/{unit}/assignment.
type Assignment struct {
	// Script is the script of the main container; empty: the container's command runs.
	Script string `json:"script,omitempty"`
	// Inputs are the unit's inputs.
	Inputs []Input `json:"inputs,omitempty"`
	// Outputs are the outputs that it has to give.
	Outputs []Output `json:"outputs,omitempty"`
}

// Input is one input with its value.
type Input struct {
	Name string `json:"name"`
	// From is the key of the output that it comes from (OutputKey); empty: it is a constant.
	From string `json:"from,omitempty"`
	// Env is its variable; empty: none.
	Env string `json:"env,omitempty"`
	// Path is its file; empty: none.
	Path string `json:"path,omitempty"`
	// Value is the value, any bytes.
	Value []byte `json:"value"`
}

// Output is one output with the file of its value.
type Output struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// Ending is the termination message of a container of a unit's pod, as JSON.
type Ending struct {
	// Reason is machine-readable, and empty on success.
	Reason string `json:"reason,omitempty"`
	// ExitCode is that of the script.
	ExitCode int `json:"exitCode"`
	// Message has the problem and the remedy.
	Message string `json:"message,omitempty"`
	// Tail has the script's last lines, without any value of an input or an output.
	Tail string `json:"tail,omitempty"`
}

// Paths in the volume that the containers of a unit's pod share.
const (
	Root       = "/signadot/io"
	RunPath    = Root + "/run"
	ScriptPath = Root + "/script"
	PlanPath   = Root + "/plan.json"
	ResultPath = Root + "/result.json"
	InputsDir  = Root + "/inputs"
	OutputsDir = Root + "/outputs"
	// TokenPath is the token of the pod, which the script's container does not have.
	TokenPath = "/var/run/secrets/io-context/token" //nolint:gosec // A path.
)

// Variables in the environment of the managers of inputs and outputs.
const (
	EnvAddress   = "IO_CONTEXT_ADDRESS"
	EnvCA        = "IO_CONTEXT_CA"
	EnvLifecycle = "IO_CONTEXT_LIFECYCLE"
	EnvUnit      = "IO_CONTEXT_UNIT"
)

// MaxValue is the maximum size of a value, in bytes.
const MaxValue = 1 << 20

// OutputKey returns the key of an output of a unit.
func OutputKey(unit, output string) string { return unit + "." + output }
