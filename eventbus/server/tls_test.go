package server_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/server"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	"switchyard.dev/tests/background"
)

// secured starts the bus with a certificate, and returns it and its authority.
func secured(t *testing.T, ns string, more ...string) (*program, *trusttest.Authority, string) {
	t.Helper()
	ours, dir := trusttest.New(t, "ours"), t.TempDir()
	ours.Write(t, dir, ours.Leaf(t, server.Name, "127.0.0.1"))
	return startOn(t, ns, filepath.Join(t.TempDir(), "store"), append(more, "--tls-dir", dir)...), ours, dir
}

// client connects with the authority by; nil: without TLS. Its log is in the output.
func client(t *testing.T, p *program, role connect.Role, token string, by *trusttest.Authority) (*jetstream.Log, interface{ IsConnected() bool }, *background.Output) {
	t.Helper()
	said := &background.Output{}
	c := connect.Config{URL: p.url, Role: role, TokenFile: token, Name: t.Name(), Logger: slog.New(slog.NewTextHandler(said, nil))}
	if by != nil {
		c.Roots = trust.NewRoots("the mounted bundle")
		if err := c.Roots.Set(by.Bundle()); err != nil {
			t.Fatal(err)
		}
	}
	log, conn, err := connect.Open(c, jetstream.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return log, conn, said
}

func TestTheBusTakesTLSAndPlainUntilItIsToldNotTo(t *testing.T) {
	ns := namespace(t)
	p, ours, _ := secured(t, ns, "--accept-plain")
	writer, conn, _ := client(t, p, connect.Writer, tokenFile(t, ns, "writer"), ours)
	await(t, "the writer is connected over TLS", conn.IsConnected)
	if _, err := writer.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Append(t.Context(), logtest.Fact("a", 1), 0); err != nil {
		t.Fatal(err)
	}
	_, plain, _ := client(t, p, connect.Follower, tokenFile(t, ns, "reader"), nil)
	await(t, "a follower of an earlier release is connected", plain.IsConnected)

	strict, ours, _ := secured(t, ns, "--accept-plain=false")
	_, follower, _ := client(t, strict, connect.Follower, tokenFile(t, ns, "reader"), ours)
	await(t, "a follower is connected over TLS", follower.IsConnected)
	_, plain, said := client(t, strict, connect.Follower, tokenFile(t, ns, "reader"), nil)
	await(t, "a plain one is not let in", func() bool { return said.Says("certificate") || said.Says("TLS") || said.Says("tls") })
	if plain.IsConnected() {
		t.Error("a plain follower is let in")
	}
}

func TestAClientTakesNobodyElseForTheBus(t *testing.T) {
	ns := namespace(t)
	p, ours, dir := secured(t, ns)
	token := tokenFile(t, ns, "reader")
	theirs := trusttest.New(t, "theirs")
	_, stranger, said := client(t, p, connect.Follower, token, theirs)
	await(t, "another cluster's client says whom it does not trust", func() bool {
		return said.Says("127.0.0.1 is not trusted: its certificate is signed by ours") && said.Says("the mounted bundle: theirs")
	})
	if stranger.IsConnected() {
		t.Error("it is connected all the same")
	}
	earlier := start(t, ns)
	_, there, said := client(t, earlier, connect.Follower, token, ours)
	await(t, "a client that is to trust somebody does not speak plain", func() bool { return said.Says("secure connection not available") })
	if there.IsConnected() {
		t.Error("it is connected all the same")
	}

	// The files change under connections that are open.
	_, follower, _ := client(t, p, connect.Follower, token, ours)
	await(t, "the follower is connected", follower.IsConnected)
	theirs.Write(t, dir, theirs.Leaf(t, server.Name, "127.0.0.1"))
	await(t, "the new certificate is served, and trusted by who was not let in before", stranger.IsConnected)
	if !follower.IsConnected() {
		t.Error("the follower has lost its connection")
	}
}

func TestABusWithABadCertificateDoesNotStart(t *testing.T) {
	ours, theirs := trusttest.New(t, "ours"), trusttest.New(t, "theirs")
	for what, c := range map[string]struct {
		pair *trusttest.Pair
		says string
	}{
		"none":              {nil, "is missing: the controller manager writes it"},
		"expired":           {new(ours.Expired(t, server.Name)), "expired at"},
		"another program's": {new(ours.Leaf(t, "routeserver.signadot.svc")), "for routeserver.signadot.svc"},
		"another cluster's": {new(theirs.Leaf(t, server.Name)), "signed by theirs"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if c.pair != nil {
				ours.Write(t, dir, *c.pair)
			} else {
				dir = filepath.Join(dir, "nothing")
			}
			settings, err := server.ParseSettings([]string{"--store", t.TempDir(), "--tls-dir", dir,
				"--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--metrics", "127.0.0.1:0"}, unset, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			s, err := server.Start(server.Config{Settings: settings, Reviews: nil, Logger: slog.New(slog.DiscardHandler)})
			if err == nil {
				s.Close()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%v does not say %q, or not where", err, c.says)
			}
		})
	}
}

// Incomplete handshakes block no other client, and end in time.
func TestTheBusEndsHalfHandshakes(t *testing.T) {
	ns := namespace(t)
	p, ours, _ := secured(t, ns)
	var conns []net.Conn
	for i := range 100 {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "nats://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write(bytes.Repeat([]byte{0x16}, 1+i%5))
		conns = append(conns, c)
	}
	_, follower, _ := client(t, p, connect.Follower, tokenFile(t, ns, "reader"), ours)
	await(t, "a follower is connected meanwhile", follower.IsConnected)
	deadline := time.Now().Add(10 * time.Second)
	for _, c := range conns {
		_ = c.SetReadDeadline(deadline)
		if _, err := io.Copy(io.Discard, c); err != nil && time.Now().After(deadline) {
			t.Fatal("half a handshake is waited for")
		}
	}
	if p.log.Says(`"level":"ERROR"`) {
		t.Error("strangers who do not shake hands have an error logged")
	}
}
