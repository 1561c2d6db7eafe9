package keeper_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/xds/serve"
)

// serveXDSWith starts an xDS server on the board with a certificate and a trust bundle.
func (r *rig) serveXDSWith(ours *trusttest.Authority, p trusttest.Pair) {
	r.t.Helper()
	dir := r.t.TempDir()
	ours.Write(r.t, dir, ours.Leaf(r.t, r.node)) // a good one, to be opened
	f, err := trust.Open(trust.Config{Dir: dir, Name: r.node})
	r.must(err)
	config := f.Server()
	if p.Cert != nil {
		config = trusttest.Server(r.t, p)
	}
	sessions, err := serve.FromView(serve.ViewConfig{View: r.Board.View, Identify: identify})
	r.must(err)
	r.XDS, r.stopXDS, err = sidecar.Serve(serve.Config{Sessions: sessions, Trust: f.Roots()},
		net.JoinHostPort(r.node, xdsPort), grpc.Creds(trust.ServerCredentials(config, true)))
	r.must(err)
	r.t.Cleanup(r.stopXDS)
}

// trusting has the sidecars of the rig trust an authority, as the injector does.
func (r *rig) trusting(ours *trusttest.Authority) {
	r.under = []string{"env", devmesh.EnvTrust + "=" + string(ours.Bundle())}
}

// says waits until all words have been logged.
func (r *rig) says(words ...string) {
	r.t.Helper()
	r.eventually("it says why", func() error {
		content, err := os.ReadFile(r.logFile())
		for _, word := range words {
			if err == nil && !strings.Contains(string(content), word) {
				err = errors.New("not " + word)
			}
		}
		return err
	})
}

func TestASidecarTakesNothingFromWhomItDoesNotTrust(t *testing.T) {
	for what, c := range map[string]struct {
		serve func(r *rig, ours, theirs *trusttest.Authority)
		says  string
	}{
		"an expired certificate": {func(r *rig, ours, _ *trusttest.Authority) {
			r.serveXDSWith(ours, ours.Expired(t, r.node))
		}, "its certificate expired at"},
		"another program's": {func(r *rig, ours, _ *trusttest.Authority) {
			r.serveXDSWith(ours, ours.Leaf(t, "eventbus.signadot.svc"))
		}, "its certificate is for eventbus.signadot.svc"},
		"another cluster's": {func(r *rig, _, theirs *trusttest.Authority) {
			r.serveXDSWith(theirs, theirs.Leaf(t, r.node))
		}, "its certificate is signed by theirs, which is not a trusted authority (" + devmesh.EnvTrust},
		"none": {func(r *rig, _, _ *trusttest.Authority) { r.serveXDS() }, "does not support TLS"},
	} {
		t.Run(what, func(t *testing.T) {
			ours, theirs := trusttest.New(t, "ours"), trusttest.New(t, "theirs")
			r := newRig(t)
			r.Board.Complete()
			r.trusting(ours)
			c.serve(r, ours, theirs)
			r.sidecar()
			r.says(c.says, "the last routes stay", net.JoinHostPort(r.node, xdsPort))
			if acks := r.XDS.Acks(); len(acks) > 0 {
				t.Errorf("it takes routes: %+v", acks)
			}
			if _, err := os.Stat(filepath.Join(r.run, "trust.pem")); err == nil {
				t.Error("it believes whom to trust")
			}
		})
	}
}

func TestASidecarSpeaksTLSAndKeepsWhomToTrust(t *testing.T) {
	ours, next := trusttest.New(t, "ours"), trusttest.New(t, "next")
	r := newRig(t)
	r.Board.Complete()
	r.trusting(ours)
	r.serveXDSWith(ours, trusttest.Pair{})
	first := r.sidecar()
	r.acked()
	file := filepath.Join(r.run, "trust.pem")
	r.eventually("it keeps whom to trust", func() error {
		kept, err := os.ReadFile(file)
		if err == nil && string(kept) != string(ours.Bundle()) {
			err = errors.New(string(kept))
		}
		return err
	})
	r.must(first.Process.Kill())
	_ = first.Wait()
	r.stopXDS()

	// Announced authorities count in addition to those that the pod was created with.
	trusttest.File(t, r.run, "trust.pem", next.Bundle())
	r.serveXDSWith(next, trusttest.Pair{})
	second := r.sidecar()
	r.acked()
	r.must(second.Process.Kill())
	_ = second.Wait()
	r.stopXDS()

	// A damaged file is ignored, and logged.
	trusttest.File(t, r.run, "trust.pem", []byte("damaged"))
	r.serveXDSWith(ours, trusttest.Pair{})
	r.sidecar()
	r.says("the announced authorities cannot be read from disk")
	r.acked()
}

// Pods of an earlier release have no authorities.
func TestASidecarThatWasInjectedWithoutTrustSpeaksPlain(t *testing.T) {
	r := newRig(t)
	r.Board.Complete()
	r.serveXDSWith(trusttest.New(t, "ours"), trusttest.Pair{})
	r.sidecar()
	r.acked()
	if _, err := os.Stat(filepath.Join(r.run, "trust.pem")); err == nil {
		t.Error("it believes whom to trust, over a plain connection")
	}
}

func TestASidecarWithoutAReadableAuthorityDoesNotStart(t *testing.T) {
	r := newRig(t)
	r.under = []string{"env", devmesh.EnvTrust + "=nobody"}
	cmd := r.sidecar()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	r.says(devmesh.EnvTrust, "there is no certificate of an authority", "re-create the pod")
}
