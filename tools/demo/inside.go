package demo

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// insideArg marks the run that is inside the cluster's network. It is an
// argument and not a variable, since a container's exec passes none.
const insideArg = "-inside-the-cluster"

// Inside reports whether this program runs inside the cluster's network, where
// RunInside started it, and takes the mark of that out of its arguments.
func Inside() bool {
	if len(os.Args) < 2 || os.Args[1] != insideArg {
		return false
	}
	os.Args = slices.Delete(os.Args, 1, 2)
	return true
}

// RunInside prepares the cluster, with the requirements of tests, and runs this program again
// inside its network, where Inside returns true. It returns the exit code of that run. The
// environment selects the cluster (SWITCHYARD_CLUSTER); root is the directory of the repository.
func RunInside(ctx context.Context, root string) (int, error) {
	return RunInsideOf(ctx, root, Prepare)
}

// RunInsideOf is RunInside with another preparation.
func RunInsideOf(ctx context.Context, root string, prepare func(context.Context, Config) error) (int, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return 0, err
	}
	cluster, err := NewCluster(os.Getenv("SWITCHYARD_CLUSTER"), root)
	if err != nil {
		return 0, err
	}
	if err := prepare(ctx, Config{Root: root, Cluster: cluster, Tests: true, Step: Steps()}); err != nil {
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
