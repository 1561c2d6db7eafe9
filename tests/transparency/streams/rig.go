package streams

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/wait"
)

const appPort = 8080

// rig is the machine with its pods.
type rig struct {
	dir    string
	places []*place
	parts  []*program.Program
}

// place is a pod with the program in front of its application.
type place struct {
	name string
	pod  *podnet.Pod
	line *podnet.Line
}

// The places, by their order.
const (
	bare = iota
	stockEnvoy
	ours
)

func (r *rig) build(ctx context.Context, s Settings) error {
	for i, name := range []string{bare: "bare", stockEnvoy: "stock", ours: "ours"} {
		p := &place{name: name}
		r.places = append(r.places, p)
		if err := r.furnish(p, byte(i+1), s.RTT); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := errors.Join(r.startStock(r.places[stockEnvoy]), r.startOurs(r.places[ours])); err != nil {
		return err
	}
	for _, p := range r.places {
		if err := p.await(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// furnish makes for a place its pod, its line and its application.
func (r *rig) furnish(p *place, number byte, rtt time.Duration) (err error) {
	if p.pod, err = podnet.NewPod(number); err != nil {
		return err
	}
	if p.line, err = p.pod.NewLine(number); err != nil {
		return err
	}
	if err := r.start(roleLine, []string{delayName + "=" + (rtt / 2).String()}, p.line.Near, p.line.Far); err != nil {
		return err
	}
	l, err := p.pod.Listen(appPort)
	if err != nil {
		return err
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer file.Close()
	return r.start(roleApp, nil, file)
}

// start starts this program again as a part.
func (r *rig) start(role string, env []string, files ...*os.File) error {
	cmd, err := process.Command(role, env...)
	if err != nil {
		return err
	}
	cmd.ExtraFiles = files
	return r.run(role, cmd, nil)
}

// run starts a part; within is where (see program.Start).
func (r *rig) run(name string, cmd *exec.Cmd, within func(func() error) error) error {
	p, err := program.Start("", name, cmd, within)
	if err == nil {
		r.parts = append(r.parts, p)
	}
	return err
}

func (r *rig) startStock(p *place) error {
	file, err := stock(r.dir)
	if err != nil {
		return err
	}
	if err := sidecar.Redirect(p.pod); err != nil {
		return err
	}
	return r.run("Envoy", sidecar.Envoy(file, "--concurrency", strconv.Itoa(workers), "--log-level", "error"), p.pod.Do)
}

// workers is the number of Envoy's workers that the keeper sets.
const workers = 2

// startOurs starts the program that the sidecar's image runs. There is no route
// server: it has no routes but that to the baseline.
func (r *rig) startOurs(p *place) error {
	run, token := filepath.Join(r.dir, "sidecar"), filepath.Join(r.dir, "token")
	if err := errors.Join(os.Mkdir(run, 0o700), os.WriteFile(token, []byte("none\n"), 0o600)); err != nil {
		return err
	}
	if err := sidecar.Redirect(p.pod); err != nil {
		return err
	}
	customer := table.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}
	as := sidecar.Pod{Net: p.pod, Workload: customer, Name: "customer-0", XDS: "1", Dir: run, Token: token, LogLevel: "error"}
	return r.run("sidecar", as.Command(), p.pod.Do)
}

// url returns the URL of the application, over the cable or the line.
func (p *place) url(far bool) string {
	ip := p.pod.IP
	if far {
		ip = p.line.IP
	}
	return fmt.Sprintf("http://%s:%d/", ip, appPort)
}

// patience is how long a place may take to answer.
const patience = 30 * time.Second

// await waits until a place passes a body over each way.
func (p *place) await(ctx context.Context) error {
	for _, far := range []bool{false, true} {
		err := wait.Until(ctx, patience, "it answers at "+p.url(far), func() error {
			_, err := p.rate(ctx, transfer{far: far, atOnce: 1, bytes: 1})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// close takes everything down.
func (r *rig) close() {
	r.end(0)
	for _, p := range r.places {
		if p.line != nil {
			_ = errors.Join(p.line.Near.Close(), p.line.Far.Close())
		}
		if p.pod != nil {
			_ = p.pod.Close()
		}
	}
}

// end ends all parts but the first.
func (r *rig) end(first int) {
	for _, p := range r.parts[first:] {
		p.Kill()
	}
	r.parts = r.parts[:first]
}
