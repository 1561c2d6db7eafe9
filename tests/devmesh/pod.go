package devmesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
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
	// down are the times when the sidecar was killed, and when it was ready again: zero until it
	// is.
	down []outage
}

type outage struct{ from, to time.Time }

// startPod makes a pod and starts its application and its sidecar.
func startPod(ctx context.Context, c *control.Plane, w table.Workload, number byte, logs string) (*pod, error) {
	p := &pod{workload: w, name: fmt.Sprintf("%s-%d", w.Name, number), logs: logs}
	var err error
	if p.net, err = podnet.NewPod(number); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("/tmp", "mesh"); err != nil { // short: a socket's path has 108 bytes at most
		return nil, err
	}
	if p.token, err = c.Pod(ctx, w, p.name, p.net.IP.String()); err != nil {
		return nil, err
	}
	if err := sidecar.Redirect(p.net, workloadPort); err != nil {
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
	sidecar, err := program.Start(p.logs, p.name, p.asPod().Command(), p.net.Do)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sidecar = sidecar
	return err
}

// customHeader holds a whole routing key, for those that baggage cannot hold.
const customHeader = "x-team-key"

// address is where the pod's clients connect to.
func (p *pod) address() string { return net.JoinHostPort(p.net.IP.String(), fmt.Sprint(workloadPort)) }

// asPod is what the injector makes of the pod.
func (p *pod) asPod() sidecar.Pod {
	return sidecar.Pod{Net: p.net, Workload: p.workload, Name: p.name, XDS: control.XDSPort, Dir: p.dir, Token: p.token, LogLevel: "warn"}
}

// ready asks as a kubelet does.
func (p *pod) ready(ctx context.Context) error { return p.asPod().Ready(ctx) }

// awaitReady waits until the sidecar takes connections.
func (p *pod) awaitReady(ctx context.Context) error {
	return wait.Until(ctx, control.Patience, "the sidecar of "+p.name+" is ready", func() error { return p.ready(ctx) })
}

// killed records that the sidecar is killed now, and back that it is ready again.
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

// wasDown reports whether the sidecar had been killed and was not ready again, at
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

// envoys returns the processes of the sidecar's Envoys.
func (p *pod) envoys() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return process.Children(p.sidecar.PID())
}

// Who answers.
func baselineOf(w table.Workload) string { return "baseline " + w.Name }
func forkNumber(i int) string            { return fmt.Sprintf("fork %d", i) }

// application answers with its name and the body it received, over HTTP/1.1 and HTTP/2.
func application(listener net.Listener, name string) *http.Server {
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second, Protocols: traffic.Protocols(true, true),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for header := range r.Header {
				if strings.HasPrefix(header, "X-Sd-") { // headers that are used inside the proxy
					http.Error(w, "the application was sent "+header, http.StatusInternalServerError)
					return
				}
			}
			nonce, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
			if err != nil {
				return // the client has closed
			}
			_, _ = fmt.Fprintf(w, "%s\n%s", name, nonce)
		}),
	}
	go func() { _ = server.Serve(listener) }() // until Close
	return server
}
