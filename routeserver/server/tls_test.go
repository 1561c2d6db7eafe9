package server_test

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"switchyard.dev/eventbus/memory"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/peers"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/tests/background"
)

func TestARouteServerWithABadCertificateDoesNotStart(t *testing.T) {
	ours, theirs := trusttest.New(t, "ours"), trusttest.New(t, "theirs")
	for what, c := range map[string]struct {
		pair trusttest.Pair
		says string
	}{
		"none":              {trusttest.Pair{}, "is missing: the controller manager writes it"},
		"expired":           {ours.Expired(t, server.Name), "expired at"},
		"another program's": {ours.Leaf(t, "eventbus.signadot.svc"), "for eventbus.signadot.svc"},
		"another cluster's": {theirs.Leaf(t, server.Name), "signed by theirs"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if c.pair.Cert != nil {
				ours.Write(t, dir, c.pair)
			}
			settings, err := server.ParseSettings([]string{"-tls-dir", dir}, func(string) string { return "" }, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			_, hangUp, err := settings.Open(slog.New(slog.DiscardHandler))
			if err == nil {
				hangUp()
				t.Fatal("it would start")
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%v does not say %q, or not where", err, c.says)
			}
		})
	}
	for _, args := range [][]string{{"-accept-plain=false"}, {"-eventbus-url=tls://eventbus.signadot.svc:4222"}} {
		if _, err := server.ParseSettings(args, func(string) string { return "" }, io.Discard); err == nil || !strings.Contains(err.Error(), "-tls-dir") {
			t.Errorf("%q without a certificate: %v", args, err)
		}
	}
}

// Published clients go on as ever, and our own programs are sure whom they ask.
func TestTheRoutesAPIIsServedOverTLSAndPlain(t *testing.T) {
	ours, theirs := trusttest.New(t, "ours"), trusttest.New(t, "theirs")
	dir := t.TempDir()
	ours.Write(t, dir, ours.Leaf(t, server.Name, "127.0.0.1"))
	folder, err := trust.Open(trust.Config{Dir: filepath.Clean(dir), Name: server.Name})
	if err != nil {
		t.Fatal(err)
	}
	main, err := server.New(server.Config{
		Log: memory.New(), TLS: folder, RequireTLS: true,
		GRPCAddress: "127.0.0.1:0", RESTAddress: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, main.Run)

	plain, err := grpc.NewClient("passthrough:///"+main.GRPCAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := routingv1.NewRoutingClient(plain).Sidecars(t.Context(), &routingv1.SidecarsRequest{}); err != nil {
		t.Errorf("a published client: %v", err)
	}
	for what, c := range map[string]struct {
		by     *trusttest.Authority
		silent int
	}{"another route server": {ours, 0}, "that of another cluster": {theirs, 1}} {
		roots := trust.NewRoots("the mounted bundle")
		if err := roots.Set(c.by.Bundle()); err != nil {
			t.Fatal(err)
		}
		p, err := peers.New(peers.Config{
			Service: strings.Replace(main.GRPCAddress(), "127.0.0.1", server.Name, 1), Roots: roots, Within: 3 * time.Second,
			Lookup: func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, silent := p.Sidecars(t.Context(), nil); len(silent) != c.silent {
			t.Errorf("%s finds %q silent", what, silent)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
