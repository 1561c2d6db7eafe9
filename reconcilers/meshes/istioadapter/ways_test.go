package istioadapter_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/tests/world"
)

// ways are in which owners write a VirtualService from a file.
var ways = []struct {
	name string
	// makes writes it for the first time, again each time after that.
	makes, again []string
}{
	{"kubectl apply", strings.Fields("apply"), strings.Fields("apply")},
	{"kubectl apply --server-side", strings.Fields("apply --server-side"), strings.Fields("apply --server-side")},
	{"kubectl apply --server-side --force-conflicts", strings.Fields("apply --server-side --force-conflicts"), strings.Fields("apply --server-side --force-conflicts")},
	{"kubectl create and replace", strings.Fields("create"), strings.Fields("replace")},
	{"from kubectl apply to --server-side", strings.Fields("apply"), strings.Fields("apply --server-side")},
	{"Argo CD", strings.Fields("apply --field-manager=argocd-controller"), strings.Fields("apply --field-manager=argocd-controller")},
	{"from Argo CD to its ServerSideApply=true", strings.Fields("apply --field-manager=argocd-controller"),
		strings.Fields("apply --server-side --force-conflicts --field-manager=argocd-controller")},
	{"Argo CD with ServerSideApply=true", strings.Fields("apply --server-side --force-conflicts --field-manager=argocd-controller"),
		strings.Fields("apply --server-side --force-conflicts --field-manager=argocd-controller")},
	{"Flux", strings.Fields("apply --server-side --force-conflicts --field-manager=kustomize-controller"),
		strings.Fields("apply --server-side --force-conflicts --field-manager=kustomize-controller")},
}

// errOurs: we own some of the spec.
var errOurs = errors.New("we own some of the spec")

const both = "ours k1, api, ours k1, rest"

func TestNoWayOfApplyingFailsOrLosesRoutes(t *testing.T) {
	w := world.Shared(t)
	define(w)
	for _, away := range []bool{false, true} {
		name := map[bool]string{false: "with the webhook", true: "without"}[away]
		t.Run(name, func(t *testing.T) {
			for _, way := range ways {
				t.Run(way.name, func(t *testing.T) {
					c := start(t, w, istioadapter.Settings{})
					c.hook()
					c.away.Store(away)
					c.writes.Store(0)
					written := func(args []string, timeout string) {
						t.Helper()
						if said, err := c.kubectl(c.file(timeout), append(args, "-f", "-")...); err != nil {
							t.Fatalf("%s", said)
						}
					}
					written(way.makes, "1s")
					c.sandbox("k1")
					c.has("ours k1", "api", "ours k1", "rest")
					c.heldByOwner()
					gaps := c.gaps(t)
					for _, after := range []string{"1s", "2s", "2s", "3s"} {
						written(way.again, after)
						c.has("ours k1", "api", "ours k1", "rest")
						c.heldByOwner()
						if got := timeout(c.virtualService()); got != after {
							t.Errorf("the owner's timeout is %s, not %s", got, after)
						}
					}
					if n := gaps(); n > 0 && !away {
						t.Errorf("it was without our routes %d times", n)
					}
					if n := c.writes.Load(); n > 1 && !away {
						t.Errorf("we wrote %d times, not once", n)
					}
					c.withdraw("k1")
					c.has("api", "rest")
				})
			}
		})
	}
}

// heldByOwner fails when we own any of the spec.
func (c *cluster) heldByOwner() {
	c.Helper()
	// The ownership of fields written without the webhook is given up right after.
	c.Eventually("nothing of the spec is ours", func() error {
		for _, e := range c.virtualService().GetManagedFields() {
			if e.Manager == crdv1.FieldManager && strings.Contains(string(e.FieldsV1.Raw), "f:spec") {
				return errOurs
			}
		}
		return nil
	})
}

// gaps counts the versions of the VirtualService without the operator's routes from now on, until the
// returned function is called.
func (c *cluster) gaps(t *testing.T) func() int {
	t.Helper()
	seen := c.watch(c.virtualService().GetResourceVersion())
	return func() int {
		n, last := 0, c.virtualService().GetResourceVersion()
		for e := range seen.ResultChan() {
			u, ok := e.Object.(*unstructured.Unstructured)
			if !ok || e.Type != watch.Modified {
				t.Fatalf("the watch says %+v", e)
			}
			if strings.Join(routes(u), ", ") != both {
				n++
			}
			if u.GetResourceVersion() == last {
				break
			}
		}
		seen.Stop()
		return n
	}
}

// watch returns a watch of the VirtualServices of the test after a version.
func (c *cluster) watch(version string) watch.Interface {
	c.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(istioadapter.VirtualServices.GroupVersion().WithKind("VirtualServiceList"))
	seen, err := c.Client.Watch(c.Context(), list, client.InNamespace(c.ns), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
	c.Must(err)
	c.Cleanup(seen.Stop)
	return seen
}

func TestAllIsTakenBack(t *testing.T) {
	w := world.Shared(t)
	define(w)
	for _, away := range []bool{false, true} {
		for _, way := range []string{"apply", "apply --server-side"} {
			t.Run(map[bool]string{false: "with the webhook", true: "without"}[away]+", kubectl "+way, func(t *testing.T) {
				c := start(t, w, istioadapter.Settings{Labels: map[string]string{"in-use": "yes", "of": "us"}, Annotations: map[string]string{"in-use": "yes"}})
				c.hook()
				c.away.Store(away)
				if said, err := c.kubectl(c.file("1s"), append(strings.Fields(way), "-f", "-")...); err != nil {
					t.Fatal(said)
				}
				before := c.virtualService()
				c.sandbox("k1")
				c.sandbox("k2")
				c.has("ours k1", "ours k2", "api", "ours k1", "ours k2", "rest")
				between := c.virtualService()
				if l := between.GetLabels(); l["in-use"] != "yes" || l["of"] != "owner" || between.GetAnnotations()["in-use"] != "yes" {
					t.Errorf("its labels are %v, its annotations %v", l, between.GetAnnotations())
				}
				c.heldByOwner()
				c.withdraw("k1")
				c.has("ours k2", "api", "ours k2", "rest")
				c.heldByOwner()
				c.writes.Store(0)
				c.withdraw("k2")
				c.has("api", "rest")
				if n := c.writes.Load(); !away && n != 1 {
					t.Errorf("we wrote %d times to take all back, not once", n)
				}
				c.Eventually("it is what it was", func() error {
					if diff := cmp.Diff(timeless(before), timeless(c.virtualService())); diff != "" {
						return errors.New(diff)
					}
					return nil
				})
				if said, err := c.kubectl(c.file("2s"), "apply", "--server-side", "-f", "-"); err != nil {
					t.Error(said)
				}
			})
		}
	}
}

// timeless returns an object without what each write changes.
func timeless(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	u.SetResourceVersion("")
	u.SetGeneration(0)
	fields := u.GetManagedFields()
	for i := range fields {
		fields[i].Time = nil
	}
	u.SetManagedFields(fields)
	return u.Object
}
