package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/resource"
)

func TestMain(m *testing.M) {
	if demo.Inside() {
		os.Exit(m.Run())
	}
	code, err := demo.RunInsideOf(context.Background(), "../..", func(ctx context.Context, c demo.Config) error {
		if err := prepareWorkstation(ctx, c); err != nil {
			return err
		}
		return resource.PrepareBeside(ctx, c, "debian")
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(code)
}
