package attach_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/attach"
	"switchyard.dev/sidecars/traffic/record"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/hostile/attacks"
	"switchyard.dev/tests/port"
	"switchyard.dev/tools/wait"
)

const (
	token = "the token of the pod"
	uid   = "capture"
)

// receiver is traffic-manager with the faults that a real one can have: package sidecars/traffic/manager has those tests that
// need its store and its access.
type receiver struct {
	trafficv1.UnimplementedSidecarsServer
	t       *testing.T
	address string
	pair    trusttest.Pair
	// fault is called before a batch is acknowledged.
	fault atomic.Pointer[func(*trafficv1.Batch) (refused bool)]

	mu          sync.Mutex
	attachments *trafficv1.Attachments
	authorities []byte // that are announced
	changed     chan struct{}
	applied     *trafficv1.Applied
	// stored has the exchanges by number.
	stored map[uint64]*trafficv1.Exchange
	server *grpc.Server
	// expires ends the stream that is served, with an error.
	expires chan error
}

func newReceiver(t *testing.T) (*receiver, *trust.Roots) {
	authority := trusttest.New(t, "traffic")
	r := &receiver{t: t, address: fmt.Sprintf("127.0.0.1:%d", port.Of(t)), pair: authority.Leaf(t, "127.0.0.1"), attachments: &trafficv1.Attachments{}, changed: make(chan struct{}), expires: make(chan error), stored: map[uint64]*trafficv1.Exchange{}}
	roots := trust.NewRoots("this test")
	if err := roots.Set(authority.Bundle()); err != nil {
		t.Fatal(err)
	}
	r.start()
	t.Cleanup(r.kill)
	return r, roots
}

func (r *receiver) start() {
	l, err := net.Listen("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.address = l.Addr().String()
	r.server = grpc.NewServer(grpc.Creds(trust.ServerCredentials(trusttest.Server(r.t, r.pair), false)), grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	trafficv1.RegisterSidecarsServer(r.server, r)
	go func(s *grpc.Server) { _ = s.Serve(l) }(r.server)
}

func (r *receiver) kill() { r.server.Stop() }

// set attaches something else.
func (r *receiver) set(captures ...*trafficv1.Capture) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attachments = &trafficv1.Attachments{Version: r.attachments.GetVersion() + 1, Captures: captures, Authorities: r.authorities}
	close(r.changed)
	r.changed = make(chan struct{})
}

func authorized(ctx context.Context) error {
	if md, _ := metadata.FromIncomingContext(ctx); fmt.Sprint(md.Get("authorization")) != "[Bearer "+token+"]" {
		return status.Error(codes.Unauthenticated, "another token")
	}
	return nil
}

// Attach implements trafficv1.SidecarsServer.
func (r *receiver) Attach(s trafficv1.Sidecars_AttachServer) error {
	if err := authorized(s.Context()); err != nil {
		return err
	}
	go func() {
		for {
			applied, err := s.Recv()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.applied = applied
			r.mu.Unlock()
		}
	}()
	for {
		r.mu.Lock()
		next, changed := r.attachments, r.changed
		r.mu.Unlock()
		if err := s.Send(next); err != nil {
			return err
		}
		select {
		case <-changed:
		case err := <-r.expires:
			return err
		case <-s.Context().Done():
			return nil
		}
	}
}

// Deliver implements trafficv1.SidecarsServer.
func (r *receiver) Deliver(s trafficv1.Sidecars_DeliverServer) error {
	if err := authorized(s.Context()); err != nil {
		return err
	}
	for {
		batch, err := s.Recv()
		if err != nil {
			return err
		}
		answer := &trafficv1.Stored{Sequence: batch.GetSequence()}
		refused := false
		if fault := r.fault.Load(); fault != nil {
			refused = (*fault)(batch)
		}
		r.mu.Lock()
		for _, x := range batch.GetExchanges() {
			if refused {
				answer.Refused = append(answer.Refused, x.GetId())
			} else {
				r.stored[x.GetNumber()] = x
			}
		}
		r.mu.Unlock()
		if err := s.Send(answer); err != nil {
			return err
		}
	}
}

// pod is a traffic container before an application.
type pod struct {
	*receiver
	roots  *trust.Roots
	dir    string
	app    net.Listener
	served atomic.Int64
	port   int32
	stop   func()
	logs   background.Output
}

// large is the size of the bodies.
const large = 60 << 10

func newPod(t *testing.T) *pod {
	t.Parallel()
	r, roots := newReceiver(t)
	p := &pod{receiver: r, roots: roots, dir: t.TempDir(), stop: func() {}}
	p.app, p.port = listen(t), int32(port.Of(t))
	go func() {
		_ = http.Serve(p.app, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { //nolint:gosec // a test
			n, _ := io.Copy(io.Discard, q.Body)
			p.served.Add(1)
			_, _ = fmt.Fprint(w, n)
		}))
	}()
	if err := os.WriteFile(filepath.Join(p.dir, "token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.stop() })
	return p
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (p *pod) state() string { return filepath.Join(p.dir, "state") }

// start starts the container.
func (p *pod) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- attach.Run(ctx, attach.Config{
			Manager: p.address, Roots: p.roots, TokenFile: filepath.Join(p.dir, "token"), StateFile: p.state(), Logger: slog.New(slog.NewTextHandler(&p.logs, nil)),
		})
	}()
	p.stop = func() {
		p.stop = func() {}
		cancel()
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
	}
}

// capture attaches a capture, and waits until it is applied.
func (p *pod) capture() {
	p.t.Helper()
	p.set(&trafficv1.Capture{Uid: uid, Name: "c", Sample: 1, BodyBytes: 64 << 10, Ports: []*trafficv1.Port{
		{Application: uint32(p.app.Addr().(*net.TCPAddr).Port), Listening: uint32(p.port)},
	}})
	p.until("the capture is applied", func(a *trafficv1.Applied) error {
		if a.GetVersion() != p.attachments.GetVersion() || a.GetProblem() != "" {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
}

// until waits until the last report is as it should be.
func (p *pod) until(what string, as func(*trafficv1.Applied) error) {
	p.t.Helper()
	wait.Eventually(p.t, 2*time.Minute, what, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		return as(p.applied)
	})
}

// requests sends requests, several at once, each of which must be answered by the application.
func (p *pod) requests(n int) {
	p.t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	body := strings.Repeat("x", large)
	work := make(chan struct{})
	var failed atomic.Bool
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range work {
				a, err := client.Post(fmt.Sprintf("http://127.0.0.1:%d/", p.port), "text/plain", strings.NewReader(body))
				if err != nil {
					p.t.Error(err)
					failed.Store(true)
					continue
				}
				got, err := io.ReadAll(a.Body)
				_ = a.Body.Close()
				if string(got) != fmt.Sprint(large) || err != nil {
					p.t.Errorf("the answer is %q, %v", got, err)
				}
			}
		})
	}
	for range n {
		work <- struct{}{}
	}
	close(work)
	all.Wait()
	if failed.Load() {
		p.t.FailNow()
	}
}

// settled waits until each of n exchanges is delivered or lost, and compares with the receiver.
func (p *pod) settled(n int) (delivered uint64, lost map[string]uint64) {
	p.t.Helper()
	p.until(fmt.Sprintf("%d exchanges are settled", n), func(a *trafficv1.Applied) error {
		for _, c := range a.GetCounts() {
			delivered, lost = c.GetDelivered(), c.GetLost()
			sum := delivered
			for _, l := range lost {
				sum += l
			}
			if c.GetSeen() == uint64(n) && sum == uint64(n) {
				return nil
			}
		}
		return fmt.Errorf("%v", a.GetCounts())
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if uint64(len(p.stored)) != delivered {
		p.t.Errorf("%d are delivered, and %d stored", delivered, len(p.stored))
	}
	if got := p.served.Load(); got != int64(n) {
		p.t.Errorf("the application has served %d of %d", got, n)
	}
	return delivered, lost
}

// many is more than fits into record.InFlight.
const many = 500

func TestAttackersKeepNoRequestFromTheApplication(t *testing.T) {
	p := newPod(t)
	p.start()
	p.capture()
	all := []attacks.Attack{attacks.Silent, attacks.HalfTLS, attacks.SlowHead, attacks.Junk, attacks.Unread("/"), attacks.Greetings, attacks.StreamsAlone}
	ctx, stop := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	for n := range 50 * len(all) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.port))
		if err != nil {
			t.Fatal(err)
		}
		context.AfterFunc(ctx, func() { _ = c.Close() })
		crowd.Go(func() { all[n%len(all)].Do(ctx, c) })
	}
	for range 3 {
		p.requests(40)
	}
	stop()
	crowd.Wait()
	p.until("each exchange of honest callers is delivered or lost", func(a *trafficv1.Applied) error {
		honest := uint64(0)
		for _, x := range p.stored {
			if x.GetRequest().GetMethod() == http.MethodPost {
				honest++
			}
		}
		for _, c := range a.GetCounts() {
			if settled := c.GetDelivered() + c.GetLost()[record.Budget] + c.GetLost()["unreadable"]; honest+c.GetLost()[record.Budget] >= 120 && c.GetSeen() == settled {
				return nil
			}
		}
		return fmt.Errorf("%d are stored: %v", honest, a.GetCounts())
	})
}

func TestAContainerFollowsTheAuthorities(t *testing.T) {
	p := newPod(t)
	created := p.roots.PEM()
	p.start()
	p.capture()
	next := trusttest.New(t, "next")
	p.authorities = next.Bundle()
	p.capture() // announced while the first ones vouch
	p.kill()
	p.pair = next.Leaf(t, "127.0.0.1")
	p.receiver.start()
	p.capture()
	p.stop()
	p.roots = trust.NewRoots("the environment of a container that starts again")
	if err := p.roots.Set([]byte(created)); err != nil {
		t.Fatal(err)
	}
	p.start()
	p.capture()
}

func TestNothingIsLostOfAReceiverThatWorks(t *testing.T) {
	p := newPod(t)
	p.start()
	p.capture()
	for range 5 {
		p.requests(100)
	}
	if _, lost := p.settled(500); lost[record.Refused]+lost[record.Ended] > 0 {
		t.Errorf("lost are %v", lost)
	}
	for number, x := range p.stored {
		if x.GetRequest().GetBodySize() != large || x.GetResponse().GetStatus() != 200 || x.GetProblem() != "" || number == 0 {
			t.Fatalf("%d is %v", number, x)
		}
	}
}

// An exchange that became larger than a message can be, because each number in its bodies is null now, keeps no later one from being
// delivered.
func TestAnExchangeThatIsTooLargeIsLost(t *testing.T) {
	p := newPod(t)
	echo := listen(t)
	go func() {
		_ = http.Serve(echo, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { //nolint:gosec // a test
			body, _ := io.ReadAll(q.Body)
			_, _ = w.Write(body)
		}))
	}()
	p.start()
	p.set(&trafficv1.Capture{Uid: uid, Name: "c", Sample: 1, BodyBytes: 1 << 20, JsonPathsElided: []string{"$[*]"}, Ports: []*trafficv1.Port{
		{Application: uint32(echo.Addr().(*net.TCPAddr).Port), Listening: uint32(p.port)}, //nolint:gosec // ports
	}})
	p.until("the capture is applied", func(a *trafficv1.Applied) error {
		if a.GetVersion() != p.attachments.GetVersion() {
			return errors.New("not yet")
		}
		return nil
	})
	for _, numbers := range []int{500_000, 5} {
		body := "[" + strings.Repeat("1,", numbers) + "1]"
		a, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/", p.port), "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(a.Body)
		if _ = a.Body.Close(); err != nil || string(got) != body {
			t.Fatalf("%d bytes are answered, %v", len(got), err)
		}
	}
	p.until("one is delivered, and one lost", func(a *trafficv1.Applied) error {
		if c := a.GetCounts(); len(c) != 1 || c[0].GetDelivered() != 1 || c[0].GetLost()[record.Refused] != 1 {
			return fmt.Errorf("%v", c)
		}
		return nil
	})
}

// The receiver takes batches and does not answer, for as long as the application serves many requests.
func TestAReceiverThatIsStopped(t *testing.T) {
	p := newPod(t)
	goOn := make(chan struct{})
	stopped := func(*trafficv1.Batch) bool { <-goOn; return false }
	p.fault.Store(&stopped)
	p.start()
	p.capture()
	p.requests(many)
	if got := p.served.Load(); got != many {
		t.Errorf("%d requests are served while the receiver is stopped", got)
	}
	close(goOn)
	delivered, lost := p.settled(many)
	if lost[record.Budget] == 0 || delivered == 0 || delivered*large > record.InFlight {
		t.Errorf("%d are delivered, lost are %v", delivered, lost)
	}
	for number := range delivered {
		if p.stored[number+1] == nil {
			t.Errorf("number %d is missing", number+1)
		}
	}
}

func TestAReceiverThatIsSlow(t *testing.T) {
	p := newPod(t)
	slow := func(*trafficv1.Batch) bool { time.Sleep(200 * time.Millisecond); return false }
	p.fault.Store(&slow)
	p.start()
	p.capture()
	p.requests(many)
	if delivered, lost := p.settled(many); delivered == 0 || lost[record.Refused]+lost[record.Ended] > 0 {
		t.Errorf("%d are delivered, lost are %v", delivered, lost)
	}
}

func TestAReceiverThatIsFull(t *testing.T) {
	p := newPod(t)
	full := func(*trafficv1.Batch) bool { return true }
	p.fault.Store(&full)
	p.start()
	p.capture()
	p.requests(50)
	if _, lost := p.settled(50); lost[record.Refused] == 0 || lost[record.Refused]+lost[record.Budget] != 50 {
		t.Errorf("lost are %v", lost)
	}
	p.fault.Store(nil)
	p.requests(1)
	if delivered, _ := p.settled(51); delivered != 1 {
		t.Errorf("%d are delivered once there is room", delivered)
	}
}

// The receiver is killed before it acknowledges, and is away while the application serves.
func TestAReceiverThatIsKilled(t *testing.T) {
	p := newPod(t)
	first := make(chan struct{}, many)
	kill := func(*trafficv1.Batch) bool { first <- struct{}{}; return false }
	p.fault.Store(&kill)
	p.start()
	p.capture()
	go func() { <-first; p.kill() }()
	p.requests(100)
	p.fault.Store(nil)
	p.kill()
	p.requests(100)
	p.start2()
	if delivered, lost := p.settled(200); delivered == 0 || lost[record.Refused]+lost[record.Ended] > 0 {
		t.Errorf("%d are delivered, lost are %v", delivered, lost)
	}
}

// start2 starts the receiver again, at its address.
func (p *pod) start2() { p.receiver.start() }

// A container that starts again while traffic-manager is away serves its ports.
func TestTheContainerIsKilled(t *testing.T) {
	p := newPod(t)
	if attach.Started(p.state()) == nil {
		t.Error("it has started before it runs")
	}
	p.start()
	p.capture()
	if err := attach.Started(p.state()); err != nil {
		t.Error(err)
	}
	p.requests(1)
	p.settled(1)
	p.stop()
	p.kill()
	p.start()
	wait.Eventually(t, time.Minute, "the port is served", func() error {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.port))
		if err != nil {
			return err
		}
		return c.Close()
	})
	p.requests(20)
	if got := p.served.Load(); got != 21 {
		t.Errorf("%d are served", got)
	}
}

// A stream that ends as each does after a while is no reason to warn. One that another process of the pod ends is, and one that
// cannot be opened again.
func TestAStreamThatExpires(t *testing.T) {
	p := newPod(t)
	p.start()
	for range 2 {
		p.capture()
		p.expires <- status.Error(codes.Unavailable, "the stream ends: connect again")
	}
	p.capture()
	if text := p.logs.String(); strings.Contains(text, "the stream ends") {
		t.Errorf("the log has %s", text)
	}
	p.expires <- status.Error(codes.Aborted, "the pod has opened another stream")
	p.capture()
	if text := p.logs.String(); !strings.Contains(text, "has opened another stream") {
		t.Errorf("the log has %q", text)
	}
	p.kill()
	wait.Eventually(t, time.Minute, "a warning", func() error {
		if text := p.logs.String(); !strings.Contains(text, "traffic-manager does not answer") {
			return fmt.Errorf("the log has %q", text)
		}
		return nil
	})
}

// Connections outlive the capture, and requests over them are not copied any more.
func TestDetach(t *testing.T) {
	p := newPod(t)
	p.start()
	p.capture()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.port))
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	ask := func() {
		t.Helper()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		a, err := http.ReadResponse(in, nil)
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatal(a, err)
		}
		_, _ = io.Copy(io.Discard, a.Body)
	}
	ask()
	p.set()
	p.until("nothing is attached", func(a *trafficv1.Applied) error {
		if a.GetVersion() != p.attachments.GetVersion() {
			return errors.New("not yet")
		}
		return nil
	})
	ask()
	p.capture()
	ask()
	_ = conn.Close()
	p.until("two of three are delivered", func(a *trafficv1.Applied) error {
		if c := a.GetCounts(); len(c) != 1 || c[0].GetSeen() != 2 || c[0].GetDelivered() != 2 {
			return fmt.Errorf("%v", c)
		}
		return nil
	})
	state, err := os.ReadFile(p.state())
	kept := &trafficv1.Attachments{}
	if err := errors.Join(err, proto.Unmarshal(state, kept)); err != nil || kept.GetVersion() != p.attachments.GetVersion() {
		t.Errorf("%v is kept, %v", kept, err)
	}
}

func TestAPortThatAnotherProgramHasIsReported(t *testing.T) {
	p := newPod(t)
	l := listen(t)
	p.port = int32(l.Addr().(*net.TCPAddr).Port)
	p.start()
	p.set(&trafficv1.Capture{Uid: uid, Sample: 1, Ports: []*trafficv1.Port{{Application: 80, Listening: uint32(p.port)}}})
	p.until("the problem is reported", func(a *trafficv1.Applied) error {
		if !strings.Contains(a.GetProblem(), "port 80 of the application") {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
	_ = l.Close()
	p.until("the port is free, and the problem is no more reported", func(a *trafficv1.Applied) error {
		if a.GetProblem() != "" {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
}
