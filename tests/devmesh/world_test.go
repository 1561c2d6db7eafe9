package devmesh

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if err := Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, "devmesh:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
