package manager_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/atrest"
	"switchyard.dev/reconcilers/drain"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/tests/world"
)

// restLate puts the owner of what is written to rest once the writer has made sure that
// it is not, and before it writes.
type restLate struct {
	client.Client
	mark func()
}

// Apply implements client.Client.
func (r restLate) Apply(ctx context.Context, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	r.mark()
	return r.Client.Apply(ctx, o, options...)
}

func TestNothingIsMadeForAnObjectThatIsPutToRestMeanwhile(t *testing.T) {
	const ns, installation = "restlate", types.UID("this-one")
	c := newCluster(t, ns)
	for _, tt := range []struct {
		name string
		when func(mark func()) client.Client
		made bool
	}{
		{"before it is written", func(mark func()) client.Client { mark(); return c.Client }, false},
		{"while it is written", func(mark func()) client.Client { return restLate{c.Client, mark} }, false},
		{"by another installation", func(mark func()) client.Client { return restLate{c.Client, mark} }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			owner := &crdv1.VirtualWorkload{}
			c.Make(owner, `{metadata: {generateName: rests-, namespace: `+ns+`}}`)
			of := installation
			if tt.made {
				of = "another"
			}
			mark := func() {
				world.Edit(c.World, owner, func(o *crdv1.VirtualWorkload) {
					o.Annotations = map[string]string{atrest.Annotation: atrest.Mark(of, time.Now())}
				})
			}
			yes := true
			want := &corev1.Service{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
				ObjectMeta: metav1.ObjectMeta{Name: owner.Name, Namespace: ns, OwnerReferences: []metav1.OwnerReference{
					{APIVersion: crdv1.APIVersion, Kind: crdv1.KindVirtualWorkload, Name: owner.Name, UID: owner.UID, Controller: &yes},
				}},
				Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			}
			writer := apply.Writer{Client: tt.when(mark), Live: atrest.Live(c.Client, installation)}
			_, err := apply.Apply(c.Context(), writer, want, nil)
			if tt.made && err != nil || !tt.made && !apierrors.IsConflict(err) {
				t.Errorf("%v", err)
			}
			err = c.Client.Get(c.Context(), client.ObjectKey{Namespace: ns, Name: owner.Name}, &corev1.Service{})
			if tt.made && err != nil || !tt.made && !apierrors.IsNotFound(err) {
				t.Errorf("what was made for it: %v", err)
			}
		})
	}
}

// drainedLate has the cluster drained before the first look whether a Service of a fork is
// there, and counts how often Services are written then.
type drainedLate struct {
	next   http.RoundTripper
	drain  func()
	writes *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (d drainedLate) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, name, is := strings.Cut(r.URL.Path, "/services/"); is && name != "" {
		switch r.Method {
		case http.MethodGet:
			d.drain()
		case http.MethodPatch:
			d.writes.Add(1)
		}
	}
	return d.next.RoundTrip(r)
}

// A controller that was at work on a member before the drain began makes nothing for it
// once that is over.
func TestTheManagerMakesNothingAfterTheDrain(t *testing.T) {
	t.Parallel()
	const ns = "drainedlate"
	c := ownCluster(t, ns)
	c.Make(&corev1.ConfigMap{}, `{metadata: {name: `+publish.EpochConfigMap+`, namespace: `+c.operator()+`}}`)
	var drained error
	var writes atomic.Int64
	once := sync.OnceFunc(func() {
		drained = drain.Run(c.Context(), drain.Config{Client: c.program(), Wait: patience, Keep: true, Namespace: c.operator(), Logger: world.Quiet})
	})
	slow := c.As("")
	slow.Wrap(func(next http.RoundTripper) http.RoundTripper { return drainedLate{next, once, &writes} })
	c.served(ns, "one")
	w := &crdv1.ForkedWorkload{}
	c.Make(w, `{apiVersion: signadot.com/v1, kind: ForkedWorkload, metadata: {name: by-hand, namespace: `+ns+`},
  spec: {baseline: {apiVersion: apps/v1, kind: Deployment, name: one}}}`)
	c.manage(manager.Config{REST: slow})
	c.Condition(w, crdv1.ConditionReady, "False", drain.ReasonUninstalled)
	c.quiet()
	if drained != nil {
		t.Error(drained)
	}
	if n := writes.Load(); n > 0 {
		t.Errorf("%d Services were written after the drain", n)
	}
	if left := c.madeBy(ns); len(left) > 0 {
		t.Errorf("these are left: %v", left)
	}
}

// A mark that an installation left that is gone says nothing of an object's end.
func TestTheEndOfAGroupWithTheMarkOfAnotherInstallationIsTold(t *testing.T) {
	c := shared(t, "othermark")
	g := c.group("othermark", "othermark-key")
	world.Edit(c.World, g, func(g *crdv1.SignadotRouteGroup) {
		g.Annotations = map[string]string{atrest.Annotation: atrest.Mark("another", time.Now().Add(-time.Hour))}
		g.Finalizers = []string{"example.com/theirs"}
	})
	c.remove(g)
	c.Eventually("its status says that nothing of it is left", func() error {
		if message := c.Condition(g, crdv1.ConditionReady, "False", "Deleting"); !strings.Contains(message, "Its RoutingConfigs are deleted.") {
			return fmt.Errorf("it says %q", message)
		}
		return nil
	})
	world.Edit(c.World, g, func(g *crdv1.SignadotRouteGroup) { g.Finalizers = nil })
	c.Gone(g)
}
