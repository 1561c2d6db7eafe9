package certificates_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"switchyard.dev/controlplane-link/certificates"
)

// Each domain gets a certificate, which the other replica uses too; both are renewed after two thirds of their lifetime.
func TestOrderAndRenewal(t *testing.T) {
	w := newWorld(t)
	one, two := w.replica("a.example.net", "b.example.net"), w.replica("a.example.net", "b.example.net")
	one.check("", "")
	first := one.leaf("x.a.example.net")
	for host, good := range map[string]bool{"x.a.example.net": true, "x.b.example.net": true, "a.example.net": false, "x.y.a.example.net": false} {
		if err := handshake(t, one.Source, host, w.root); (err == nil) != good {
			t.Errorf("%s: %v", host, err)
		}
	}
	if one.Covers("x.a.example.net", "x.b.example.net") || !one.Covers("x.a.example.net", "y.a.example.net") {
		t.Error("domains have certificates of their own")
	}
	if left := w.dns.records(); len(left) != 0 {
		t.Errorf("records of challenges that were left: %v", left)
	}
	two.check("", "")
	if !two.leaf("x.a.example.net").Equal(first) || w.dns.inserts.Load() != 2 {
		t.Errorf("the other replica has ordered: %d challenges", w.dns.inserts.Load())
	}
	one.restart("a.example.net", "b.example.net")
	one.check("", "")
	if !one.leaf("x.a.example.net").Equal(first) {
		t.Error("a replica that was restarted has another certificate")
	}

	w.now(first.NotBefore.Add(first.NotAfter.Sub(first.NotBefore)/3*2 - time.Second))
	two.check("", "")
	if w.dns.inserts.Load() != 2 {
		t.Error("renewed before two thirds of the lifetime")
	}
	w.now(first.NotBefore.Add(first.NotAfter.Sub(first.NotBefore)/3*2 + 10*time.Minute)) // the second one is younger
	two.Check(t.Context())
	two.check("", "") // at this time the new certificates are due at once
	w.now(time.Now()) // that of the server: the new certificates begin now
	renewed := two.leaf("x.a.example.net")
	one.check("", "")
	if renewed.Equal(first) || !one.leaf("x.a.example.net").Equal(renewed) || w.dns.inserts.Load() != 4 {
		t.Errorf("renewal: %d challenges", w.dns.inserts.Load())
	}
}

// The nameserver refuses updates, then the server is away: the certificate stays, orders are few, and the reason is reported.
func TestFailedRenewal(t *testing.T) {
	w := newWorld(t)
	one, two := w.replica("a.example.net"), w.replica("a.example.net")
	one.check("", "")
	first := one.leaf("x.a.example.net")
	due := first.NotBefore.Add(first.NotAfter.Sub(first.NotBefore) / 3 * 2)
	w.dns.refuse.Store(true)
	w.now(due)
	one.check("", "REFUSED")
	if !strings.Contains(one.log.String(), "was not renewed") || metric(t, one.metrics, "failure_timestamp_seconds") != float64(due.Unix()) {
		t.Errorf("metric %f, log %s", metric(t, one.metrics, "failure_timestamp_seconds"), &one.log)
	}
	refused := w.dns.refused.Load()
	two.check("", "REFUSED")
	w.now(due.Add(59 * time.Minute))
	two.check("", "REFUSED")
	one.check("", "REFUSED")
	if w.dns.refused.Load() != refused {
		t.Error("ordered again too early")
	}
	w.now(due.Add(76 * time.Minute))
	two.check("", "REFUSED")
	if w.dns.refused.Load() == refused {
		t.Error("not ordered again")
	}
	w.stopACME()
	w.now(first.NotAfter.Add(-14 * 24 * time.Hour))
	one.check("The certificate for *.a.example.net is valid until ", "connection refused")
	if !one.leaf("x.a.example.net").Equal(first) || handshake(t, one.Source, "x.a.example.net", w.root) != nil {
		t.Error("the previous certificate is not used")
	}
	w.now(first.NotAfter)
	one.check("The certificate for *.a.example.net is valid until ", "connection refused")
	w.dns.refuse.Store(false)
	w.startACME()
	w.now(first.NotAfter.Add(16 * time.Hour))
	two.Check(t.Context())
	w.now(time.Now()) // that of the server: the new certificate begins now
	two.check("", "")
	if two.leaf("x.a.example.net").Equal(first) || metric(t, two.metrics, "failure_timestamp_seconds") != 0 {
		t.Error("not renewed")
	}
}

// A wrong TSIG key is named, and the right one is used at once.
func TestWrongTSIGKey(t *testing.T) {
	w := newWorld(t)
	w.settings("keyName: other")
	s := w.replica("a.example.net")
	s.check("There is no certificate for *.a.example.net: ", fmt.Sprintf("order a certificate for *.a.example.net at https://127.0.0.1:%d/dir: ", w.acme))
	s.check("no certificate", fmt.Sprintf("nameserver %s refuses the update of zone example.net. with TSIG key other.: NOTAUTH. Check the name, algorithm and secret of the key", w.dns.address))
	w.settings("secret: d3Jvbmc=")
	s.check("no certificate", "with TSIG key switchyard.: NOTAUTH.")
	w.settings("algorithm: hmac-md5")
	s.check("no certificate", "bad key algorithm")
	w.settings("nameserver: ''")
	s.check("no certificate", "write nameserver (")
	if err := handshake(t, s.Source, "x.a.example.net", w.root); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("without a certificate: %v", err)
	}
	w.settings("algorithm: hmac-sha512")
	s.check("", "")
}

// A secondary without the record delays the order; _acme-challenge can be a CNAME record.
func TestSecondariesAndCNAME(t *testing.T) {
	w := newWorld(t)
	secondary := newNameserver(t)
	w.settings(fmt.Sprintf("secondaries: [%q]", secondary.address))
	w.dns.mu.Lock()
	w.dns.cname = map[string]string{"_acme-challenge.a.example.net.": "a.challenges.example.net."}
	w.dns.mu.Unlock()
	w.dns.changed = func(r dns.RR) {
		if r.Header().Name != "a.challenges.example.net." {
			t.Errorf("an update of %s", r.Header().Name)
		}
		go func() {
			for secondary.queries.Load() < 3 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			secondary.insert(r)
		}()
	}
	s := w.replica("a.example.net")
	s.check("", "")
	if len(secondary.records()) == 0 {
		t.Error("ordered before the secondary had the record")
	}
}

// Many replicas start at the same time: one orders.
func TestOneReplicaOrders(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	replicas := make([]*replica, 8)
	for i := range replicas {
		replicas[i] = w.replica("a.example.net")
	}
	for _, r := range replicas {
		all.Go(func() { r.Check(t.Context()) })
	}
	all.Wait()
	if n := w.dns.inserts.Load(); n != 1 {
		t.Errorf("%d orders", n)
	}
	for _, r := range replicas {
		r.check("", "")
	}
}

// A replica hangs in an order: another one takes over once its lease has ended, and what the first one does later counts
// no more.
func TestAnotherReplicaTakesOver(t *testing.T) {
	w := newWorld(t)
	one, two := w.replica("a.example.net"), w.replica("a.example.net")
	hangs, resume := make(chan struct{}), make(chan struct{})
	var hung atomic.Bool
	w.dns.before = func() {
		if !hung.Swap(true) {
			close(hangs)
			<-resume
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		one.Check(t.Context())
	}()
	<-hangs
	two.check("There is no certificate", "")
	w.now(time.Now().Add(16 * time.Minute))
	two.check("", "")
	taken := two.leaf("x.a.example.net")
	close(resume)
	<-ended
	one.check("", "")
	if !one.leaf("x.a.example.net").Equal(taken) {
		t.Error("the certificate of the replica that was late")
	}
}

// A replica that ends in the middle of an order counts no failure, deletes its record, and the next one need not wait for
// the lease.
func TestAnInterruptedOrder(t *testing.T) {
	w := newWorld(t)
	one, two := w.replica("a.example.net"), w.replica("a.example.net")
	ctx, end := context.WithCancel(t.Context())
	var once sync.Once
	w.dns.changed = func(dns.RR) { once.Do(end) }
	one.Check(ctx)
	if left := w.dns.records(); len(left) != 0 {
		t.Errorf("records of challenges that were left: %v", left)
	}
	two.check("", "")
}

// A replica that starts serves the certificates of all domains in the store before it renews the first one.
func TestStoredCertificatesAreServedFirst(t *testing.T) {
	w := newWorld(t)
	one := w.replica("a.example.net", "b.example.net")
	one.check("", "")
	last := one.leaf("x.b.example.net")
	w.now(last.NotAfter.Add(-time.Hour))
	hangs, resume := w.hang()
	one.restart("a.example.net", "b.example.net")
	var checked sync.WaitGroup
	checked.Go(func() { one.Check(t.Context()) })
	<-hangs
	for _, host := range []string{"x.a.example.net", "x.b.example.net"} {
		if err := handshake(t, one.Source, host, w.root); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	close(resume)
	checked.Wait()
	if one.leaf("x.b.example.net").Equal(last) {
		t.Error("not renewed then")
	}
}

// hang has the next update of the nameserver close hangs, and wait for resume.
func (w *world) hang() (hangs, resume chan struct{}) {
	hangs, resume = make(chan struct{}), make(chan struct{})
	w.dns.before = sync.OnceFunc(func() {
		close(hangs)
		<-resume
	})
	return hangs, resume
}

// The page names a domain without a certificate also while the first order runs.
func TestTheFirstOrder(t *testing.T) {
	w := newWorld(t)
	hangs, resume := w.hang()
	one := w.replica("a.example.net")
	var checked sync.WaitGroup
	checked.Go(func() { one.Check(t.Context()) })
	<-hangs
	if got := one.States()[0].Problem; got != "There is no certificate for *.a.example.net: it is being ordered." {
		t.Errorf("the problem is %q", got)
	}
	close(resume)
	checked.Wait()
	one.check("", "")
}

// Settings that are not valid end the start, and name the flag.
func TestSettings(t *testing.T) {
	good := certificates.ACME{Directory: "https://acme.example/dir", AcceptTerms: true, RFC2136: "file"}
	for want, change := range map[string]func(*certificates.ACME){
		"not a URL":          func(a *certificates.ACME) { a.Directory = "http://acme.example/dir" },
		"-acme-accept-terms": func(a *certificates.ACME) { a.AcceptTerms = false },
		"-acme-rfc2136":      func(a *certificates.ACME) { a.RFC2136 = "" },
	} {
		bad := good
		change(&bad)
		if _, err := certificates.New(certificates.Config{Domains: []string{"a.example"}, ACME: &bad}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, c := range []certificates.Config{{}, {Domains: []string{"a.example"}}, {Domains: []string{"a.example"}, Dir: "x", ACME: &good}, {Dir: "x"}} {
		if _, err := certificates.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
