package keeper_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/wait"
	"switchyard.dev/xds/routingkey/keytest"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/xdstest"
)

// The test process runs in a network namespace of its own, as the node; each rig
// has another one, as the pod, joined to it by a cable.
const patience = time.Minute

var customer = table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"}

func TestMain(m *testing.M) {
	if err := sidecar.Isolate(sidecar.Program); err != nil {
		fmt.Fprintln(os.Stderr, "the tests of the sidecar:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// rig is a pod with a baseline application and a sidecar, and a node with an
// xDS server and forks.
type rig struct {
	t       *testing.T
	pod     *podnet.Pod
	address string   // of the pod
	ipv6    string   // of the pod
	node    string   // address of the node
	run     string   // the sidecar's folder
	under   []string // runs the sidecar, where something is to
	Board   *xdstest.Board
	XDS     *serve.Server
	stopXDS func()
}

var rigs atomic.Int32

// newRig makes a pod in which the applications that rig.app starts can listen.
// There is no xDS server and no sidecar yet.
func newRig(t *testing.T) *rig {
	t.Helper()
	run, err := os.MkdirTemp("", "dm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	pod, err := podnet.NewPod(byte(rigs.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pod.Close() })
	r := &rig{
		t: t, run: run, Board: xdstest.NewBoard(t), pod: pod,
		address: pod.IP.String(), node: pod.Host.String(), ipv6: pod.IP6.String(),
	}
	r.Board.KeyHeaders(keytest.CustomHeaders()...)
	r.must(os.WriteFile(filepath.Join(run, "token"), []byte("pod@customer\n"), 0o600))
	r.must(sidecar.Redirect(pod))
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// app listens on a port in the pod, as the baseline's application.
func (r *rig) app(port int) net.Listener {
	r.t.Helper()
	l, err := r.pod.Listen(port)
	r.must(err)
	r.t.Cleanup(func() { _ = l.Close() })
	return l
}

// fork listens at an address of the node's own, as a sandbox's Service.
func (r *rig) fork(address string) net.Listener {
	r.t.Helper()
	host, _, err := net.SplitHostPort(address)
	r.must(err)
	r.must(podnet.ServeAddress(net.ParseIP(host)))
	l, err := net.Listen("tcp4", address)
	r.must(err)
	r.t.Cleanup(func() { _ = l.Close() })
	return l
}

const xdsPort = "7779"

// serveXDS starts an xDS server on the board; it may be stopped and another one
// started.
func (r *rig) serveXDS() {
	r.t.Helper()
	r.serveView(r.Board.View)
}

// serveView starts an xDS server on any view.
func (r *rig) serveView(view serve.View) {
	r.t.Helper()
	var err error
	r.XDS, r.stopXDS, err = sidecar.ServeView(view, identify, net.JoinHostPort(r.node, xdsPort))
	r.must(err)
	r.t.Cleanup(r.stopXDS)
}

// identify reads tokens of the form pod@workload.
func identify(_ context.Context, token string) (serve.Peer, error) {
	pod, workload, ok := strings.Cut(token, "@")
	if !ok {
		return serve.Peer{}, status.Error(codes.Unauthenticated, "unknown token")
	}
	return serve.Peer{
		Workload:  table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: workload},
		Namespace: "hotrod", Pod: pod, UID: "uid-" + pod,
	}, nil
}

// asPod is what the injector makes of the pod.
func (r *rig) asPod() sidecar.Pod {
	return sidecar.Pod{Net: r.pod, Workload: customer, Name: "pod", XDS: xdsPort, Dir: r.run, Token: filepath.Join(r.run, "token"), LogLevel: "info"}
}

// sidecar starts the program in the pod and returns the process. It is killed at
// the end of the test.
func (r *rig) sidecar() *exec.Cmd {
	r.t.Helper()
	words := append(slices.Clone(r.under), sidecar.Built(sidecar.Program))
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), r.asPod().Environment()...)
	log, err := os.OpenFile(r.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	r.must(err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.must(r.pod.Do(cmd.Start))
	r.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if content, err := os.ReadFile(r.logFile()); r.t.Failed() && err == nil {
			r.t.Logf("the sidecar's log:\n%s", content)
		}
	})
	return cmd
}

// logFile takes what the sidecars of the rig log.
func (r *rig) logFile() string { return filepath.Join(r.run, "log") }

// logged waits until a message has been logged so many times, and fails if it
// was more often.
func (r *rig) logged(message string, times int) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%q is logged %d times", message, times), func() error {
		content, err := os.ReadFile(r.logFile())
		r.must(err)
		if n := strings.Count(string(content), message); n != times {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
}

// ready waits until the sidecar reports that it accepts connections.
func (r *rig) ready() {
	r.t.Helper()
	r.eventually("the sidecar is ready", func() error { return r.asPod().Ready(r.t.Context()) })
}

// acked waits until the server knows that the sidecar has what there is.
func (r *rig) acked() {
	r.t.Helper()
	r.eventually("the sidecar has acknowledged", func() error {
		newest, _ := r.Board.View.Current()
		want, err := newestVersion(newest)
		if err != nil {
			return err
		}
		acks := r.XDS.Acks()
		if len(acks) != 1 || acks[0].Acked != want {
			return fmt.Errorf("%+v, want %s", acks, want)
		}
		return nil
	})
}

// eventually waits until f gives nil.
func (r *rig) eventually(what string, f func() error) {
	r.t.Helper()
	wait.Eventually(r.t, patience, what, f)
}
