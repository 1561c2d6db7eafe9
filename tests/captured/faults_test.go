package captured_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/record"
	"switchyard.dev/tests/captured"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
)

const container = "sidecars/cmd/traffic-sidecar"

func TestMain(m *testing.M) {
	begin := func() error {
		if err := buildOlder(); err != nil {
			return err
		}
		return sidecar.IsolatePrograms(container)
	}
	if process.Role() == captured.Role {
		begin = captured.Manage
	}
	if err := begin(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	world.Main(m)
}

const (
	ring = 64 << 20
	// large is the size of the bodies of requests.
	large = 60 << 10
	// many exchanges do not fit into record.InFlight, nor into a ring of least bytes.
	many, least = 400, 20 << 20
)

// site is a fork's pod with an application that counts the requests that reach it.
type site struct {
	*world.World
	*captured.Site
	manager, sidecar *program.Program
	port             string // of the container
	built            string // its program
	reached          atomic.Int64
	// hold, unless nil, is what the application waits for before it reads a body and answers.
	hold atomic.Pointer[chan struct{}]
}

func newSite(t *testing.T, namespace string, ring int64) *site {
	t.Helper()
	return newSampled(t, namespace, ring, 100)
}

func newSampled(t *testing.T, namespace string, ring int64, percent int32) *site {
	t.Helper()
	s := &site{World: world.Shared(t), built: sidecar.Built(container)}
	var err error
	s.Site, err = captured.New(t.Context(), s.Server, namespace, t.TempDir(), ring, percent)
	s.Must(err)
	t.Cleanup(func() { _ = s.Site.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.Must(err)
	server := &http.Server{Handler: s} //nolint:gosec // a test
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	s.port, err = captured.Free()
	s.Must(err)
	s.Must(s.Attach(t.Context(), crdv1.CapturedPort{Application: number(l.Addr().String()), Listening: number(s.port)}))
	s.startManager()
	return s
}

func number(address string) int32 { return int32(netip.MustParseAddrPort(address).Port()) }

// ServeHTTP implements http.Handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.reached.Add(1)
	if hold := s.hold.Load(); hold != nil {
		<-*hold
	}
	n, _ := io.Copy(io.Discard, r.Body)
	_, _ = fmt.Fprint(w, n)
}

func (s *site) startManager() {
	s.Helper()
	var err error
	s.manager, err = s.StartManager()
	s.Must(err)
	s.Cleanup(s.manager.Kill)
}

// startContainer starts the container, which reaches traffic-manager at an address.
func (s *site) startContainer(manager string) {
	s.Helper()
	var err error
	s.sidecar, err = s.StartContainer(s.built, manager)
	s.Must(err)
	s.Cleanup(s.sidecar.Kill)
	wait.Eventually(s, world.Patience, "the container listens", func() error {
		c, err := net.Dial("tcp", s.port)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// request sends one request over a connection of its own.
func (s *site) request() error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Post("http://"+s.port+"/", "text/plain", strings.NewReader(strings.Repeat("x", large)))
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if got, err := io.ReadAll(a.Body); err != nil || string(got) != fmt.Sprint(large) {
		return fmt.Errorf("the answer is %q: %w", got, err)
	}
	return nil
}

// requests sends n requests, eight at once. Each has to reach the application once and to be answered by it.
func (s *site) requests(n int) {
	s.Helper()
	before := s.reached.Load()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range (n + i) / 8 {
				if err := s.request(); err != nil {
					s.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := s.reached.Load() - before; got != int64(n) {
		s.Errorf("%d requests have reached the application, of %d", got, n)
	}
}

// settled waits until all is counted, and compares with the count of the application.
func (s *site) settled() *trafficv1.Counts {
	s.Helper()
	reached := uint64(s.reached.Load())
	counts, err := s.Settled(s.Context(), reached)
	s.Must(err)
	sum := counts.GetStored() + counts.GetSampledOut() + counts.GetEvicted()
	for _, n := range counts.GetLost() {
		sum += n
	}
	if counts.GetSeen() != reached || sum != reached {
		s.Errorf("the application has seen %d, and the sum is %d: %v", reached, sum, counts)
	}
	s.Logf("seen %d, stored %d, evicted %d, lost %v", reached, counts.GetStored(), counts.GetEvicted(), counts.GetLost())
	counts.Pods = nil
	return counts
}

// The container is killed with exchanges that it has not delivered, and requests that wait for their answers. The next one
// counts them.
func TestAContainerThatIsKilled(t *testing.T) {
	s := newSite(t, "killed", ring)
	s.startContainer(s.Address)
	s.requests(50)
	s.settled()
	s.manager.Kill() // from now on nothing is reported
	s.requests(60)
	const waiting = 10
	hold := make(chan struct{})
	s.hold.Store(&hold)
	before := s.reached.Load()
	var all sync.WaitGroup
	for range waiting {
		all.Go(func() {
			if s.request() == nil {
				s.Error("a request is answered though its connection was killed")
			}
		})
	}
	wait.Eventually(s, world.Patience, "the requests wait in the application", func() error {
		if got := s.reached.Load() - before; got != waiting {
			return fmt.Errorf("%d do", got)
		}
		return nil
	})
	s.sidecar.Kill()
	all.Wait()
	s.hold.Store(nil)
	close(hold)
	// The port is served again at once, by the attachments in the file.
	s.startContainer(s.Address)
	s.requests(20)
	s.startManager()
	s.Must(s.Applied(s.Context()))
	if counts := s.settled(); counts.GetStored() != 70 || counts.GetLost()[record.Restart] != 60+waiting {
		t.Errorf("%v", counts)
	}
	// Once more, with another process in between that is asked nothing.
	s.sidecar.Kill()
	s.startContainer(s.Address)
	s.sidecar.Kill()
	s.startContainer(s.Address)
	s.requests(10)
	// Until the container has attached again, its undelivered exchanges count as lost.
	wait.Eventually(s, world.Patience, "the last ten are stored", func() error {
		if counts := s.settled(); counts.GetStored() != 80 {
			return fmt.Errorf("%v", counts)
		}
		return nil
	})
	if counts := s.settled(); counts.GetStored() != 80 || counts.GetLost()[record.Restart] != 60+waiting {
		t.Errorf("%v", counts)
	}
}

// After SIGTERM the last counters are reported: no process follows in the pod.
func TestAContainerThatTerminates(t *testing.T) {
	s := newSampled(t, "terminated", ring, 1) // the others come with no batch
	s.startContainer(s.Address)
	s.Must(s.Applied(t.Context()))
	s.requests(50)
	s.Must(s.sidecar.Terminate(world.Patience))
	if counts := s.settled(); counts.GetSampledOut() == 0 || len(counts.GetLost()) > 0 {
		t.Errorf("%v", counts)
	}
}

func TestAReceiverThatIsStopped(t *testing.T) {
	s := newSite(t, "stopped", ring)
	s.startContainer(s.Address)
	s.requests(20)
	s.Must(syscall.Kill(s.manager.PID(), syscall.SIGSTOP))
	s.requests(many)
	s.Must(syscall.Kill(s.manager.PID(), syscall.SIGCONT))
	if counts := s.settled(); counts.GetStored() == 0 || counts.GetLost()[record.Budget] == 0 {
		t.Errorf("%v", counts)
	}
}

func TestAReceiverThatIsSlow(t *testing.T) {
	s := newSite(t, "slow", ring)
	s.startContainer(throttled(t, s.Address))
	s.requests(many)
	if counts := s.settled(); counts.GetStored() == 0 || counts.GetLost()[record.Refused]+counts.GetLost()[record.Restart] > 0 {
		t.Errorf("%v", counts)
	}
}

// throttled is an address from which at most 3 MiB a second reach another one.
func throttled(t *testing.T, to string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				to, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
				if err != nil {
					return
				}
				defer to.Close()
				go func() { _, _ = io.Copy(from, to) }()
				for {
					if _, err := io.CopyN(to, from, 32<<10); err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestAReceiverThatIsFull(t *testing.T) {
	s := newSite(t, "full", least)
	s.startContainer(s.Address)
	for range 4 {
		s.requests(many / 4)
		s.settled()
	}
	if counts := s.settled(); counts.GetStored() == 0 || counts.GetEvicted() == 0 {
		t.Errorf("%v", counts)
	}
}

func TestAReceiverThatIsKilled(t *testing.T) {
	s := newSite(t, "dead", ring)
	s.startContainer(s.Address)
	s.requests(20)
	for range 3 {
		s.manager.Kill()
		s.requests(20)
		s.startManager()
		s.requests(50)
	}
	s.Must(s.Applied(s.Context()))
	if counts := s.settled(); counts.GetStored()+counts.GetLost()[record.Budget] != 230 {
		t.Errorf("%v", counts)
	}
}
