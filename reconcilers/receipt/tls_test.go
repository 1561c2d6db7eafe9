package receipt_test

import (
	"strings"
	"testing"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	"switchyard.dev/reconcilers/receipt"
	"switchyard.dev/tests/background"
)

// The manager does not trust an unauthenticated server that reports that all proxies know a key, and
// reports why.
func TestARouteServerThatIsNotTrustedGivesNoReceipt(t *testing.T) {
	ours, theirs := trusttest.New(t, "ours"), trusttest.New(t, "theirs")
	w := newWorld(t, receipt.Config{Patience: 1})
	for what, c := range map[string]struct{ address, says string }{
		"expired":           {trusttest.Serve(t, ours.Expired(t, "127.0.0.1")), "127.0.0.1 is not trusted: its certificate expired at"},
		"another program's": {trusttest.Serve(t, ours.Leaf(t, "eventbus.signadot.svc")), "its certificate is for eventbus.signadot.svc"},
		"another cluster's": {trusttest.Serve(t, theirs.Leaf(t, "127.0.0.1")), "its certificate is signed by theirs"},
		"none":              {w.address, "does not support TLS"},
	} {
		t.Run(what, func(t *testing.T) {
			roots := trust.NewRoots("the Secret")
			if err := roots.Set(ours.Bundle()); err != nil {
				t.Fatal(err)
			}
			var err error
			if w.receipts, err = receipt.New(receipt.Config{Address: c.address, Again: w.again, Roots: roots}); err != nil {
				t.Fatal(err)
			}
			defer background.Run(w.t, w.receipts.Run)()
			a := w.until("rc", receipt.Ask{Key: "k", Digest: "d"}, "it is not trusted", func(a receipt.Answer) bool { return a.Trouble != "" })
			if a.Had || !strings.Contains(a.Trouble, c.says) {
				t.Errorf("the answer is %+v, and does not say %q", a, c.says)
			}
		})
	}
}
