package adapter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istio"
)

const (
	// atOnce is how many VirtualServices are written at the same time: each write may wait for
	// webhooks, ours and those of others.
	atOnce = 8
	// notedEach is how often IstioRoutes are told while a look still writes.
	notedEach = 500 * time.Millisecond
	// missing is for how long the webhook is not counted on, once it has put no routes in.
	missing = time.Minute
)

// round is one look.
type round struct {
	mesh     *istio.Mesh
	services []istio.Service
	seen     seen
	all      []*one

	mu sync.Mutex
	// noted is when IstioRoutes were told last; failed: something has to be tried again.
	noted  time.Time
	failed bool
}

// one is a VirtualService in a look.
type one struct {
	have      *unstructured.Unstructured
	rendering istio.Rendering
	// status is empty once the VirtualService is as it should be; else it and the message are for
	// the status of IstioRoutes.
	status, message string
}

// behind reports whether it is not as it should be.
func (o *one) behind() bool { return o.status != "" }

// name is for people.
func (o *one) name() string { return o.have.GetNamespace() + "/" + o.have.GetName() }

// bring renders all VirtualServices, writes those that are not as they should be, where this
// process may, and notes what came of it. It returns false when something has to be tried again.
func (a *Adapter) bring(ctx context.Context, r *round, all []*unstructured.Unstructured) bool {
	r.noted = time.Now()
	elected := a.elected()
	for _, have := range all {
		o := &one{have: have, rendering: render(r.mesh, have)}
		if o.rendering.Changed {
			o.status, o.message = StatusPending, "Its routes are being written."
			if !elected {
				o.message = "The replica that leads writes its routes."
			}
		}
		r.all = append(r.all, o)
	}
	if elected {
		var writing errgroup.Group
		writing.SetLimit(atOnce)
		for _, o := range r.all {
			if o.behind() {
				writing.Go(func() error {
					a.writeOne(ctx, r, o)
					return nil
				})
			}
		}
		_ = writing.Wait() // None returns an error.
	}
	a.note(r)
	return !r.failed
}

// writeOne writes a VirtualService, and notes from time to time what has become of all so far.
func (a *Adapter) writeOne(ctx context.Context, r *round, o *one) {
	err := a.write(ctx, o.have, o.rendering.Object)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		o.status, o.message = "", ""
		a.config.Logger.Info("wrote the routes of a VirtualService", "namespace", o.have.GetNamespace(), "name", o.have.GetName())
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), errors.Is(err, context.Canceled):
		// The cache will hear of it, which leads here again.
		o.message = "Somebody else has changed it since it was read. It will be read again."
	default:
		r.failed = true
		o.status, o.message = StatusFailed, fmt.Sprintf("VirtualService %s cannot be written: %v. Retrying.", o.name(), err)
		a.config.Logger.Warn("a VirtualService cannot be written; retrying", "namespace", o.have.GetNamespace(), "name", o.have.GetName(), "error", err)
	}
	if time.Since(r.noted) > notedEach {
		a.note(r)
		r.noted = time.Now()
	}
}

// reports returns what there is to say of each Target so far, and the VirtualServices that are
// not as they should be.
func (r *round) reports() (reports map[Target]Report, behind []*unstructured.Unstructured) {
	var renderings []istio.Rendering
	of := map[string]*one{}
	for _, o := range r.all {
		renderings = append(renderings, o.rendering)
		of[o.name()] = o
		if o.behind() {
			behind = append(behind, o.have)
		}
	}
	reports = map[Target]Report{}
	for _, s := range r.services {
		for _, sandbox := range s.Sandboxes {
			report := Report{Looked: true, Trouble: r.seen.trouble}
			if r.seen.trouble == nil {
				report = reportOf(r.mesh.Report(types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, sandbox.Key, renderings), sandbox.Key, of)
			}
			reports[Target{sandbox.Key, s.Namespace, s.Name}] = report
		}
	}
	return reports, behind
}
