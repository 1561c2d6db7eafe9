package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"switchyard.dev/tools/demo"
)

func TestMain(m *testing.M) {
	if demo.Inside() {
		os.Exit(m.Run())
	}
	code, err := demo.RunInside(context.Background(), "../..")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(code)
}
