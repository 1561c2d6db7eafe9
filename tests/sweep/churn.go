package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/sweep/wire"
	"switchyard.dev/tools/wait"
)

// Churn is users that create, change and delete sandboxes while the API server is unreliable. The
// expected result is known beforehand: the result of creating the final sandboxes without faults.
type Churn struct {
	// Changes is how many there are, Pause the time between two of them.
	Changes int
	Pause   time.Duration
	// Sandboxes is of how many names.
	Sandboxes int
	// Seed is what everything random follows from.
	Seed uint64
	// Expire is after how long each watch ends with 410 Gone; 0 for never. The lists
	// that follow come in pages that have expired, too.
	Expire time.Duration
	// Kills is how often the API server is killed.
	Kills int
	// Away is how long it is away each time, beside the time it needs to start.
	Away time.Duration
	// Meshes: users have routes in meshes, and the operator routes with them as well.
	Meshes bool
}

// page is how many objects a page of a list has.
const page = 3

// change is what happens to one sandbox: it gets this form, 0 for none.
type change struct {
	sandbox string
	form    int
}

// changes draws what happens, and returns the sandboxes that there are at the end.
func (c Churn) changes() (all []change, end map[string]int) {
	random := rand.New(rand.NewPCG(c.Seed, 0xc402))
	end = map[string]int{}
	for i := range c.Changes {
		one := change{fmt.Sprintf("churn-%d", random.IntN(c.Sandboxes)), 1 + i}
		if _, there := end[one.sandbox]; there && random.IntN(3) == 0 {
			one.form = 0
			delete(end, one.sandbox)
		} else {
			end[one.sandbox] = one.form
		}
		all = append(all, one)
	}
	return all, end
}

// Run runs it.
func (c Churn) Run(ctx context.Context, w *World) (Result, error) {
	if c.Meshes {
		if err := errors.Join(w.server.DefineIstio(ctx), w.server.DefineGatewayAPI(ctx)); err != nil {
			return Result{}, err
		}
		w.meshes = true
		defer func() { w.meshes = false }()
	}
	all, last := c.changes()
	want, err := w.Golden(ctx, Scenario{{"the sandboxes of the end are made", func(ctx context.Context, w *World) error {
		for _, name := range slices.Sorted(maps.Keys(last)) {
			if err := w.bring(ctx, change{name, last[name]}); err != nil {
				return err
			}
		}
		return nil
	}}})
	if err != nil {
		return Result{}, err
	}
	var r Result
	end, err := w.start(ctx, func(int) wire.Faults {
		f := wire.Faults{Expire: c.Expire}
		if c.Expire > 0 {
			f.Page = page
		}
		return f
	})
	if err == nil {
		if err = c.play(ctx, w, all); err == nil {
			w.calm()
			r.Findings = w.settle(ctx, want.States[0])
		}
	}
	r.Lives = end()
	return r, errors.Join(err, w.wipe(ctx))
}

// calm stops watches from ending early: caches back off longer and longer between two attempts,
// which would only take time.
func (w *World) calm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lives {
		l.Gate.Calm()
	}
}

// play has all changes happen, and the API server killed in between.
func (c Churn) play(ctx context.Context, w *World, all []change) error {
	for i, one := range all {
		if c.Kills > 0 && i > 0 && i%(len(all)/(c.Kills+1)) == 0 && i/(len(all)/(c.Kills+1)) <= c.Kills {
			if err := w.server.Kill(); err != nil {
				return err
			}
			_ = wait.For(ctx, c.Away)
			if err := w.server.Restart(ctx); err != nil {
				return err
			}
		}
		if err := w.bring(ctx, one); err != nil {
			return err
		}
		_ = wait.For(ctx, c.Pause)
	}
	return ctx.Err()
}

// bring brings a sandbox into a form, or deletes it, over an API server that may fail. It does
// not wait for the deletion, unless another of its name is created. That takes several steps,
// before each of which a cache with watches that ended early may wait for a minute.
func (w *World) bring(ctx context.Context, one change) error {
	return wait.Until(ctx, 4*patience, fmt.Sprintf("bring %s into form %d", one.sandbox, one.form), func() error {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.TrimSpace(formOf(one))), &o.Object); err != nil {
			return err
		}
		if one.form == 0 {
			return client.IgnoreNotFound(w.people.Delete(ctx, o))
		}
		have := &crdv1.SignadotSandbox{}
		switch err := w.people.Get(ctx, client.ObjectKeyFromObject(o), have); {
		case apierrors.IsNotFound(err):
			return w.people.Create(ctx, o)
		case err != nil:
			return err
		case have.DeletionTimestamp != nil:
			return errors.New("one of its name is still going")
		}
		o.SetResourceVersion(have.ResourceVersion)
		o.SetFinalizers(have.Finalizers)
		return w.people.Update(ctx, o)
	})
}

// formOf returns a sandbox: by its form it forks one or two baselines, is a workstation
// for another, or stands before one.
func formOf(c change) string {
	baselines := []string{"shop", "cart", "pay", "mail", "stock", "ads"}
	at := func(i int) string { return baselines[(c.form+i)%len(baselines)] }
	var patches strings.Builder
	for i := range 1 + c.form%2 {
		fmt.Fprintf(&patches, `
    - target: {apiVersion: apps/v1, kind: Deployment, namespace: sweep, name: %s}
      strategic: {spec: {template: {spec: {containers: [{name: main, image: "fork:%d"}]}}}}`, at(i), c.form)
	}
	text := fmt.Sprintf(`
apiVersion: signadot.com/v1
kind: SignadotSandbox
metadata: {name: %s}
spec:
  id: %s-key
  customization:
    patches:%s`, c.sandbox, c.sandbox, patches.String())
	if c.form%3 == 0 {
		text += fmt.Sprintf(`
  virtualWorkloads: [{name: virtual, baseline: {apiVersion: apps/v1, kind: Deployment, namespace: sweep, name: %s}}]`, at(2))
	}
	if c.form%3 == 1 {
		text += fmt.Sprintf(`
  externalWorkloads: [%s]`, external("outside", at(3)))
	}
	return text
}

// external is an external workload with a baseline.
func external(name, baseline string) string {
	return fmt.Sprintf(`{name: %s, baseline: {apiVersion: apps/v1, kind: Deployment, namespace: sweep, name: %s},
    tunnel: {baselineToLocals: [{baselinePort: 8080, localAddress: "localhost:3000"}]}}`, name, baseline)
}
