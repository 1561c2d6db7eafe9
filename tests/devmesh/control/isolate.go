package control

import (
	"fmt"
	"os"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/sidecar"
)

// The roles of this program when it was started by itself.
const (
	rolePublisher = "publisher"
	roleVariable  = "SWITCHYARD_ENDURE_ROLE"
	roleInCluster = "in-cluster"
)

// Isolate builds the programs of the control plane, and others, and runs this program again in a
// separate network namespace, where Isolate returns. Call it first in main or TestMain. In a
// process with a role of the control plane it does not return either. It needs root, the source
// around the working directory, and go.
func Isolate(programs ...string) error {
	enter()
	return sidecar.Isolate(append(programs, busProgram, routesProgram)...)
}

// IsolateServer is Isolate for StartServer: it builds the given programs only.
func IsolateServer(programs ...string) error {
	enter()
	return sidecar.IsolatePrograms(programs...)
}

// enter does not return in a process with a role of the control plane.
func enter() {
	if process.Role() == rolePublisher {
		os.Exit(exitCode(process.Answer(&Publisher{})))
	}
	if os.Getenv(roleVariable) == roleInCluster {
		os.Exit(exitCode(enterCluster(os.Args[1:])))
	}
	if podnet.Inside() {
		ctrl.SetLogger(logr.Discard()) // what starts an API server writes to it
	}
}

// The programs of the control plane.
const (
	busProgram    = "eventbus/cmd/eventbus"
	routesProgram = "routeserver/cmd/routeserver"
)

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
