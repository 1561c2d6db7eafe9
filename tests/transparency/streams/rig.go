package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect"
	"switchyard.dev/sidecars/redirect/spec"
	"switchyard.dev/tests/podnet"
)

const appPort = 8080

// rig is the machine with its pods.
type rig struct {
	dir    string
	places []*place
	parts  []*part
}

// place is a pod with what stands before its application.
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

// part is a process that ends with this one.
type part struct {
	cmd *exec.Cmd
	in  io.Closer
}

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

// furnish gives a place its pod, its line and its application.
func (r *rig) furnish(p *place, number byte, rtt time.Duration) (err error) {
	if p.pod, err = podnet.NewPod(number); err != nil {
		return err
	}
	if p.line, err = p.pod.NewLine(number); err != nil {
		return err
	}
	if err := r.start(beLine, []string{delayName + "=" + (rtt / 2).String()}, p.line.Near, p.line.Far); err != nil {
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
	return r.start(beApp, nil, file)
}

// start starts this program again as a part.
func (r *rig) start(be string, env []string, files ...*os.File) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), self, os.Args[1:]...)
	cmd.Env, cmd.ExtraFiles = append(append(os.Environ(), env...), beName+"="+be), files
	return r.run(nil, cmd)
}

// run starts a process, in a pod unless that is nil.
func (r *rig) run(pod *podnet.Pod, cmd *exec.Cmd) error {
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	begin := cmd.Start
	if pod != nil {
		begin = func() error { return pod.Do(cmd.Start) }
	}
	if err := begin(); err != nil {
		return fmt.Errorf("start %q: %w", cmd.Args, err)
	}
	r.parts = append(r.parts, &part{cmd, in})
	return nil
}

func (r *rig) startStock(p *place) error {
	file, err := stock(r.dir)
	if err != nil {
		return err
	}
	if err := p.redirect(); err != nil {
		return err
	}
	return r.run(p.pod, exec.CommandContext(context.Background(), os.Getenv("ENVOY"), "-c", file, "--concurrency", strconv.Itoa(workers),
		"--log-level", "error", "--disable-hot-restart"))
}

// workers is what the keeper gives its Envoy.
const workers = 2

// startOurs starts the program that the sidecar's image runs. There is no route
// server: it has no routes but that to the baseline.
func (r *rig) startOurs(p *place) error {
	token := filepath.Join(r.dir, "token")
	if err := os.WriteFile(token, []byte("none\n"), 0o600); err != nil {
		return err
	}
	if err := p.redirect(); err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), os.Getenv(programPath))
	cmd.Env = append(os.Environ(),
		devmesh.EnvWorkloadKind+"=Deployment", devmesh.EnvWorkloadNamespace+"=shop", devmesh.EnvWorkloadName+"=customer",
		devmesh.EnvXDSAddress+"="+p.pod.Host.String()+":1", devmesh.EnvTokenFile+"="+token,
		devmesh.EnvRunPath+"="+r.dir, devmesh.EnvPodIP+"="+p.pod.IP.String(), devmesh.EnvLogLevel+"=error",
	)
	return r.run(p.pod, cmd)
}

// redirect applies the rules that a pod's init container applies.
func (p *place) redirect() error {
	return p.pod.Do(func() error {
		_, err := redirect.Apply(spec.Spec{
			All: true, Except: []uint16{devmesh.ReadinessPort}, To: devmesh.ListenerPort,
		}, redirect.Config{})
		return err
	})
}

// url leads to the application, over the cable or the line.
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
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, far := range []bool{false, true} {
		for {
			_, err := p.rate(ctx, transfer{far: far, atOnce: 1, bytes: 1})
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("it does not answer at %s: %w", p.url(far), err)
			case <-time.After(50 * time.Millisecond):
			}
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
		_ = p.in.Close()
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		_ = p.cmd.Wait()
	}
	r.parts = r.parts[:first]
}
