package pipeline

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/authority"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/background"
)

// trusted keeps the certificates of the world.
type trusted struct {
	roots  *trust.Roots  // of the manager
	folder *trust.Folder // of the route server
}

// certify keeps certificates, as the manager does, mounts that of the route server, and
// opens it there.
func (w *path) certify(policy authority.Policy) {
	w.Helper()
	w.Namespaces("signadot")
	for _, name := range []string{"webhook-server-cert", "routeserver-tls", "traffic-tls"} {
		w.Make(&corev1.Secret{}, `{metadata: {namespace: signadot, name: `+name+`}}`)
	}
	policy.Hosts = []string{"signadot-webhook-service.signadot.svc"}
	roots := trust.NewRoots("what the test keeps")
	keeper, err := authority.NewKeeper(authority.Config{
		Client: w.Client, Policy: policy, Roots: roots, Every: 100 * time.Millisecond, Log: w.logger,
		Programs: []authority.Program{
			{Secret: "routeserver-tls", Hosts: []string{server.Name, "127.0.0.1", w.pod.Host.String()}},
			{Secret: "traffic-tls", Hosts: []string{"traffic-manager.signadot.svc", "10.244.2.1"}},
		},
	})
	w.Must(err)
	background.Run(w, keeper.Run)
	w.Eventually("there are certificates", keeper.Ready)
	dir := filepath.Join(w.TempDir(), "tls")
	w.Eventually("the certificate of the route server is mounted", func() error { return w.mount(w.Context(), "routeserver-tls", dir) })
	background.Run(w, func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := w.mount(ctx, "routeserver-tls", dir); err != nil && ctx.Err() == nil {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		}
		return nil
	})
	folder, err := trust.Open(trust.Config{Dir: dir, Name: server.Name, Every: 100 * time.Millisecond, Logger: w.logger})
	w.Must(err)
	w.tls = &trusted{roots: roots, folder: folder}
}

// mount does what the kubelet does with a Secret that is mounted: a new folder with all
// files, and a link that leads to it from then on.
func (w *path) mount(ctx context.Context, name, dir string) error {
	secret := &corev1.Secret{}
	if err := w.Client.Get(ctx, client.ObjectKey{Namespace: "signadot", Name: name}, secret); err != nil {
		return err
	}
	if len(secret.Data) == 0 {
		return errors.New("the Secret is empty")
	}
	now, err := os.MkdirTemp(filepath.Dir(dir), "data-")
	if err != nil {
		return err
	}
	for name, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(now, name), content, 0o600); err != nil {
			return err
		}
	}
	before, _ := os.Readlink(dir)
	if err := os.Symlink(now, dir+"-next"); err != nil {
		return err
	}
	if err := os.Rename(dir+"-next", dir); err != nil {
		return err
	}
	if before == "" {
		return nil
	}
	return os.RemoveAll(before)
}

// signers are the authorities that are trusted now.
func (w *path) signers() []*x509.Certificate {
	w.Helper()
	bundle, _ := w.tls.roots.Bundle()
	all, err := trust.ReadBundle(bundle)
	w.Must(err)
	return all
}

// The authority lives 30 days, and a pod longer: what a sidecar trusts follows, over
// streams that stay open, and outlives its container.
func TestASidecarFollowsTheAuthorityThroughThreeChanges(t *testing.T) {
	w := newWorldWith(t, authority.Policy{Authority: 24 * time.Second, Leaf: 4 * time.Second, Settle: 4 * time.Second})
	injected := w.signers()
	signs := injected[0] // the first of a bundle does
	for changes := 0; changes < 3; {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the test ended")
		}
		if now := w.signers()[0]; !now.Equal(signs) {
			signs = now
			changes++
		}
	}
	w.Eventually("no authority is left that the pod was made with", func() error {
		for _, a := range w.signers() {
			if slices.ContainsFunc(injected, a.Equal) {
				return fmt.Errorf("%s is", a.Subject.CommonName)
			}
		}
		return nil
	})
	if w.keeper.log.Says("the last routes stay") {
		t.Error("the stream did not stay open")
	}
	reaches := func(key string) {
		t.Helper()
		w.sandbox(key)
		w.Eventually("routes come for "+key, func() error { return failsVisibly(w, key) })
	}
	w.cable.Cut()
	reaches("anew")

	// Another container of the same pod.
	w.keeper.end()
	w.keeper.start()
	reaches("again")
	if w.keeper.log.Says("not trusted") {
		t.Error("after a restart it trusts nobody, for a while")
	}

	// One that was cut off all the time has nothing on disk.
	w.keeper.end()
	w.forget()
	w.keeper.start()
	w.Eventually("it says whom it does not trust, and what to do", func() error {
		if !w.keeper.log.Says("not trusted", injected[0].Subject.CommonName, "re-create it", w.pod.Host.String()) {
			return errors.New("not yet")
		}
		return nil
	})
	w.sandbox("never")
	time.Sleep(time.Second)
	if failsVisibly(w, "never") == nil {
		t.Error("it takes routes from whom it does not trust")
	}
	if !w.keeper.log.Says(devmesh.EnvTrust) {
		t.Error("it does not say where those come from whom it trusts")
	}
}

// forget removes what the sidecar has kept on disk of whom to trust.
func (w *path) forget() {
	w.Helper()
	if err := os.Remove(filepath.Join(w.keeper.run, "trust.pem")); err != nil {
		w.Error(err)
	}
}
