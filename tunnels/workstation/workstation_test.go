package workstation_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/eventbus/trust/trusttest"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/cable"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/workstation"
)

// answers is a local process: it reads all, then answers.
func answers(t *testing.T, with string) (address string) {
	t.Helper()
	return background.Listen(t, func(c net.Conn) {
		said, _ := io.ReadAll(c)
		_, _ = io.WriteString(c, with+" "+string(said))
	})
}

// asks sends a text, closes the sending side, and returns the answer.
func asks(t *testing.T, c net.Conn, says string) string {
	t.Helper()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, says); err != nil {
		t.Fatal(err)
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %q: %v", got, err)
	}
	return string(got)
}

func refusedWith(err error) *tunnelv1.Refused {
	var refused *carrier.RefusedError
	if !errors.As(err, &refused) {
		return nil
	}
	return refused.Refused
}

func TestRequestsOfTheClusterReachTheLocalProcess(t *testing.T) {
	p := newProxy(t, nil)
	w := connected(t, p.config())
	list := follows(t, w)
	local := answers(t, "local")
	list <- []workstation.Workload{cart(local)}
	s := p.nth(1)
	wait.Holds(t, "the tunnel is open", func() bool {
		s, _ := w.Status()
		return len(s.Workloads) == 1 && s.Workloads[0].Open
	})
	c, err := s.connects("shop", "mine-cart", 80)
	if err != nil {
		t.Fatal(err)
	}
	if got := asks(t, c, "hello"); got != "local hello" {
		t.Errorf("it answered %q", got)
	}
	if s.hello.GetLabels()["user"] != "alice" || s.hello.GetEpoch() != 1 || s.hello.GetVersion() != carrier.Version {
		t.Errorf("Hello is %v", s.hello)
	}
}

func TestOnlyAddressesOfTheSpecAreDialled(t *testing.T) {
	p := newProxy(t, nil)
	w := connected(t, p.config())
	list := follows(t, w)
	local := answers(t, "local")
	list <- []workstation.Workload{cart(local)}
	s := p.nth(1)
	for _, c := range []struct {
		namespace, name string
		port            int32
		want            tunnelv1.Reason
	}{
		{"shop", "mine-cart", 81, tunnelv1.Reason_REASON_NOT_FOUND},
		{"shop", "other", 80, tunnelv1.Reason_REASON_NOT_FOUND},
		{"other", "mine-cart", 80, tunnelv1.Reason_REASON_NOT_FOUND},
	} {
		if _, err := s.connects(c.namespace, c.name, c.port); refusedWith(err).GetReason() != c.want {
			t.Errorf("%s/%s port %d: %v", c.namespace, c.name, c.port, err)
		}
	}
	_, err := s.Open(t.Context(), &tunnelv1.Open{To: &tunnelv1.Open_Address{Address: &tunnelv1.Address{Host: "127.0.0.1", Port: 22}}})
	if refusedWith(err).GetReason() != tunnelv1.Reason_REASON_INVALID {
		t.Errorf("an address of the proxy's own choice: %v", err)
	}
	// A workload that is no longer wanted is not reachable any more, on the same session.
	list <- []workstation.Workload{}
	wait.Holds(t, "the workload is removed", func() bool {
		_, err := s.connects("shop", "mine-cart", 80)
		return refusedWith(err).GetReason() == tunnelv1.Reason_REASON_NOT_FOUND
	})
}

func TestALocalProcessThatIsDownIsNamed(t *testing.T) {
	p := newProxy(t, nil)
	config, opened := p.config(), make(chan workstation.Opening, 9)
	config.Opened = func(o workstation.Opening) { opened <- o }
	w := connected(t, config)
	list := follows(t, w)
	address, start := reserved(t)
	list <- []workstation.Workload{cart(address)}
	var refused *tunnelv1.Refused
	attempts := int64(0) // the first ones may be there before the list
	wait.Holds(t, "the workload is at the workstation", func() bool {
		attempts++
		_, err := p.nth(1).connects("shop", "mine-cart", 80)
		refused = refusedWith(err)
		return refused.GetReason() != tunnelv1.Reason_REASON_NOT_FOUND
	})
	if refused.GetReason() != tunnelv1.Reason_REASON_UNREACHABLE || !strings.Contains(refused.GetMessage(), address) {
		t.Fatalf("the refusal is %v", refused)
	}
	if strings.Count(refused.GetMessage(), ". ") > 1 {
		t.Errorf("it has more than two sentences: %s", refused.GetMessage())
	}
	if len(opened) > 0 {
		t.Errorf("it is reported as opened: %+v", <-opened)
	}
	s, _ := w.Status()
	if s.Inbound.Failed != attempts || s.Workloads[0].Ports[0].Trouble != "connection refused" {
		t.Errorf("the status is %+v", s)
	}
	start()
	if _, err := p.nth(1).connects("shop", "mine-cart", 80); err != nil {
		t.Fatal(err)
	}
	if s, _ := w.Status(); s.Workloads[0].Ports[0].Trouble != "" {
		t.Errorf("once it is back the status is %+v", s)
	}
	if len(opened) != 1 || (<-opened).Address != address {
		t.Error("it is not reported as opened")
	}
}

// reserved returns an address that refuses connections until start is called. No other program can
// get it in between.
func reserved(t *testing.T) (address string, start func()) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*unix.SockaddrInet4).Port), func() {
		if err := unix.Listen(fd, 16); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheClusterIsReached(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "cluster") }))
	defer server.Close()
	p := newProxy(t, map[string]string{"cart.shop": server.Listener.Addr().String()})
	w := connected(t, p.config())
	c, err := w.Open(t.Context(), "cart.shop", 80)
	if err != nil {
		t.Fatal(err)
	}
	if got := asks(t, c, "GET / HTTP/1.0\r\n\r\n"); !strings.HasSuffix(got, "cluster") {
		t.Errorf("it answered %q", got)
	}
	if _, err := w.Open(t.Context(), "nowhere", 80); refusedWith(err).GetReason() != tunnelv1.Reason_REASON_NOT_FOUND {
		t.Errorf("a name that is not there: %v", err)
	}
	wait.Holds(t, "the connection is no longer counted", func() bool { s, _ := w.Status(); return s.Outbound == workstation.Connections{Total: 2, Failed: 1} })
}

func TestAfterACutItComesBackWithEverything(t *testing.T) {
	server := answers(t, "cluster")
	p := newProxy(t, map[string]string{"db": server})
	w := connected(t, p.config())
	list := follows(t, w)
	local := answers(t, "local")
	api := cart(local)
	api.Tunnel.Name = "mine-api"
	list <- []workstation.Workload{cart(local), api}
	first := p.nth(1)
	wait.Holds(t, "it has declared both", func() bool { return declaredNames(<-first.declared) == "shop/mine-api shop/mine-cart" })
	open, err := w.Open(t.Context(), "db", 5432)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	p.kill()
	_ = open.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := open.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("a cut connection reads %v", err)
	}
	second := p.nth(2)
	if d := <-second.declared; d.GetRevision() != 1 || declaredNames(d) != "shop/mine-api shop/mine-cart" {
		t.Errorf("the first declaration of the second connection is %v", d)
	}
	if second.hello.GetSession() != first.hello.GetSession() || second.hello.GetEpoch() <= first.hello.GetEpoch() || second.hello.GetAge().AsDuration() <= first.hello.GetAge().AsDuration() {
		t.Errorf("it came back as %v after %v", second.hello, first.hello)
	}
	c, err := w.Open(t.Context(), "db", 5432) // Waits for the session, if need be.
	if err != nil {
		t.Fatal(err)
	}
	if got := asks(t, c, "hello"); got != "cluster hello" {
		t.Errorf("it answered %q", got)
	}
}

func TestASeveredNetworkIsNoticed(t *testing.T) {
	p := newProxy(t, nil)
	way := cable.Lay(t, "127.0.0.1", p.address)
	cfg := p.config()
	cfg.Road = workstation.Address(way.Address)
	w := connected(t, cfg)
	way.Sever(true)
	wait.Holds(t, "it knows that it is not connected", func() bool { s, _ := w.Status(); return !s.Connected })
	way.Sever(false)
	up(t, w)
	if s, _ := w.Status(); s.Epoch < 2 || s.Trouble != "" {
		t.Errorf("it is %+v", s)
	}
}

func TestAFirstConnectionReturnsTheCauseOfFailure(t *testing.T) {
	other := trusttest.New(t, "somebody else")
	for name, c := range map[string]struct {
		change func(*proxy, *workstation.Config)
		part   workstation.Part
		says   string
	}{
		"an unknown token": {func(p *proxy, _ *workstation.Config) { p.token = "other" }, workstation.PartToken, "does not know who you are"},
		"no token": {func(_ *proxy, c *workstation.Config) {
			c.Token = func(context.Context, bool) (string, error) {
				return "", workstation.Final(errors.New("no token in it"))
			}
		}, workstation.PartToken, "no token in it"},
		"another authority": {func(_ *proxy, c *workstation.Config) { _ = c.Roots.Set(other.Bundle()) }, workstation.PartCertificate, "not a trusted authority"},
		"another name":      {func(_ *proxy, c *workstation.Config) { c.Name = "evil.example" }, workstation.PartCertificate, "its certificate is for " + proxyName},
		"no right": {func(p *proxy, _ *workstation.Config) {
			p.refuse = &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_FORBIDDEN, Message: "you may not"}
		}, workstation.PartSession, "you may not"},
		"no such host": {func(_ *proxy, c *workstation.Config) { c.Road = workstation.Address("no.such.host.invalid:7777") }, workstation.PartRoad, "no.such.host.invalid:7777"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, nil)
			cfg := p.config()
			cfg.Policy.Patience = time.Second // transient errors end soon, too
			c.change(p, &cfg)
			w, err := workstation.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			err = w.Run(t.Context())
			var trouble *workstation.Trouble
			if !errors.As(err, &trouble) || trouble.Part != c.part || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Run ended with %v", err)
			}
		})
	}
}

func TestATokenIsNotSentToAnUntrustedProxy(t *testing.T) {
	p := newProxy(t, nil)
	cfg := p.config()
	_ = cfg.Roots.Set(trusttest.New(t, "somebody else").Bundle())
	w, err := workstation.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Try(t.Context(), 1); err == nil {
		t.Error("it was believed")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.shown) > 0 {
		t.Error("it was shown the token")
	}
}

func TestARefusedTokenIsRequestedAgain(t *testing.T) {
	p := newProxy(t, nil)
	cfg := p.config()
	cfg.Token = func(_ context.Context, again bool) (string, error) {
		if again {
			return "good", nil
		}
		return "stale", nil
	}
	connected(t, cfg)
	if strings.Join(p.shown, " ") != "stale good" {
		t.Errorf("it has shown %q", p.shown)
	}
}

func TestANewAuthorityIsReadAgain(t *testing.T) {
	p := newProxy(t, nil)
	cfg := p.config()
	good := p.authority.Bundle()
	_ = cfg.Roots.Set(trusttest.New(t, "the one before").Bundle())
	cfg.Refresh = func(context.Context) error { return cfg.Roots.Set(good) }
	connected(t, cfg)
}

func TestAProxyThatDrainsIsLeft(t *testing.T) {
	p := newProxy(t, nil)
	w := connected(t, p.config())
	p.nth(1).Close(&tunnelv1.Leave{Why: &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_DRAINING, Message: "the proxy ends"}, ComeBack: true})
	if s := p.nth(2); s.hello.GetEpoch() != 2 {
		t.Errorf("it came back as %v", s.hello)
	}
	up(t, w)
}

func TestTheStatusReportsAPendingListOfWorkloads(t *testing.T) {
	p := newProxy(t, nil)
	w := connected(t, p.config())
	asks := func() bool { s, _ := w.Status(); return s.Asks }
	if asks() {
		t.Error("a list is pending before Follow")
	}
	what := make(wanted)
	go w.Follow(t.Context(), what)
	wait.Holds(t, "it is asked", asks)
	what <- []workstation.Workload{}
	wait.Holds(t, "there is an answer", func() bool { return !asks() })
}

func TestNothingIsLeftOfASession(t *testing.T) {
	p := newProxy(t, nil)
	before := runtime.NumGoroutine()
	w, err := workstation.New(p.config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	up(t, w)
	for n := range 5 {
		p.nth(n + 1).Close(nil)
		p.nth(n + 2)
		up(t, w)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wait.Holds(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
	if _, err := w.Open(t.Context(), "db", 1); err == nil {
		t.Error("it still opens connections")
	}
}

func TestWorkloadsStayWhileTheListIsUnavailable(t *testing.T) {
	p := newProxy(t, nil)
	w := connected(t, p.config())
	list := follows(t, w)
	local := answers(t, "local")
	list <- []workstation.Workload{cart(local)}
	list <- nil // cut with its session, as a rule
	time.Sleep(100 * time.Millisecond)
	if s, _ := w.Status(); s.Unsure != "" {
		t.Errorf("before the retry the status has %q", s.Unsure)
	}
	list <- nil // and without an answer
	wait.Holds(t, "the status reports it", func() bool { s, _ := w.Status(); return s.Unsure == "lost sight" })
	c, err := p.nth(1).connects("shop", "mine-cart", 80)
	if err != nil {
		t.Fatal(err)
	}
	if got := asks(t, c, "hello"); got != "local hello" {
		t.Errorf("it answered %q", got)
	}
	list <- []workstation.Workload{}
	wait.Holds(t, "the status reports it", func() bool { s, _ := w.Status(); return s.Unsure == "" && len(s.Workloads) == 0 })
}

// A sandbox of another author names a service of this machine, such as a container runtime. No
// connection of the cluster reaches it before the user has allowed it.
func TestAnAddressThatTheUserDidNotAllowIsNotDialled(t *testing.T) {
	p := newProxy(t, nil)
	w := connected(t, p.config())
	list := follows(t, w)
	local := answers(t, "local")
	one := cart(local)
	one.Own = false
	list <- []workstation.Workload{one}
	wait.Holds(t, "the workload is known", func() bool { s, _ := w.Status(); return len(s.Workloads) == 1 })
	_, err := p.nth(1).connects("shop", "mine-cart", 80)
	if refused := refusedWith(err); refused.GetReason() != tunnelv1.Reason_REASON_FORBIDDEN {
		t.Errorf("the service is reached: %v", err)
	}
	if s, _ := w.Status(); !strings.Contains(s.Workloads[0].Message, "--allow "+local) || s.Workloads[0].Open {
		t.Errorf("the status is %+v", s.Workloads)
	}
}

func TestTheStatusNamesEachRefusedAddress(t *testing.T) {
	w := connected(t, newProxy(t, nil).config())
	list := follows(t, w)
	two, none := cart("127.0.0.1:1"), cart("")
	two.Own, two.Locals = false, map[int32]string{80: "127.0.0.1:2375", 81: "127.0.0.1:9229"}
	none.Tunnel.Name, none.Locals = "none", nil
	list <- []workstation.Workload{two, none}
	wait.Holds(t, "the workloads are known", func() bool { s, _ := w.Status(); return len(s.Workloads) == 2 })
	s, _ := w.Status()
	for _, one := range s.Workloads {
		says := []string{"--allow 127.0.0.1:2375; ", "--allow 127.0.0.1:9229"}
		if one.Object == "none" {
			says = []string{"names no local address"}
		}
		for _, text := range says {
			if !strings.Contains(one.Message, text) {
				t.Errorf("%s: %q is not in %q", one.Object, text, one.Message)
			}
		}
	}
}
