package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tools/wait"
)

// behind is how far the clock of a manager with an expired certificate is
// behind: an hour more than its certificates live.
const behind = 25 * time.Hour

// broken measures each way in which the webhook can be broken.
func (r *rig) broken(ctx context.Context, w io.Writer, c *creators, l load) error {
	for _, way := range []struct {
		name   string
		breaks func(context.Context) (mend func() error, err error)
	}{
		{"stopped", func(context.Context) (func() error, error) { return func() error { return nil }, nil }},
		{"deaf", func(context.Context) (func() error, error) { return deaf(r.webhook) }},
		{"dropped", func(context.Context) (func() error, error) { return drops(r.webhook) }},
		{"expired", r.expires},
	} {
		if err := r.breakAndCreate(ctx, w, c, l, way.name, way.breaks); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
	}
	return nil
}

// breakAndCreate makes one burst with a webhook that worked and is then broken.
func (r *rig) breakAndCreate(ctx context.Context, w io.Writer, c *creators, l load, name string,
	breaks func(context.Context) (func() error, error)) (err error) {
	usual, err := c.create(ctx, l.pods, true)
	if err != nil {
		return err
	}
	manager, err := r.startManager(ctx, r.orders())
	if err != nil {
		return err
	}
	ready := errors.Join(r.register(ctx, true), r.awaitInjecting(ctx, c))
	if err := errors.Join(ready, manager.Close()); err != nil {
		return err
	}
	mend, err := breaks(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mend(), r.register(ctx, false), r.awaitSilence(ctx, c)) }()
	before, err := r.ofTheAPIServer(ctx)
	if err != nil {
		return err
	}
	computed := computing()
	b, failed := c.create(ctx, l.pods, true)
	after, err := r.ofTheAPIServer(ctx)
	if err != nil {
		return err
	}
	if opened := after.since(before).sum(failedOpen); int(opened) != l.pods || b.injected > 0 {
		return errors.Join(failed, fmt.Errorf("of %d pods %d are injected, and for %.0f the webhook was tried and passed over",
			l.pods, b.injected, opened))
	}
	own, others := computed()
	all(w, "created-while-"+name, len(b.took), l.pods)
	figure(w, "late-while-"+name+"-max", b.late(usual), "s", 2, 0)
	figure(w, "late-while-"+name+"-p50", (figures.Millis(b.took, .5)-figures.Millis(usual.took, .5))/1000, "s", 0, 0)
	busy(w, "while-"+name, own, others)
	return nil // pods that were not created are in the figures
}

// expires serves a certificate of the right authority that is over.
func (r *rig) expires(ctx context.Context) (func() error, error) {
	o := r.orders()
	o.Behind = behind
	manager, err := r.startManager(ctx, o)
	if err != nil {
		return nil, err
	}
	err = wait.Until(ctx, patience, "an expired certificate of the published authority is served", func() error {
		hooks, err := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, r.hooks.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return isExpired(r.webhook, hooks.Webhooks[0].ClientConfig.CABundle)
	})
	if err != nil {
		return nil, errors.Join(err, manager.Close())
	}
	return manager.Close, nil
}

// isExpired returns why the certificate at an address is not one that is over and
// otherwise good.
func isExpired(address string, bundle []byte) error {
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // It is verified below.
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // Nothing was sent on it.
	leaf := c.ConnectionState().PeerCertificates[0]
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return errors.New("no authority is published")
	}
	if time.Now().Before(leaf.NotAfter) {
		return fmt.Errorf("it is good until %s", leaf.NotAfter)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: leaf.NotAfter})
	return err
}
