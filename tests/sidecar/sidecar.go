// Package sidecar runs the sidecar's program in a pod of package podnet, as the injector configures
// it, and stock Envoys beside it.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect"
	"switchyard.dev/sidecars/redirect/spec"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tools/envoy"
	"switchyard.dev/tools/traffic"
)

// Program is the package of the sidecar's program.
const Program = "sidecars/cmd/devmesh"

// programsVariable names the folder with the programs that were built.
const programsVariable = "SWITCHYARD_PROGRAMS"

// Isolate builds programs of this repository and runs this program again in a separate network
// namespace, where Isolate returns. Call it first in main or TestMain. It needs root, the source
// around the working directory, and go.
func Isolate(programs ...string) error { return isolate(envoy.Find, programs) }

// IsolatePrograms is Isolate for tests without an Envoy.
func IsolatePrograms(programs ...string) error {
	return isolate(func(context.Context) (string, error) { return "", nil }, programs)
}

func isolate(find func(context.Context) (string, error), programs []string) error {
	if podnet.Inside() {
		return podnet.Isolate()
	}
	code, err := rerun(find, programs)
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

func rerun(find func(context.Context) (string, error), programs []string) (code int, err error) {
	dir, err := os.MkdirTemp("", "programs-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, p := range programs {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, filepath.Base(p)), "switchyard.dev/"+p) //nolint:gosec // the names are constants
		if out, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build %s: %w: %s", p, err, out)
		}
	}
	binary, err := find(context.Background())
	if err != nil {
		return 0, err
	}
	return podnet.Rerun(programsVariable+"="+dir, "ENVOY="+binary)
}

// Built returns the path of a program that Isolate has built.
func Built(program string) string {
	return filepath.Join(os.Getenv(programsVariable), filepath.Base(program))
}

// Pod is a pod that has a sidecar.
type Pod struct {
	Net      *podnet.Pod
	Workload table.Workload
	Name     string
	// XDS is the port of the route server, on the pod's node.
	XDS string
	// Dir is the sidecar's volume, and Token a file with its token.
	Dir, Token string
	LogLevel   string
}

// Environment returns the environment that the injector sets for the sidecar's container.
func (p Pod) Environment() []string {
	return []string{
		devmesh.EnvWorkloadKind + "=" + p.Workload.Kind, devmesh.EnvWorkloadNamespace + "=" + p.Workload.Namespace,
		devmesh.EnvWorkloadName + "=" + p.Workload.Name,
		devmesh.EnvXDSAddress + "=" + net.JoinHostPort(p.Net.Host.String(), p.XDS),
		devmesh.EnvPodNamespace + "=" + p.Workload.Namespace, devmesh.EnvPodName + "=" + p.Name,
		devmesh.EnvPodIP + "=" + p.Net.IP.String(), devmesh.EnvLogLevel + "=" + p.LogLevel,
		devmesh.EnvRunPath + "=" + p.Dir, devmesh.EnvTokenFile + "=" + p.Token,
	}
}

// Command returns the sidecar's program, to be started in the pod.
func (p Pod) Command() *exec.Cmd {
	cmd := exec.Command(Built(Program)) //nolint:gosec // built by Isolate
	cmd.Env = append(os.Environ(), p.Environment()...)
	return cmd
}

// Ready asks the sidecar whether it is ready, as a kubelet does.
func (p Pod) Ready(ctx context.Context) error {
	return Healthy(ctx, fmt.Sprintf("http://%s:%d%s", p.Net.IP, devmesh.ReadinessPort, devmesh.ReadinessPath))
}

// Redirect applies the rules that a pod's init container applies: for the ports, or for
// all where there are none.
func Redirect(pod *podnet.Pod, ports ...uint16) error {
	return pod.Do(func() error {
		_, err := redirect.Apply(spec.Spec{
			All: len(ports) == 0, Ports: ports, Except: []uint16{devmesh.ReadinessPort}, To: devmesh.ListenerPort,
		}, redirect.Config{})
		return err
	})
}

var prober = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Healthy returns an error unless a URL is answered with 200.
func Healthy(ctx context.Context, url string) error {
	_, err := traffic.Fetch(ctx, prober, url)
	return err
}
