package jobs

import (
	"testing"

	v2 "switchyard.dev/protos/controlplane/v2"
)

// TestAnExitCodeIsStatedOnce: a message that has the exit code is not preceded by it.
func TestAnExitCodeIsStatedOnce(t *testing.T) {
	for said, want := range map[string]string{
		"the script ended with exit code 3":          "the script ended with exit code 3",
		"the script was ended by signal 9 (killed)":  "exit code 3: the script was ended by signal 9 (killed)",
		"the script ended with exit code 3; 2 of 5 ": "the script ended with exit code 3; 2 of 5 ",
	} {
		job := v2.Job{Status: v2.JobsStatus{Attempts: []v2.JobsAttempt{{State: v2.JobsState{Failed: &v2.JobsFailedState{ExitCode: new(3), Message: &said}}}}}}
		if got := message(job); got != want {
			t.Errorf("%q: %q, not %q", said, got, want)
		}
	}
}
