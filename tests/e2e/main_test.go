package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"switchyard.dev/tools/demo"
)

// insideArg marks the run that is inside the cluster's network. It is an
// argument and not a variable, since a container's exec passes none.
const insideArg = "-inside-the-cluster"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == insideArg {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		os.Exit(m.Run())
	}
	code, err := enter(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// enter prepares the cluster and runs this test binary inside.
func enter(ctx context.Context) (int, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return 0, err
	}
	cluster, err := demo.NewCluster(os.Getenv("SWITCHYARD_CLUSTER"), root)
	if err != nil {
		return 0, err
	}
	if err := demo.Prepare(ctx, demo.Config{Root: root, Cluster: cluster, Step: demo.Steps()}); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd, err := cluster.Inside(ctx, self, append([]string{insideArg}, os.Args[1:]...)...)
	if err != nil {
		return 0, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}
