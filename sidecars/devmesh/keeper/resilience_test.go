package keeper_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/xds/translate"
)

// table returns the table version in the answers.
func (r *rig) table() string {
	r.t.Helper()
	return r.expect("baseline", 8080, [2]string{"sd-explain", "1"}).Header.Get(translate.TableHeader)
}

func TestAPodThatNeverReachedTheControlPlaneServesItsBaseline(t *testing.T) {
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	r.serveHTTP(r.fork("10.96.4.1:80"), "fork")
	r.sidecar()
	r.ready()
	r.expect("baseline", 8080)
	r.expect("baseline", 8080, key("k1"))
	if got := r.table(); got != translate.NoTable {
		t.Errorf("the table is %q", got)
	}
	// The control plane comes up, and is found.
	r.Board.Declare(sandbox("k1", "10.96.4.1:80", 8080))
	r.Board.Complete()
	r.serveXDS()
	r.acked()
	r.expect("fork", 8080, key("k1"))
}

func TestRoutesOutliveTheServerThatGaveThem(t *testing.T) {
	r := start(t, sandbox("k1", "10.96.4.2:80", 8080))
	r.serveHTTP(r.fork("10.96.4.2:80"), "fork")
	r.logged("the sidecar starts", 1)
	r.logged("routes received", 1)
	r.stopXDS()
	for range 20 {
		r.expect("fork", 8080, key("k1"))
		r.expect("baseline", 8080)
	}
	// Changes in the meantime arrive from the next server.
	r.Board.Declare(sandbox("k2", "10.96.4.2:80", 8080))
	r.serveXDS()
	r.acked()
	r.expect("fork", 8080, key("k2"))
	r.logged("routes received", 2)
	// An ordinary change is not logged.
	r.Board.Declare(sandbox("k3", "10.96.4.2:80", 8080))
	r.acked()
	r.expect("fork", 8080, key("k3"))
	r.logged("routes received", 2)
}

func TestASidecarThatIsKilledComesBackWithItsLastRoutes(t *testing.T) {
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	r.serveHTTP(r.fork("10.96.4.3:80"), "fork")
	r.Board.Declare(sandbox("k1", "10.96.4.3:80", 8080))
	r.Board.Complete()
	r.serveXDS()
	process := r.sidecar()
	r.ready()
	r.acked()
	had := r.table()
	r.kept()
	r.stopXDS() // no control plane from here
	kill(process)
	process = r.sidecar()
	r.ready()
	r.expect("fork", 8080, key("k1"))
	if got := r.table(); got != had {
		t.Errorf("the table was %q and is %q", had, got)
	}

	// A damaged file is as none.
	kill(process)
	file := filepath.Join(r.run, "routes.pb")
	content, err := os.ReadFile(file)
	r.must(err)
	content[len(content)/2] ^= 1
	r.must(os.WriteFile(file, content, 0o600))
	r.sidecar()
	r.ready()
	r.expect("baseline", 8080, key("k1"))
	if got := r.table(); got != translate.NoTable {
		t.Errorf("from a damaged file: table %q", got)
	}
}

// startAlone returns a rig with a sidecar that had the routes that declare makes, and was
// restarted without a route server.
func startAlone(t *testing.T, declare func(r *rig)) *rig {
	t.Helper()
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	declare(r)
	r.Board.Complete()
	r.serveXDS()
	process := r.sidecar()
	r.ready()
	r.acked()
	r.kept()
	r.stopXDS()
	kill(process)
	r.sidecar()
	r.ready()
	return r
}

// kept waits until routes are on disk.
func (r *rig) kept() {
	r.t.Helper()
	r.eventually("the routes are on disk", func() error {
		_, err := os.Stat(filepath.Join(r.run, "routes.pb"))
		return err
	})
}

// kill ends the program and its Envoy as a crash of the container does.
func kill(process *exec.Cmd) {
	_ = syscall.Kill(-process.Process.Pid, syscall.SIGKILL)
	_ = process.Wait()
}

func TestEnvoyIsStartedAgainWhenItDies(t *testing.T) {
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	r.Board.Complete()
	r.serveXDS()
	process := r.sidecar()
	r.ready()
	r.expect("baseline", 8080)
	out, err := exec.Command("pkill", "-9", "-P", fmt.Sprint(process.Process.Pid)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.eventually("it serves again", func() error {
		_, err := r.get(8080)
		return err
	})
}

func TestAnOrderToEndLetsRequestsFinish(t *testing.T) {
	r := newRig(t)
	asked, release := make(chan struct{}), make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/slow" {
			close(asked)
			<-release
		}
		_, _ = io.WriteString(w, "done")
	})}
	l := r.app(8080)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	r.Board.Complete()
	r.serveXDS()
	process := r.sidecar()
	r.ready()
	slow := make(chan error, 1)
	go func() {
		response, err := http.Get("http://" + r.address + ":8080/slow")
		if err == nil {
			_, err = io.ReadAll(response.Body)
			_ = response.Body.Close()
		}
		slow <- err
	}()
	<-asked
	r.must(process.Process.Signal(syscall.SIGTERM))
	r.eventually("it is not ready any more", func() error {
		response, err := http.Get(fmt.Sprintf("http://%s:15021/ready", r.address))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusServiceUnavailable {
			return errors.New(response.Status)
		}
		return nil
	})
	if _, err := r.get(8080); err != nil {
		t.Errorf("a late request: %v", err)
	}
	close(release)
	if err := <-slow; err != nil {
		t.Errorf("the request that was under way: %v", err)
	}
	if err := process.Wait(); err != nil {
		t.Errorf("the end: %v", err)
	}
}

// Load balancers learn late that a pod is ending, and send requests until then, now and then.
func TestNoRequestIsCutOffWhileClientsStillCome(t *testing.T) {
	r := newRig(t)
	r.serveHTTP(r.app(8080), "baseline")
	r.Board.Complete()
	r.serveXDS()
	process := r.sidecar()
	r.ready()
	r.must(process.Process.Signal(syscall.SIGTERM))
	const longerThanDrainMin = 5 * time.Second
	for began := time.Now(); time.Since(began) < longerThanDrainMin; time.Sleep(50 * time.Millisecond) {
		if _, err := r.get(8080); err != nil {
			t.Fatalf("a request %s after the order to end: %v", time.Since(began).Round(time.Millisecond), err)
		}
	}
	if err := process.Wait(); err != nil {
		t.Errorf("the end: %v", err)
	}
}
