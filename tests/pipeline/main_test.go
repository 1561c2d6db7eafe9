package pipeline

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if err := Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, "pipeline:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
