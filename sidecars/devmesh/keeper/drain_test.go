package keeper_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/net/http2"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/sidecar"
)

// preStop runs the program as the pod's preStop hook does, and fails when it fails.
func (r *rig) preStop() {
	r.t.Helper()
	if out, err := r.drain().CombinedOutput(); err != nil {
		r.t.Fatalf("the preStop hook: %v: %s", err, out)
	}
}

// drain is the command of the preStop hook.
func (r *rig) drain() *exec.Cmd {
	cmd := exec.Command(sidecar.Built(sidecar.Program), devmesh.DrainCommand)
	cmd.Env = append(os.Environ(),
		devmesh.EnvWorkloadKind+"=Deployment", devmesh.EnvWorkloadNamespace+"=hotrod", devmesh.EnvWorkloadName+"=customer",
		devmesh.EnvRunPath+"="+r.run)
	return cmd
}

// frames reads frames until one that the test looks for.
func frames(f *http2.Framer, want func(http2.Frame) bool) error {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		if _, ok := frame.(*http2.SettingsFrame); ok {
			continue
		}
		if want(frame) {
			return nil
		}
	}
}

// goAway reports whether a frame is a GOAWAY that names this last stream.
func goAway(last uint32) func(http2.Frame) bool {
	return func(frame http2.Frame) bool {
		f, ok := frame.(*http2.GoAwayFrame)
		return ok && f.LastStreamID == last && f.ErrCode == http2.ErrCodeNo
	}
}

// quiet is a connection of HTTP/2 that has sent no request.
func (r *rig) quiet() *http2.Framer {
	r.t.Helper()
	c, err := net.Dial("tcp", r.address+":8080")
	r.must(err)
	r.t.Cleanup(func() { _ = c.Close() })
	_, err = io.WriteString(deadline(c), http2.ClientPreface)
	r.must(err)
	f := http2.NewFramer(c, c)
	r.must(f.WriteSettings())
	return f
}

// From the start of the pod's end clients are asked to use other connections, but served
// for as long as the application is there; then their connections end as the
// application's own would.
func TestThePodsEndIsToldToClientsAndCutsNobodyOff(t *testing.T) {
	r := newRig(t)
	app := r.app(8080)
	r.serveHTTP(app, "baseline")
	release := make(chan struct{})
	r.serveSlowly(r.fork("10.96.8.1:80"), release)
	r.Board.Declare(sandbox("k1", "10.96.8.1:80", 8080))
	r.Board.Complete()
	r.serveXDS()
	process := r.sidecar()
	r.ready()
	r.acked()

	idle, quiet := r.talk(t), r.quiet()
	idle.say("none", "GET / HTTP/1.1\r\n{key}\r\n")
	if answer, _ := idle.hear(http.MethodGet); answer.Close {
		t.Error("an answer closed its connection before the pod's end")
	}
	keyed := r.talk(t)
	keyed.say("k1", "GET /slow HTTP/1.1\r\n{key}\r\n")

	r.preStop()
	r.must(frames(quiet, goAway(1<<31-1)))
	r.must(frames(quiet, goAway(0)))
	for i := range 3 {
		got, err := r.get(8080)
		if err != nil || got.Status != http.StatusOK || !got.Close {
			t.Errorf("request %d after the start of the end: %+v, %v; want an answer that closes its connection", i, got, err)
		}
	}
	r.ready() // who has no other pod goes on sending clients here

	r.must(app.Close())
	r.eventually("no connection is taken any more", func() error {
		c, err := net.Dial("tcp", r.address+":8080")
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if err == nil {
			_ = c.Close()
		}
		return fmt.Errorf("dial: %v", err)
	})
	close(release)
	if answer, body := keyed.hear(http.MethodGet); answer.StatusCode != http.StatusOK || body != "fork" {
		t.Errorf("the request that was under way in a fork: %s %s", answer.Status, body)
	}
	idle.ended()
	keyed.ended()
	if err := process.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the sidecar ended before it was told to: %v", err)
	}
	r.must(process.Process.Signal(syscall.SIGTERM))
	if err := process.Wait(); err != nil {
		t.Errorf("the end: %v", err)
	}
}

// A hook that cannot notify the sidecar reports that, in the kubelet's event.
func TestAHookWithoutASidecarFails(t *testing.T) {
	r := newRig(t)
	if out, err := r.drain().CombinedOutput(); err == nil {
		t.Errorf("it succeeded: %s", out)
	}
}

// serveSlowly answers /slow when released.
func (r *rig) serveSlowly(l net.Listener, release <-chan struct{}) {
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/slow" {
			<-release
		}
		_, _ = io.WriteString(w, "fork")
	})}
	go func() { _ = server.Serve(l) }()
	r.t.Cleanup(func() { _ = server.Close() })
}

// An application that ends without notice has closed its connections, and clients that find
// theirs closed retry elsewhere. When it is back, so is the sidecar.
func TestConnectionsEndWithAnApplicationThatIsGoneWithoutNotice(t *testing.T) {
	r := newRig(t)
	app := r.app(8080)
	r.serveHTTP(app, "baseline")
	r.serveHTTP(r.fork("10.96.8.1:80"), "fork")
	r.Board.Declare(sandbox("k1", "10.96.8.1:80", 8080))
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	r.acked()
	idle := r.talk(t)
	idle.say("none", "GET / HTTP/1.1\r\n{key}\r\n")
	idle.hear(http.MethodGet)
	r.must(app.Close())
	idle.ended()
	r.eventually("a fork is reached though its baseline is gone", func() error {
		got, err := r.get(8080, key("k1"))
		if err == nil && got.Side != "fork" {
			err = fmt.Errorf("%d, served by %q", got.Status, got.Side)
		}
		return err
	})
	r.logged("the application has stopped listening: connections are closed", 1)
	r.serveHTTP(r.app(8080), "baseline")
	r.eventually("the application is served again", func() error {
		got, err := r.get(8080)
		if err == nil && got.Side != "baseline" {
			err = fmt.Errorf("%d, served by %q", got.Status, got.Side)
		}
		return err
	})
}

// An application that is slow to start, and is probed before, does not count as ended.
func TestAnApplicationThatDoesNotListenYetIsNotGone(t *testing.T) {
	r := newRig(t)
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	envoy := r.envoys()
	for range 20 {
		_, _ = r.get(8080)
		answer, err := http.Get(fmt.Sprintf("http://%s:%d%s8080", r.address, devmesh.ReadinessPort, devmesh.ProbePath))
		r.must(err)
		_ = answer.Body.Close()
	}
	r.serveHTTP(r.app(8080), "baseline")
	r.expect("baseline", 8080)
	if now := r.envoys(); now != envoy {
		t.Errorf("Envoy was started anew: %s, before %s", now, envoy)
	}
	r.logged("the application has stopped listening", 0)
}
