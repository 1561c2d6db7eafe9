package devmesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect"
	"switchyard.dev/sidecars/redirect/spec"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/program"
)

// workloadPort is where the baselines listen.
const workloadPort = 8080

// pod is one of a baseline: an application, and a sidecar that its connections
// are redirected to.
type pod struct {
	net      *podnet.Pod
	workload table.Workload
	name     string
	dir      string // the sidecar's volume: it outlives the sidecar
	token    string
	logs     string
	app      *http.Server

	mu      sync.Mutex
	sidecar *program.Program
	// down says when the sidecar was killed, and when it was ready again: zero
	// until it is.
	down []outage
}

type outage struct{ from, to time.Time }

// startPod makes a pod and starts its application and its sidecar.
func startPod(ctx context.Context, c *cluster, w table.Workload, number byte, logs string) (*pod, error) {
	p := &pod{workload: w, name: fmt.Sprintf("%s-%d", w.Name, number), logs: logs}
	var err error
	if p.net, err = podnet.NewPod(number); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("/tmp", "mesh"); err != nil { // short: a socket's path has 108 bytes at most
		return nil, err
	}
	if p.token, err = c.pod(ctx, w, p.name, p.net.IP.String()); err != nil {
		return nil, err
	}
	if err := p.net.Do(func() error {
		_, err := redirect.Apply(spec.Spec{Ports: []uint16{workloadPort}, Except: []uint16{devmesh.ReadinessPort}, To: devmesh.ListenerPort}, redirect.Config{})
		return err
	}); err != nil {
		return nil, err
	}
	listener, err := p.net.Listen(workloadPort)
	if err != nil {
		return nil, err
	}
	p.app = application(listener, baselineOf(w))
	return p, p.startSidecar()
}

// startSidecar starts the sidecar's program in the pod.
func (p *pod) startSidecar() error {
	cmd := exec.CommandContext(context.Background(), built("devmesh"))
	cmd.Env = append(os.Environ(),
		devmesh.EnvWorkloadKind+"="+p.workload.Kind, devmesh.EnvWorkloadNamespace+"="+p.workload.Namespace, devmesh.EnvWorkloadName+"="+p.workload.Name,
		devmesh.EnvXDSAddress+"="+net.JoinHostPort(p.net.Host.String(), xdsPort),
		devmesh.EnvLogLevel+"=warn",
		devmesh.EnvPodNamespace+"="+p.workload.Namespace, devmesh.EnvPodName+"="+p.name, devmesh.EnvPodIP+"="+p.net.IP.String(),
		devmesh.EnvRunPath+"="+p.dir, devmesh.EnvTokenFile+"="+p.token,
	)
	sidecar, err := program.Start(p.logs, p.name, cmd, p.net.Do)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sidecar = sidecar
	return err
}

// customHeader holds a whole routing key, for those that baggage cannot hold.
const customHeader = "x-team-key"

// adminSocket is Envoy's.
func (p *pod) adminSocket() string { return devmesh.Config{RunPath: p.dir}.AdminSocket() }

// address is where the pod's clients connect to.
func (p *pod) address() string { return net.JoinHostPort(p.net.IP.String(), fmt.Sprint(workloadPort)) }

var prober = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// ready asks as a kubelet does.
func (p *pod) ready(ctx context.Context) error {
	url := fmt.Sprintf("http://%s%s", net.JoinHostPort(p.net.IP.String(), fmt.Sprint(devmesh.ReadinessPort)), devmesh.ReadinessPath)
	return healthy(ctx, url)
}

// healthy tells whether an address answers 200.
func healthy(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := prober.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// awaitReady waits until the sidecar takes connections.
func (p *pod) awaitReady(ctx context.Context) error {
	return until(ctx, "the sidecar of "+p.name+" is ready", func() error { return p.ready(ctx) })
}

// killed says that the sidecar is killed now, and back that it is ready again.
func (p *pod) killed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = append(p.down, outage{from: time.Now()})
}

func (p *pod) back() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down[len(p.down)-1].to = time.Now()
}

// wasDown tells whether the sidecar had been killed and was not ready again, at
// any moment between two.
func (p *pod) wasDown(from, to time.Time) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.down, func(o outage) bool {
		return o.from.Before(to) && (o.to.IsZero() || o.to.After(from))
	})
}

// close takes the pod away.
func (p *pod) close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	sidecar := p.sidecar
	p.mu.Unlock()
	sidecar.Kill()
	var wrong []error
	if p.app != nil {
		wrong = append(wrong, p.app.Close())
	}
	return errors.Join(append(wrong, p.net.Close(), os.RemoveAll(p.dir))...)
}

// envoys gives the process IDs of the sidecar's Envoys.
func (p *pod) envoys() (pids []string, err error) {
	p.mu.Lock()
	keeper := p.sidecar.PID()
	p.mu.Unlock()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", keeper))
	if err != nil {
		return nil, err
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			return nil, err
		}
		pids = append(pids, strings.Fields(string(text))...)
	}
	return pids, nil
}

// Who answers.
func baselineOf(w table.Workload) string { return "baseline " + w.Name }
func forkNumber(i int) string            { return fmt.Sprintf("fork %d", i) }

// application answers with its name and what it was sent, over HTTP/1.1 and
// HTTP/2.
func application(listener net.Listener, name string) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second, Protocols: protocols,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for header := range r.Header {
				if strings.HasPrefix(header, "X-Sd-") { // what is used inside the proxy
					http.Error(w, "the application was sent "+header, http.StatusInternalServerError)
					return
				}
			}
			nonce, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
			if err != nil {
				return // the client is gone
			}
			_, _ = fmt.Fprintf(w, "%s\n%s", name, nonce)
		}),
	}
	go func() { _ = server.Serve(listener) }() // until Close
	return server
}
