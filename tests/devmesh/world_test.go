package devmesh

import (
	"fmt"
	"os"
	"testing"

	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/sidecar"
)

func TestMain(m *testing.M) {
	if err := control.Isolate(sidecar.Program); err != nil {
		fmt.Fprintln(os.Stderr, "devmesh:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
