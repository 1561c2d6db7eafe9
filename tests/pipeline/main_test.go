package pipeline

import (
	"fmt"
	"os"
	"testing"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/process"
)

func TestMain(m *testing.M) {
	if process.Role() == roleSidecar {
		if err := keepSidecar(); err != nil {
			fmt.Fprintln(os.Stderr, "sidecar:", err)
			os.Exit(1)
		}
		return
	}
	if process.Role() == roleTraffic {
		if err := keepTraffic(); err != nil {
			fmt.Fprintln(os.Stderr, "traffic:", err)
			os.Exit(1)
		}
		return
	}
	if err := podnet.Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, "pipeline:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
