package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/publisher"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/sweep/state"
	"switchyard.dev/tests/sweep/wire"
	"switchyard.dev/tools/wait"
)

// Cycles are sandboxes, each with a new name, that are created, become ready and are deleted: with
// forks, a workstation or a virtual workload.
type Cycles struct {
	// Count is how many, AtOnce how many side by side.
	Count, AtOnce int
}

// Cycled is the state after that.
type Cycled struct {
	// Left are objects, of whatever kind, that are the operator's by a label or an owner, and
	// facts and rules. There should be none.
	Left []string
	// Before and After are the memory in use after the first tenth and after all, in
	// MiB: that of the manager and of this program around it.
	Before, After float64
}

// history is how many events the log keeps, so that its growth hides no other.
const history = 500

// Run runs them all.
func (c Cycles) Run(ctx context.Context, w *World) (Cycled, error) {
	var out Cycled
	w.bounds = publisher.Bounds{Events: history}
	defer func() { w.bounds = publisher.Bounds{} }()
	end, err := w.start(ctx, func(int) wire.Faults { return wire.Faults{} })
	if err == nil {
		first := max(1, c.Count/10)
		if err = c.cycle(ctx, w, 0, first); err == nil {
			out.Before = w.heap()
			err = c.cycle(ctx, w, first, c.Count)
		}
	}
	if err == nil {
		out.After = w.heap()
		err = wait.Until(ctx, w.patience, "find leftovers", func() error {
			var err error
			if out.Left, err = w.owned(ctx); err == nil && len(out.Left) > 0 {
				return errors.New("something is")
			}
			return err
		})
		if len(out.Left) > 0 {
			err = nil
		}
	}
	end()
	return out, errors.Join(err, w.wipe(ctx))
}

// heap returns the heap in use, in MiB, without the ledger of all objects.
func (w *World) heap() float64 {
	w.ledger.Forget()
	return float64(frame.Heap()) / (1 << 20)
}

// cycle has sandboxes come and go, from one number to below another.
func (c Cycles) cycle(ctx context.Context, w *World, from, to int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, c.AtOnce))
	for n := from; n < to; n++ {
		group.Go(func() error { return w.comeAndGo(ctx, change{fmt.Sprintf("cycle-%d", n), 1 + n}) })
	}
	return group.Wait()
}

// comeAndGo is one cycle.
func (w *World) comeAndGo(ctx context.Context, one change) error {
	if err := w.bring(ctx, one); err != nil {
		return err
	}
	s := &crdv1.SignadotSandbox{}
	key := client.ObjectKey{Name: one.sandbox}
	err := wait.Until(ctx, patience, one.sandbox+" gets ready", func() error {
		if err := w.people.Get(ctx, key, s); err != nil {
			return err
		}
		if !crdv1.IsTrue(s.Status.Conditions, crdv1.ConditionReady, s.Generation) {
			return fmt.Errorf("%+v", s.Status.Conditions)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.bring(ctx, change{one.sandbox, 0}); err != nil {
		return err
	}
	return wait.Until(ctx, patience, one.sandbox+" goes", func() error {
		if err := w.people.Get(ctx, key, s); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there, with finalizers %q: %w", s.Finalizers, errors.Join(err))
		}
		return nil
	})
}

// owned returns all objects of the operator, of every kind that the API server has, and the content
// of the log and the routing table.
func (w *World) owned(ctx context.Context) ([]string, error) {
	all, err := w.everything()
	if err != nil {
		return nil, err
	}
	objects, err := state.List(ctx, w.people, all...)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, o := range objects {
		if o.GetKind() != "Event" && isOurs(&o) {
			out = append(out, state.Name(&o))
		}
	}
	routes, err := state.Routes(ctx, w.store.Open())
	if err != nil {
		return nil, err
	}
	for what := range routes {
		out = append(out, what)
	}
	slices.Sort(out)
	return out, nil
}

// isOurs reports whether an object is the operator's by a label, an owner, a finalizer or its
// kind.
func isOurs(o *unstructured.Unstructured) bool {
	if o.GroupVersionKind().Group == crdv1.GroupVersion().Group {
		return true
	}
	for _, ref := range o.GetOwnerReferences() {
		if ref.APIVersion == crdv1.APIVersion {
			return true
		}
	}
	for label := range o.GetLabels() {
		if label != crdv1.LabelInjected && strings.Contains(label, crdv1.GroupVersion().Group) { // that is on pods of baselines
			return true
		}
	}
	return slices.Contains(o.GetFinalizers(), crdv1.Finalizer)
}

// everything returns every kind that can be listed.
func (w *World) everything() ([]schema.GroupVersionKind, error) {
	asking, err := discovery.NewDiscoveryClientForConfig(w.server.Config)
	if err != nil {
		return nil, err
	}
	lists, err := asking.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("ask for all kinds: %w", err)
	}
	var out []schema.GroupVersionKind
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && !strings.Contains(r.Name, "/") {
				out = append(out, version.WithKind(r.Kind))
			}
		}
	}
	return out, nil
}
