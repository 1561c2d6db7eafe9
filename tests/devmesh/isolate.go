package devmesh

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tools/envoy"
)

// What this program is when it was started by itself.
const (
	roleVariable  = "SWITCHYARD_ENDURE_ROLE"
	rolePublisher = "publisher"
	roleInCluster = "in-cluster"
)

// programsVariable names the folder with the programs that were built.
const programsVariable = "SWITCHYARD_ENDURE_PROGRAMS"

// Isolate builds the programs under test and runs this program again in a network
// namespace of its own, where Isolate returns. Call it first in main or
// TestMain. In a process that plays a part of the control plane it does not
// return either. It needs root, the source around the working directory, and go.
func Isolate() error {
	switch os.Getenv(roleVariable) {
	case rolePublisher:
		os.Exit(exitCode(servePublisher(os.Stdin, os.Stdout)))
	case roleInCluster:
		os.Exit(exitCode(enterCluster(os.Args[1:])))
	}
	if podnet.Inside() {
		ctrl.SetLogger(logr.Discard()) // what starts an API server writes to it
		return podnet.Isolate()
	}
	dir, err := os.MkdirTemp("", "endure-programs-")
	if err != nil {
		return err
	}
	code, err := rerun(dir)
	if removed := os.RemoveAll(dir); err == nil {
		err = removed
	}
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func rerun(dir string) (int, error) {
	for _, program := range []string{"eventbus/cmd/eventbus", "routeserver/cmd/routeserver", "sidecars/cmd/devmesh"} {
		//nolint:gosec // the names are ours
		build := exec.CommandContext(context.Background(), "go", "build", "-o", filepath.Join(dir, filepath.Base(program)), "switchyard.dev/"+program)
		if out, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build %s: %w: %s", program, err, out)
		}
	}
	binary, err := envoy.Find(context.Background())
	if err != nil {
		return 0, err
	}
	return podnet.Rerun(programsVariable+"="+dir, "ENVOY="+binary)
}

// built gives the path of a program that was built.
func built(name string) string { return filepath.Join(os.Getenv(programsVariable), name) }
