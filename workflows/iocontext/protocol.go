package iocontext

// Audience is the audience of the token of a unit's pod.
const Audience = "io-context.signadot.com"

// Assignment is what a unit's pod is given before its script runs: GET
// /v1/units/{lifecycle methods}/{unit}/assignment.
type Assignment struct {
	// Script is what the main container runs; empty: what its image does.
	Script string `json:"script,omitempty"`
	// Inputs are those that the unit has.
	Inputs []Input `json:"inputs,omitempty"`
	// Outputs are those that it is to give.
	Outputs []Output `json:"outputs,omitempty"`
}

// Input is one input with its value.
type Input struct {
	Name string `json:"name"`
	// From is the key of the output that it is (OutputKey); empty: it is a constant.
	From string `json:"from,omitempty"`
	// Env is the variable that has it; empty: none.
	Env string `json:"env,omitempty"`
	// Path is the file that has it; empty: none.
	Path string `json:"path,omitempty"`
	// Value is any bytes.
	Value []byte `json:"value"`
}

// Output is one output with the file that holds it in the end.
type Output struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// Ending is how a container of a unit's pod ended: its termination message, as JSON.
type Ending struct {
	// Reason is one word for programs, empty when all went well.
	Reason string `json:"reason,omitempty"`
	// ExitCode is that of the script.
	ExitCode int `json:"exitCode"`
	// Message has the problem and the remedy.
	Message string `json:"message,omitempty"`
	// Tail has the script's last lines, without any value of an input or an output.
	Tail string `json:"tail,omitempty"`
}

// Where things are in the volume that the containers of a unit's pod share.
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

// What the managers of inputs and outputs find in their environment.
const (
	EnvAddress   = "IO_CONTEXT_ADDRESS"
	EnvCA        = "IO_CONTEXT_CA"
	EnvLifecycle = "IO_CONTEXT_LIFECYCLE"
	EnvUnit      = "IO_CONTEXT_UNIT"
)

// MaxValue is how many bytes a value may have.
const MaxValue = 1 << 20

// OutputKey returns the key under which an output of a unit is kept.
func OutputKey(unit, output string) string { return unit + "." + output }
