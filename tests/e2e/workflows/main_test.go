package workflows

import (
	"context"
	"fmt"
	"os"
	"testing"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/resource"
	"switchyard.dev/tools/samples"
)

func TestMain(m *testing.M) {
	if demo.Inside() {
		os.Exit(m.Run())
	}
	code, err := demo.RunInsideOf(context.Background(), "../../..", func(ctx context.Context, c demo.Config) error {
		return resource.Prepare(ctx, c, samples.Names()...)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "workflows:", err)
		os.Exit(1)
	}
	os.Exit(code)
}
