package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
	"switchyard.dev/tools/samples"
)

func TestMain(m *testing.M) {
	if demo.Inside() {
		os.Exit(m.Run())
	}
	code, err := demo.RunInsideOf(context.Background(), root, prepare)
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// root is the repository's.
const root = "../.."

// prepare makes a node with the images of both releases.
func prepare(ctx context.Context, c demo.Config) error {
	if os.Getenv("SWITCHYARD_CLUSTER") == "kind" {
		return errors.New("this test runs helm where the cluster's addresses can be reached: leave SWITCHYARD_CLUSTER out")
	}
	c.Step("the older release, commit %.12s (the first time it is compiled: some minutes)", older)
	archives, err := buildOlder(ctx, c.Root)
	if err != nil {
		return err
	}
	c.Step("the image in which steps run (Debian is fetched the first time: about two minutes)")
	steps, err := samples.Pack(ctx, c.Root, "debian")
	if err != nil {
		return err
	}
	archives = append(archives, steps...)
	c.Step("the command line of this release")
	if err := local.Build(ctx, c.Root); err != nil {
		return err
	}
	if err := demo.PrepareNode(ctx, c); err != nil {
		return err
	}
	c.Step("images of the older release, and of steps")
	return c.Cluster.Load(ctx, archives)
}
