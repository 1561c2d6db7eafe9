package receipt_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/receipt"
	"switchyard.dev/tests/background"
)

func TestAReceiptIsHadWhenAllHaveAcknowledged(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := newWorld(t, receipt.Config{Patience: 1, Metrics: registry})
	before := w.tip()
	at := w.route("k")
	w.proxies.acknowledge("a", at, "")
	w.proxies.acknowledge("b", before, "no such cluster")
	ask := receipt.Ask{Key: "k", Digest: "d1", Pods: []string{"shop/c", "shop/a", "shop/b"}}
	if a := w.receipts.Look(t.Context(), "rc", ask); !a.IsUnknown() {
		t.Errorf("nobody was asked yet, and the answer is %+v", a)
	}
	if n := gauge(t, registry, "switchyard_receipt_awaited"); n != 1 {
		t.Errorf("%v receipts are awaited", n)
	}
	if name := w.woken(); name != "rc" {
		t.Errorf("%q is to be looked at", name)
	}
	want := receipt.Answer{Proxies: 2, Behind: []receipt.Proxy{{Pod: "shop/b", Rejected: "no such cluster"}}, Missing: []string{"shop/c"}}
	if diff := cmp.Diff(want, w.receipts.Look(t.Context(), "rc", ask)); diff != "" {
		t.Error(diff)
	}
	w.proxies.acknowledge("b", at, "")
	w.until("rc", ask, "only one is missing", func(a receipt.Answer) bool { return !a.Had && len(a.Behind) == 0 && len(a.Missing) == 1 })
	w.proxies.acknowledge("c", at, "")
	w.until("rc", ask, "all have", had)

	// It is had whatever becomes of the proxies, and for this digest alone.
	w.proxies.acknowledge("c", before, "")
	ask.Pods = append(ask.Pods, "shop/d")
	if a := w.receipts.Look(t.Context(), "rc", ask); !a.Had {
		t.Errorf("it is taken back: %+v", a)
	}
	if n := gauge(t, registry, "switchyard_receipt_awaited"); n != 0 {
		t.Errorf("%v receipts are awaited", n)
	}
	ask.Digest, ask.Pods = "d2", nil
	if a := w.receipts.Look(t.Context(), "rc", ask); a.Had {
		t.Error("what another digest stands for was not acknowledged")
	}
	w.until("rc", ask, "c is behind", func(a receipt.Answer) bool { return len(a.Behind) == 1 && a.Behind[0].Pod == "shop/c" })
	w.receipts.Forget("rc")
	if n := gauge(t, registry, "switchyard_receipt_awaited"); n != 0 {
		t.Errorf("%v receipts are awaited after all was forgotten", n)
	}
}

func TestAnAnswerThatComesAtOnceIsThereAtTheFirstLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, receipt.Config{Patience: patience})
	w.proxies.acknowledge("a", w.route("k"), "")
	ask := receipt.Ask{Key: "k", Digest: "d", Pods: []string{"shop/a"}}
	if a := w.receipts.Look(t.Context(), "rc", ask); !a.Had {
		t.Errorf("the answer is %+v", a)
	}
	ask.Digest, ask.Pods = "d2", []string{"shop/b"}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if a := w.receipts.Look(ended, "rc", ask); !a.IsUnknown() {
		t.Errorf("who cannot wait gets %+v", a)
	}
}

func TestADeletedPodIsNotAwaited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, receipt.Config{Patience: 1})
	w.proxies.acknowledge("a", w.route("k"), "")
	gone := receipt.Ask{Key: "k", Digest: "d", Pods: []string{"shop/a", "shop/gone"}}
	w.until("rc", gone, "it is missing", func(a receipt.Answer) bool { return len(a.Missing) == 1 })
	without := receipt.Ask{Key: "k", Digest: "d", Pods: []string{"shop/a"}}
	w.receipts.Look(t.Context(), "rc", without) // replaces the current query
	w.woken()
	if a := w.receipts.Look(t.Context(), "rc", without); !a.Had {
		t.Errorf("the next answer is %+v", a)
	}
}

func TestAFactDuringAQuestionNeedsAnotherReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, receipt.Config{Patience: 1})
	w.route("k")
	first := receipt.Ask{Key: "k", Digest: "d1", Pods: []string{"shop/a"}}
	w.receipts.Look(t.Context(), "rc", first) // in progress: no acknowledgement yet
	at := w.route("k2")
	w.proxies.acknowledge("a", event.Pos{Epoch: at.Epoch, Seq: at.Seq - 1}, "")
	second := receipt.Ask{Key: "k2", Digest: "d2", Pods: []string{"shop/a"}}
	w.until("rc", second, "a is behind", func(a receipt.Answer) bool { return len(a.Behind) == 1 })
	w.proxies.acknowledge("a", at, "")
	w.until("rc", second, "a has it", had)
}

func TestARouteServerThatIsAwayIsAskedAgain(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, receipt.Config{Patience: 1})
	if w.receipts, err = receipt.New(receipt.Config{Address: address, Again: w.again}); err != nil {
		t.Fatal(err)
	}
	background.Run(w.t, w.receipts.Run)
	w.proxies.acknowledge("a", w.route("k"), "")
	ask := receipt.Ask{Key: "k", Digest: "d"}
	a := w.until("rc", ask, "it is away", func(a receipt.Answer) bool { return a.Trouble != "" })
	if a.Had || a.IsUnknown() {
		t.Errorf("the answer is %+v", a)
	}
	w.serve(address)
	w.until("rc", ask, "it is back", had)
}

// A key that can be had at once does not wait for those that some proxy holds up,
// however many there are.
func TestKeysThatAreHeldUpDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, receipt.Config{Patience: 1, Questions: 4})
	w.proxies.acknowledge("a", w.route("k"), "")
	var held []receipt.Ask
	for i := range 20 {
		held = append(held, receipt.Ask{Key: "k", Digest: "d", Pods: []string{fmt.Sprintf("shop/missing-%d", i)}})
	}
	looked := map[string]int{}
	look := func(name string) {
		var i int
		if _, err := fmt.Sscanf(name, "held-%d", &i); err == nil {
			w.receipts.Look(t.Context(), name, held[i])
		}
		looked[name]++
	}
	for i := range held {
		look(fmt.Sprintf("held-%d", i))
	}
	for repeated := 0; repeated < len(held); repeated++ { // every one has had its first answer
		look(w.woken())
	}
	w.receipts.Look(t.Context(), "quick", receipt.Ask{Key: "k", Digest: "d"})
	for n := 0; looked["quick"] == 0; n++ {
		if n > 2 {
			t.Fatalf("%d answers to questions that were asked before came first", n)
		}
		look(w.woken())
	}
	if a := w.receipts.Look(t.Context(), "quick", receipt.Ask{Key: "k", Digest: "d"}); !a.Had {
		t.Errorf("the answer is %+v", a)
	}
}

func TestAConfigThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	again := make(publish.Again)
	for name, c := range map[string]receipt.Config{
		"no address":        {Again: again},
		"no port":           {Again: again, Address: "routeserver"},
		"nobody is woken":   {Address: "routeserver:7777"},
		"one question only": {Again: again, Address: "routeserver:7777", Questions: 1},
	} {
		if r, err := receipt.New(c); err == nil || r != nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// gauge returns the value of a gauge.
func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
