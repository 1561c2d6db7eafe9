package replay

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/datadriven"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/yaml"

	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/tests/fakecluster"
	"switchyard.dev/tools/wait"
)

// mesh is an adapter at work. It implements meshes.Kinds: the adapter asks it what there is at
// the beginning of each look.
type mesh struct {
	adapter interface {
		Start(context.Context) error
		Stir()
	}
	// first is the kind that a look asks for first, and looks is how many have begun.
	first schema.GroupKind
	looks atomic.Int64
}

// Present implements meshes.Kinds: the cluster has all.
func (m *mesh) Present(_ context.Context, kind schema.GroupKind) (bool, error) {
	if kind == m.first {
		m.looks.Add(1)
	}
	return true, nil
}

// Source implements meshes.Kinds. It tells of nothing: the adapters are stirred.
func (*mesh) Source(schema.GroupKind, handler.EventHandler, ...predicate.Predicate) source.Source {
	return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
}

// addMeshes adds adapters that know nothing yet to what controllers are made of. told takes where
// they tell what became of their routes.
func (o *operator) addMeshes(c *kinds.Config, told map[string]publish.Again) error {
	o.meshes = nil
	elected, logger := make(chan struct{}), slog.New(slog.DiscardHandler)
	close(elected)
	for _, name := range o.routedBy {
		m, again := &mesh{}, make(publish.Again)
		told[name] = again
		switch name {
		case "istio":
			a, err := istioadapter.New(istioadapter.Config{Log: o.log, Client: o.cluster.Client, Kinds: m, Elected: elected, Again: again, Logger: logger})
			if err != nil {
				return err
			}
			m.adapter, m.first, c.Istio = a, istioadapter.VirtualServices.GroupKind(), a
		case "gateway-api":
			a, err := gatewayadapter.New(gatewayadapter.Config{
				Config:   meshes.Config{Log: o.log, Client: o.cluster.Client, Kinds: m, Elected: elected, Again: again, Logger: logger},
				Settings: gatewayadapter.Settings{Enabled: true, Istio: true, PolicyKinds: []policies.Kind{}}, VirtualServices: c.Istio != nil,
			})
			if err != nil {
				return err
			}
			m.adapter, m.first, c.GatewayAPI = a, gatewayadapter.HTTPRoutes.GroupKind(), a
		default:
			return fmt.Errorf("%q is no mesh", name)
		}
		o.meshes = append(o.meshes, m)
	}
	return nil
}

// meshesLook waits until each mesh has been looked at as it is now. A look that had begun may
// have read before; what the next one reads, and writes, is done when a third one has begun.
func (o *operator) meshesLook(ctx context.Context) error {
	for _, m := range o.meshes {
		for last := m.looks.Load() + 3; m.looks.Load() < last; {
			m.adapter.Stir()
			if err := wait.For(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// show returns all objects of some kinds: what tells who has made them, and their spec.
func (o *operator) show(ctx context.Context, d *datadriven.TestData) (string, error) {
	var out strings.Builder
	for _, arg := range d.CmdArgs {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(versioned(fakecluster.Document{"kind": arg.Key}).GroupVersionKind())
		list.SetKind(arg.Key + "List")
		if err := o.cluster.Client.List(ctx, list); err != nil {
			return "", err
		}
		for _, u := range list.Items {
			content := map[string]any{"labels": u.GetLabels(), "annotations": u.GetAnnotations()}
			for _, part := range []string{"spec", "data"} {
				if u.Object[part] != nil {
					content[part] = u.Object[part]
				}
			}
			text, err := yaml.Marshal(content)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&out, "%s %s/%s\n%s", arg.Key, u.GetNamespace(), u.GetName(), text)
		}
	}
	return out.String(), nil
}
