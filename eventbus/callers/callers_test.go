package callers_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"switchyard.dev/eventbus/callers"
)

func TestAStrangerIsItsAddress(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1:4711":             "10.0.0.1",
		"10.0.0.1":                  "10.0.0.1",
		"[::ffff:10.0.0.1]:4711":    "10.0.0.1",
		"[fd00:1:2:3:4:5:6:7]:4711": "fd00:1:2:3::/64",
		"[fd00:1:2:3::1]:80":        "fd00:1:2:3::/64",
		"[fe80::1%eth0]:80":         "fe80::/64",
		"bufconn":                   "",
		"":                          "",
	} {
		if got := callers.At(address); got.Name != want || got.Kind != callers.Stranger {
			t.Errorf("%s: %v, want %q", address, got, want)
		}
	}
	if got := callers.From(t.Context()); got != (callers.Caller{}) {
		t.Errorf("a call of which nothing is known: %v", got)
	}
	pod := callers.Caller{Kind: callers.Pod, Name: "ns/pod"}
	if got := callers.From(callers.With(t.Context(), pod)); got != pod {
		t.Errorf("got %v", got)
	}
}

func enter(t *testing.T, p *callers.Pool, c callers.Caller) (leave func()) {
	t.Helper()
	leave, err := p.Enter(c)
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	return leave
}

func refused(t *testing.T, p *callers.Pool, c callers.Caller, why string) {
	t.Helper()
	_, err := p.Enter(c)
	many := (*callers.TooMany)(nil)
	if !errors.As(err, &many) || !strings.Contains(err.Error(), why) || many.After <= 0 {
		t.Errorf("%v: %v, want one that says %q", c, err, why)
	}
}

func TestACallerHasAShareAndAKindHasAPool(t *testing.T) {
	p := callers.NewPool("waits", callers.Bounds{Each: 2, Strangers: 3, Pods: 2, Ours: 4})
	a, b, c := callers.At("10.0.0.1"), callers.At("10.0.0.2"), callers.At("10.0.0.3")
	leave := enter(t, p, a)
	enter(t, p, a)
	refused(t, p, a, "2 waits of one caller")
	enter(t, p, b)
	refused(t, p, c, "3 waits are under way")
	pod, ours := callers.Caller{Kind: callers.Pod, Name: "ns/p"}, callers.Caller{Kind: callers.Ours, Name: "signadot/manager"}
	enter(t, p, pod)
	for range 4 {
		enter(t, p, ours) // it has no share, only the pool
	}
	refused(t, p, ours, "4 waits are under way")
	leave()
	enter(t, p, c)
	refused(t, p, b, "3 waits are under way")
}

func TestACallerHasARate(t *testing.T) {
	p := callers.NewPool("calls", callers.Bounds{Strangers: 10, Ours: 10, Rate: 0.001, Burst: 3})
	a := callers.At("10.0.0.1")
	for range 3 {
		enter(t, p, a)()
	}
	refused(t, p, a, "one caller may begin")
	enter(t, p, callers.At("10.0.0.2"))()
	for range 10 {
		enter(t, p, callers.Caller{Kind: callers.Ours})()
	}
}

// Callers behind one address have no share and no rate: only the pool bounds them.
func TestASharedAddressIsNoCaller(t *testing.T) {
	p := callers.NewPool("checks", callers.Bounds{Each: 1, Strangers: 40, Rate: 0.001, Burst: 1})
	proxy := netip.MustParseAddr("10.1.2.3")
	forwards := func(a netip.Addr) bool { return a == proxy }
	for address, shared := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "10.1.2.3:9": true, "[::ffff:10.1.2.3]:9": true,
		"10.1.2.4:9": false, "[fd00::1]:9": false, "bufconn": false, "": false,
	} {
		if got := callers.Behind(address, forwards); got.Shared != shared {
			t.Errorf("%s: shared is %t", address, got.Shared)
		}
		if got := callers.Behind(address, nil); got.Shared && address == "10.1.2.3:9" {
			t.Error("without proxies an address is shared")
		}
	}
	for range 20 {
		enter(t, p, callers.Behind("127.0.0.1:1", nil))
		enter(t, p, callers.Behind("10.1.2.3:9", forwards))
	}
	refused(t, p, callers.Behind("127.0.0.1:1", nil), "40 checks are under way")
}

func TestCallersAreForgotten(t *testing.T) {
	for name, bounds := range map[string]callers.Bounds{
		"with a rate":    {Strangers: 10, Rate: 0.001, Burst: 10},
		"without a rate": {Strangers: 10},
	} {
		p := callers.NewPool("calls", bounds)
		held := enter(t, p, callers.At("10.255.0.1"))
		for i := range 4 * callers.MaxRemembered {
			enter(t, p, callers.At(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)))()
		}
		if n := p.Remembered(); n > callers.MaxRemembered+1 { // and the one that holds something
			t.Errorf("%s: %d callers are remembered", name, n)
		}
		held()
	}
}

// However many callers hold something, how fast another one came is remembered.
func TestARateIsRememberedBesideManyWhoHoldSomething(t *testing.T) {
	p := callers.NewPool("streams", callers.Bounds{Pods: 1 << 20, Rate: 0.001, Burst: 1})
	of := func(i int) callers.Caller { return callers.Caller{Kind: callers.Pod, Name: fmt.Sprint(i)} }
	for i := range 2 * callers.MaxRemembered {
		enter(t, p, of(i))
	}
	fast := of(-1)
	enter(t, p, fast)()
	for i := range callers.MaxRemembered / 2 {
		enter(t, p, of(-2-i))
	}
	refused(t, p, fast, "0.001 streams a second")
}
