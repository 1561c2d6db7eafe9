package controlplane

import (
	"flag"
	"os/exec"
	"testing"
)

var python = flag.String("python", "", "a Python with the published client signadot-sdk; without it TestPublishedClient is skipped")

// TestPublishedClient runs the published client for Python. That for the command line is in no registry of this machine:
//
//	python3 -m venv DIR && DIR/bin/pip install signadot-sdk==0.3.6
//	go test ./tests/conformance/controlplane -run TestPublishedClient -python DIR/bin/python
func TestPublishedClient(t *testing.T) {
	if *python == "" {
		t.Skip("-python is not given")
	}
	w := newWorld(t)
	cmd := exec.CommandContext(t.Context(), *python, "testdata/published.py", w.url, adminKey, org)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the published client: %v\n%s", err, text)
	}
}
