package attach_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
)

// ask sends a request with baggage, and returns which override has answered, or why none has.
func (p *pod) ask(baggage string) string {
	p.t.Helper()
	r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", p.port), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Baggage", baggage)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer a.Body.Close()
	if _, err := io.Copy(io.Discard, a.Body); err != nil {
		p.t.Fatal(err)
	}
	return a.Header.Get("By") + a.Header.Get("Sd-Override-Skipped")
}

// target answers as an override with a name.
func target(t *testing.T, name string) string {
	l := listen(t)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // a test
			w.Header().Set("Sd-Override", "true")
			w.Header().Set("By", name)
		}))
	}()
	return l.Addr().String()
}

// A route group with middlewares of its own has its override for requests with its key, and the sandbox has its own for all others. The key
// of a group without them has the override of the sandbox, and selects it.
func TestOverridesOfKeys(t *testing.T) {
	p := newPod(t)
	p.start()
	application := uint32(p.app.Addr().(*net.TCPAddr).Port) //nolint:gosec // a port
	of := func(name string) *trafficv1.Override {
		return &trafficv1.Override{Uid: name, RoutingKey: "sandbox", OtherKeys: []string{"plain", "own", "none"}, Targets: []*trafficv1.OverrideTarget{{Application: application, Address: target(t, name)}}}
	}
	sandbox, group := of("sandbox"), of("group")
	sandbox.ExceptRoutingKeys, group.RoutingKeys = []string{"own", "none"}, []string{"own"}
	p.mu.Lock()
	p.attachments = &trafficv1.Attachments{Version: p.attachments.GetVersion() + 1, Restricted: []*trafficv1.Override{group, sandbox}}
	for _, o := range p.attachments.GetRestricted() {
		p.attachments.Captures = append(p.attachments.Captures, &trafficv1.Capture{Uid: o.GetUid(), Ports: []*trafficv1.Port{{Application: application, Listening: uint32(p.port)}}}) //nolint:gosec // a port
	}
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	p.until("the overrides are applied", func(a *trafficv1.Applied) error {
		if a.GetVersion() != p.attachments.GetVersion() || a.GetProblem() != "" || !a.GetRestricts() {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
	for baggage, want := range map[string]string{
		"": "sandbox", "sd-routing-key=sandbox": "sandbox", "sd-routing-key=plain": "sandbox", "sd-routing-key=own": "group", "sd-routing-key=none": "",
		"sd-routing-key=plain,sd-traffic=none": "sd-traffic", "sd-routing-key=own,sd-traffic=none": "sd-traffic", "sd-routing-key=unknown,sd-traffic=none": "sandbox",
	} {
		if got := p.ask(baggage); got != want {
			t.Errorf("%q is answered by %q, not %q", baggage, got, want)
		}
	}
}

// A port with another destination than before, as of a capture that has just ended, keeps nothing from being applied.
func TestAPortGetsAnotherDestinationAtOnce(t *testing.T) {
	p := newPod(t)
	p.start()
	p.capture()
	application := uint32(p.app.Addr().(*net.TCPAddr).Port) //nolint:gosec // a port
	p.set(&trafficv1.Capture{Uid: "other", Name: "d", Ports: []*trafficv1.Port{{Application: application, Listening: uint32(p.port), To: target(t, "other")}}})
	p.until("the other capture is known", func(a *trafficv1.Applied) error {
		if a.GetVersion() != p.attachments.GetVersion() {
			return fmt.Errorf("%v", a)
		}
		if a.GetProblem() != "" {
			t.Error(a.GetProblem())
		}
		return nil
	})
	if got := p.ask(""); got != "other" {
		t.Errorf("it answers %q", got)
	}
}
