package trust_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	"switchyard.dev/tests/background"
)

const (
	name     = "routeserver.signadot.svc"
	patience = 5 * time.Second
)

func TestAFolderThatServesNobodyIsRefusedWithWhatIsWrong(t *testing.T) {
	ours, theirs := trusttest.New(t, "ours"), trusttest.New(t, "theirs")
	for what, c := range map[string]struct {
		write func(dir string)
		says  []string
	}{
		"none":              {func(string) {}, []string{"is missing", "controller manager writes it"}},
		"an expired one":    {func(d string) { ours.Write(t, d, ours.Expired(t, name)) }, []string{"tls.crt expired at", "is that running"}},
		"another program's": {func(d string) { ours.Write(t, d, ours.Leaf(t, "eventbus.signadot.svc")) }, []string{"for eventbus.signadot.svc", name, "another program or cluster"}},
		"another cluster's": {func(d string) { ours.Write(t, d, theirs.Leaf(t, name)) }, []string{"signed by theirs", "ca.crt: ours", "another program or cluster"}},
		"a key of another":  {func(d string) { ours.Write(t, d, ours.Leaf(t, name)); ours.WriteKey(t, d, ours.Leaf(t, name)) }, []string{"tls.crt and tls.key are not a certificate and its key", "Delete the Secret's data"}},
		"a bundle of no one": {func(d string) {
			ours.Write(t, d, ours.Leaf(t, name))
			trusttest.File(t, d, trust.BundleFile, []byte("x"))
		}, []string{"ca.crt: there is no certificate of an authority"}},
		"no authority as bundle": {func(d string) {
			leaf := ours.Leaf(t, name)
			ours.Write(t, d, leaf)
			trusttest.File(t, d, trust.BundleFile, leaf.Cert)
		}, []string{"is not an authority's"}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			c.write(dir)
			_, err := trust.Open(trust.Config{Dir: dir, Name: name})
			if err == nil {
				t.Fatal("it was opened")
			}
			for _, want := range append(c.says, dir) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

// open returns a folder with the certificate of an authority of its own.
func open(t *testing.T) *trust.Folder {
	t.Helper()
	ours, dir := trusttest.New(t, "ours"), t.TempDir()
	ours.Write(t, dir, ours.Leaf(t, name))
	f, err := trust.Open(trust.Config{Dir: dir, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// served serves the health service over gRPC with the certificate in a folder.
func served(t *testing.T, f *trust.Folder, acceptPlain bool, within time.Duration) (address string, l *callers.Listener) {
	t.Helper()
	l, err := callers.Listen("127.0.0.1:0", "health", 256, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.Creds(trust.ServerCredentials(f.Server(), acceptPlain)), grpc.ConnectionTimeout(within))
	healthv1.RegisterHealthServer(g, health.NewServer())
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return l.Addr().String(), l
}

// asks asks it once.
func asks(t *testing.T, address string, roots *trust.Roots, name string) error {
	t.Helper()
	conn, err := trust.Dial(address, name+":7777", roots)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	return err
}

func TestOnePortTakesTLSAndPlain(t *testing.T) {
	f := open(t)
	both, _ := served(t, f, true, patience)
	only, _ := served(t, f, false, patience)
	for what, c := range map[string]struct {
		address string
		roots   *trust.Roots
		good    bool
	}{
		"TLS":                   {both, f.Roots(), true},
		"plain":                 {both, nil, true},
		"TLS where it must be":  {only, f.Roots(), true},
		"plain where it is not": {only, nil, false},
	} {
		if err := asks(t, c.address, c.roots, name); (err == nil) != c.good {
			t.Errorf("%s: %v", what, err)
		}
	}
	// The library gives no name to a server that is called by an address.
	if err := asks(t, both, f.Roots(), "127.0.0.1"); err == nil || !strings.Contains(err.Error(), "its certificate is for "+name) {
		t.Errorf("called by an address that its certificate is not for: %v", err)
	}
	conn, err := tls.Dial("tcp", both, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err == nil {
		_ = conn.Close()
		t.Error("an older TLS is spoken")
	}
}

func TestUntrustedPeerIsRefused(t *testing.T) {
	ours, theirs := trusttest.New(t, "ours"), trusttest.New(t, "theirs")
	trusting := func(a *trusttest.Authority) *trust.Roots {
		r := trust.NewRoots("the mounted bundle")
		if a != nil {
			if err := r.Set(a.Bundle()); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	go func() { _ = g.Serve(plain) }()
	t.Cleanup(g.Stop)
	for what, c := range map[string]struct {
		address string
		roots   *trust.Roots
		says    []string
	}{
		"expired":           {trusttest.Serve(t, ours.Expired(t, name)), trusting(ours), []string{name + " is not trusted", "expired at", "is that running"}},
		"another program":   {trusttest.Serve(t, ours.Leaf(t, "eventbus.signadot.svc")), trusting(ours), []string{name + " is not trusted", "for eventbus.signadot.svc"}},
		"another cluster":   {trusttest.Serve(t, theirs.Leaf(t, name)), trusting(ours), []string{name + " is not trusted", "signed by theirs", "the mounted bundle: ours"}},
		"nobody trusted":    {trusttest.Serve(t, ours.Leaf(t, name)), trusting(nil), []string{"no authority is known yet (the mounted bundle)"}},
		"an older, plain":   {plain.Addr().String(), trusting(ours), []string{"does not support TLS", "earlier release"}},
		"itself, by itself": {trusttest.Serve(t, ours.Leaf(t, name)), trusting(ours), nil},
	} {
		err := asks(t, c.address, c.roots, name)
		if c.says == nil {
			if err == nil || strings.Contains(err.Error(), "not trusted") {
				t.Errorf("%s: %v", what, err) // it speaks TLS and no gRPC
			}
			continue
		}
		for _, want := range c.says {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", what, err, want)
			}
		}
	}
}

func TestFilesThatChangeAreTakenUpUnderOpenConnections(t *testing.T) {
	first, second := trusttest.New(t, "first"), trusttest.New(t, "second")
	dir := t.TempDir()
	first.Write(t, dir, first.Leaf(t, name))
	f, err := trust.Open(trust.Config{Dir: dir, Name: name, Every: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, f.Run)
	address, _ := served(t, f, false, patience)
	open, err := trust.Dial(address, name, f.Roots())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	watch, err := healthv1.NewHealthClient(open).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	old := trust.NewRoots("of before")
	if err := old.Set(first.Bundle()); err != nil {
		t.Fatal(err)
	}
	bundle, changed := f.Roots().Bundle()
	if string(bundle) != string(first.Bundle()) {
		t.Errorf("the bundle is %s", bundle)
	}
	trusttest.File(t, dir, trust.KeyFile, []byte("torn")) // what does not fit together is passed over
	time.Sleep(50 * time.Millisecond)
	if err := asks(t, address, old, name); err != nil {
		t.Errorf("while the files do not fit together: %v", err)
	}
	second.Write(t, dir, second.Leaf(t, name))
	select {
	case <-changed:
	case <-time.After(4 * patience):
		t.Fatal("the new files are not taken up")
	}
	for deadline := time.Now().Add(4 * patience); asks(t, address, f.Roots(), name) != nil && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if err := asks(t, address, f.Roots(), name); err != nil {
		t.Errorf("with the new bundle: %v", err)
	}
	if err := asks(t, address, old, name); err == nil || !strings.Contains(err.Error(), "signed by second") {
		t.Errorf("with the old bundle: %v", err)
	}
	if err := watch.Context().Err(); err != nil {
		t.Errorf("the stream that was open has ended: %v", err)
	}
}

// With its root in ca.crt, a certificate is renewed by another intermediate without a change at clients.
func TestIntermediatesAreRead(t *testing.T) {
	root, dir := trusttest.New(t, "root"), t.TempDir()
	write := func(signer *trusttest.Authority, shown bool) {
		leaf := signer.Leaf(t, name)
		if shown {
			leaf.Cert = append(leaf.Cert, signer.Bundle()...)
		}
		root.Write(t, dir, leaf)
	}
	write(root.Intermediate(t, "first"), false)
	if _, err := trust.Open(trust.Config{Dir: dir, Name: name, ByHand: true}); err == nil || !strings.Contains(err.Error(), "followed by its intermediates") {
		t.Errorf("without the intermediate in tls.crt: %v", err)
	}
	write(root.Intermediate(t, "first"), true)
	f, err := trust.Open(trust.Config{Dir: dir, Name: name, ByHand: true, Every: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, f.Run)
	client := trust.NewRoots("the root alone")
	if err := client.Set(root.Bundle()); err != nil {
		t.Fatal(err)
	}
	address, _ := served(t, f, false, patience)
	if err := asks(t, address, client, name); err != nil {
		t.Errorf("a client that trusts the root: %v", err)
	}
	write(root.Intermediate(t, "second"), true)
	issuer := func() string {
		c, err := f.Server().GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.Issuer.CommonName
	}
	for deadline := time.Now().Add(12 * patience); issuer() != "second" && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if got := issuer(); got != "second" {
		t.Errorf("after the renewal the certificate is signed by %s", got)
	}
	if err := asks(t, address, client, name); err != nil {
		t.Errorf("a client that trusts the root, after the renewal: %v", err)
	}
}

// Half a handshake costs what a silent connection costs, and ends in time.
func TestHalfHandshakesEnd(t *testing.T) {
	f := open(t)
	address, l := served(t, f, true, 2*time.Second)
	before, used := runtime.NumGoroutine(), heap()
	begun, conns := time.Now(), make([]net.Conn, 0, 1000)
	for i := range cap(conns) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		// A record of which most never comes, of a length that is read, or none at all.
		text := []byte{0x16, 3, 1, 0x1f, 0xff, 1, 0, 0x1f, 0xfb}
		_, _ = c.Write(text[:1+i%len(text)])
		conns = append(conns, c)
	}
	if n := runtime.NumGoroutine() - before; n > 2*256+50 {
		t.Errorf("%d goroutines for 256 connections that are let be", n)
	}
	if grown := int64(heap()) - int64(used); grown > 256*(32<<10)+(4<<20) {
		t.Errorf("%d KiB for 256 half handshakes", grown>>10)
	}
	if time.Since(begun) < 2*time.Second && l.Closed() == 0 {
		t.Errorf("none of 1,000 was closed to make room")
	}
	if err := asks(t, address, f.Roots(), name); err != nil {
		t.Errorf("an honest client meanwhile: %v", err)
	}
	deadline := time.Now().Add(4 * patience)
	for _, c := range conns { // every one is hung up on
		_ = c.SetReadDeadline(deadline)
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("half a handshake is waited for")
		}
	}
	for runtime.NumGoroutine() > before+10 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before+10 {
		t.Errorf("%d goroutines, and %d before", n, before)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

func TestAHandshakeThatIsTooLongIsRefused(t *testing.T) {
	ours := trusttest.New(t, "ours")
	dir := t.TempDir()
	ours.Write(t, dir, ours.Leaf(t, name))
	f, err := trust.Open(trust.Config{Dir: filepath.Clean(dir), Name: name})
	if err != nil {
		t.Fatal(err)
	}
	address, _ := served(t, f, true, 2*patience)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	_, _ = c.Write([]byte{0x16, 3, 1, 0x40, 0})
	_ = c.SetReadDeadline(began.Add(3 * patience))
	if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > patience {
		t.Errorf("a record of 16 KiB is waited for: %v after %v", err, time.Since(began))
	}
}
