package smarttests

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// captures finds the argument of a call in a script, before a comment, which no # in a string begins: a test without it has no
// capture. A test with the word and without a captured call has an empty one.
var captures = regexp.MustCompile(`(?m)^([^#\n]*|([^#\n"']|"([^"\\\n]|\\.)*"|'([^'\\\n]|\\.)*')*["']?)\bcapture\b`)

// recording is the form of the name of a capture that is held for an execution. No other capture has it: names of sandboxes are
// shorter.
var recording = regexp.MustCompile(`^` + prefix + `([a-z0-9]{13})-` + string(Target) + `-.`)

// Recording returns the name of the capture of a sandbox that is held for an execution.
func Recording(id, sandbox string) string { return JobName(id, Target) + "-" + sandbox }

// ExecutionOf returns the execution that a capture is held for; empty: none.
func ExecutionOf(capture string) string {
	if of := recording.FindStringSubmatch(capture); of != nil {
		return of[1]
	}
	return ""
}

// Traces returns the beginning of the IDs of the traces of captured calls of an execution on its sandbox: 16 digits.
func Traces(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

// TracesOf returns that of the execution that a capture is held for; empty: it is held for none.
func TracesOf(capture string) string {
	if id := ExecutionOf(capture); id != "" {
		return Traces(id)
	}
	return ""
}

// Records reports whether requests of an execution are recorded in its sandboxes.
func Records(x model.TestExecution) bool {
	return x.RoutingKey != "" && captures.MatchString(x.Script)
}

// HasMembers reports whether a sandbox has members with requests to record.
func HasMembers(s model.Sandbox) bool {
	var of v2.SandboxSpec
	return json.Unmarshal(s.Spec, &of) == nil && len(of.Forks)+len(of.Local)+len(of.Virtual) > 0
}
