package e2e

import (
	"testing"

	"switchyard.dev/tools/demo/traffic"
)

// A developer with a kubeconfig alone records the forks of a sandbox and compares them with their baselines: the changed answer is
// red, and what varies by itself is not.
func TestRecordedRequestsAreCompared(t *testing.T) {
	if err := traffic.Story(t.Context()); err != nil {
		t.Fatal(err)
	}
}
