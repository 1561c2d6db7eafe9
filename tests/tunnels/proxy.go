package tunnels

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/tests/devmesh/control"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/program"
)

// backAfter is how long a kubelet takes to start a container again.
const backAfter = time.Second

// container is a program that is started again when it ends.
type container struct {
	name  string
	ended sync.WaitGroup
	quit  context.CancelFunc

	mu      sync.Mutex
	program *program.Program
	// killed is when it was killed, each time; restarts is how often it was started again.
	killed   []time.Time
	restarts int
	trouble  error
}

// keep starts a program, and again until stop is called.
func keep(ctx context.Context, name string, start func() (*program.Program, error)) *container {
	ctx, quit := context.WithCancel(ctx)
	c := &container{name: name, quit: quit}
	started := make(chan struct{})
	c.ended.Go(func() {
		for first := true; ; first = false {
			p, err := start()
			c.mu.Lock()
			if c.program, c.trouble = p, err; !first {
				c.restarts++
			}
			c.mu.Unlock()
			if first {
				close(started)
			}
			if err == nil {
				select {
				case <-p.Ended():
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-time.After(backAfter):
			case <-ctx.Done():
				return
			}
		}
	})
	<-started
	return c
}

// kill ends the program without warning.
func (c *container) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.program == nil || c.program.Running() != nil {
		return // It has ended by itself.
	}
	c.killed = append(c.killed, time.Now())
	c.program.Kill()
}

// history returns when it was killed, and how often it was started again.
func (c *container) history() (killed []time.Time, restarts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.killed), c.restarts
}

// pid is the process of the program.
func (c *container) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.program.PID()
}

// end terminates the program, and waits.
func (c *container) end() error {
	c.quit()
	c.ended.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.program == nil {
		return c.trouble
	}
	return c.program.Terminate(30 * time.Second)
}

// stop ends it for good.
func (c *container) stop() {
	if c == nil {
		return
	}
	c.quit()
	c.ended.Wait()
	c.program.Kill()
}

// proxy is a tunnel proxy in its pod.
type proxy struct {
	name      string
	pod       *podnet.Pod
	audit     string
	container *container
}

// carrier is where workstations connect to.
func (p *proxy) carrier() string { return p.pod.IP.String() + ":7777" }

// startProxies starts so many tunnel proxies.
func (w *world) startProxies(n int) error {
	for i := range n {
		p := &proxy{name: fmt.Sprintf("tunnel-proxy-%d", i)}
		p.audit = filepath.Join(w.dir, p.name+".audit")
		journal := filepath.Join(w.dir, p.name+".journal")
		var err error
		if p.pod, err = w.newPod(byte(11 + i)); err != nil {
			return err
		}
		if err := errors.Join(os.MkdirAll(journal, 0o700), w.proxyPod(p)); err != nil {
			return err
		}
		out, err := os.OpenFile(p.audit, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		p.container = keep(w.ctx, p.name, func() (*program.Program, error) {
			return w.control.Run(control.Part{Program: proxyProgram, Account: "tunnel-proxy", Name: p.name, Within: p.pod.Do, Out: out,
				Env: []string{"POD_NAME=" + p.name}, Args: []string{"--tls-dir", w.tls, "--journal-dir", journal, "--log-level=info"}})
		})
		w.proxies = append(w.proxies, p)
		if err := w.probed(p.pod, p.name); err != nil {
			return err
		}
	}
	return nil
}

// proxyPod creates the pod of a proxy with its status, as a kubelet would.
func (w *world) proxyPod(p *proxy) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: control.System, Name: p.name, Labels: map[string]string{"app": "tunnel-proxy"}}}
	pod.Spec.ServiceAccountName = "tunnel-proxy"
	pod.Spec.Containers = []corev1.Container{{Name: "tunnel-proxy", Image: "none"}}
	if err := w.admin.Create(w.ctx, pod); err != nil {
		return err
	}
	ip := p.pod.IP.String()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}
	return w.admin.Status().Update(w.ctx, pod)
}
