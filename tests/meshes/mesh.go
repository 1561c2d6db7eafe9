package meshes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
)

// Where istiod listens: debug answers from loopback alone, xDS without TLS.
const (
	debugAddress = "127.0.0.1:15080"
	xdsAddress   = "127.0.0.1:15010"
)

// settings are those of the mesh: nothing that needs Istio's own filters or keys. What no
// Service has is not answered, so that a test sees a host that is not known.
const settings = `
defaultConfig: {discoveryAddress: ` + xdsAddress + `}
enableAutoMtls: false
enablePrometheusMerge: false
enableTracing: false
outboundTrafficPolicy: {mode: REGISTRY_ONLY}
rootNamespace: istio-system
`

// Mesh is a running istiod beside the API server of a world.
type Mesh struct {
	*world.World
	dir      string
	programs []int
}

const (
	// idle is how long the programs of a mesh may do nothing while a test waits for them, and anything
	// how much processor time is not nothing: they use less for timers alone.
	idle     = 4 * time.Minute
	anything = 20 * time.Second
)

// Await waits until check finds nothing wrong. It fails the test when the programs of the mesh are idle,
// and not after a time: on a busy machine, with thousands of routes, istiod needs many minutes.
func (m *Mesh) Await(what string, check func() error) {
	m.Helper()
	wait.WhileWorking(m, idle, what, m.worked, check)
}

// worked returns how often the programs of the mesh have used as much processor time as anything.
func (m *Mesh) worked() (times time.Duration) {
	for _, pid := range m.programs {
		times += process.Computed(pid)
	}
	return times / anything
}

// Install installs the definitions of Istio and of the Gateway API in a cluster. It can be called
// while a program already watches for them.
func Install(w *world.World) {
	w.Helper()
	_, err := envtest.InstallCRDs(w.Config, envtest.CRDInstallOptions{
		Paths: filepath.SplitList(os.Getenv(definitionsVariable)), ErrorIfPathMissing: true, MaxTime: world.Patience,
	})
	w.Must(err)
}

// Start starts istiod beside a cluster that has its definitions, until the test ends.
func Start(w *world.World) *Mesh {
	w.Helper()
	m := &Mesh{World: w, dir: w.TempDir()}
	w.Namespaces("istio-system")
	mesh := filepath.Join(m.dir, "mesh.yaml")
	w.Must(os.WriteFile(mesh, []byte(settings), 0o600))
	cmd := exec.Command(os.Getenv(istiodVariable), "discovery", "--kubeconfig", w.Kubeconfig, //nolint:gosec // found by Isolate
		"--meshConfig", mesh, "--networksConfig", os.DevNull, "--httpAddr", debugAddress, "--httpsAddr", "",
		"--grpcAddr", xdsAddress, "--secureGRPCAddr", "", "--monitoringAddr", "127.0.0.1:15014", "--ctrlz_port", "0")
	cmd.Dir = m.dir
	cmd.Env = append(os.Environ(), "POD_NAMESPACE=istio-system", "POD_NAME=istiod-0", "CLUSTER_ID=Kubernetes",
		// Stock Envoy refuses what names these filters.
		"PILOT_ENABLE_ALPN_FILTER=false", "PILOT_ENABLE_METADATA_EXCHANGE=false",
		// Nothing is injected here, and gateways are processes of the test's.
		"INJECTION_WEBHOOK_CONFIG_NAME=", "VALIDATION_WEBHOOK_CONFIG_NAME=", "PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER=false")
	m.run("istiod", cmd, nil)
	m.Await("istiod is ready", func() error { return sidecar.Healthy(w.Context(), "http://"+debugAddress+"/ready") })
	return m
}

// run runs a program until the test ends, and prints the end of its output if the test failed. within is as in program.Start.
func (m *Mesh) run(name string, cmd *exec.Cmd, within func(func() error) error) {
	m.Helper()
	p, err := program.Start(m.dir, name, cmd, within)
	m.Must(err)
	m.programs = append(m.programs, p.PID())
	m.Cleanup(func() {
		p.Kill()
		if said, err := os.ReadFile(filepath.Join(m.dir, name+".log")); m.Failed() && err == nil {
			m.Logf("end of the log of %s:\n%s", name, said[max(0, len(said)-4000):])
		}
	})
}

// Synced waits until istiod has sent each proxy the newest routes and each has taken them.
// It is of no use directly after a write, which istiod may not have seen yet.
func (m *Mesh) Synced() {
	m.Helper()
	m.Await("every proxy has taken the newest routes", func() error { return m.synced(m.Context()) })
}

// synced returns an error while istiod reports a proxy as not synced: a route was sent, and
// rejected or not acknowledged yet.
func (m *Mesh) synced(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+debugAddress+"/debug/syncz", http.NoBody)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(answer.Body); err != nil {
		return err
	}
	var proxies []struct {
		Proxy string `json:"proxy"`
		Sent  string `json:"route_sent"`
		Acked string `json:"route_acked"`
	}
	if err := json.Unmarshal(body.Bytes(), &proxies); err != nil {
		return fmt.Errorf("read istiod's status of its proxies: %w: %s", err, body.Bytes())
	}
	for _, p := range proxies {
		if p.Sent != p.Acked {
			return fmt.Errorf("proxy %s was sent %q and has taken %q", p.Proxy, p.Sent, p.Acked)
		}
	}
	return nil
}
