package optional_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/reconcilers/optional"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
)

const group = "made.up"

// kinds are two kinds of this test alone.
var kinds = []optional.Kind{
	{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Widget"}, Definition: "widgets.made.up"},
	{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v2", Kind: "Gadget"}, Definition: "gadgets.made.up",
		Indexes: map[string]client.IndexerFunc{"color": func(o client.Object) []string { return []string{o.GetLabels()["color"]} }},
		Keep: func(o any) (any, error) {
			if u, ok := o.(*unstructured.Unstructured); ok {
				delete(u.Object, "secret")
			}
			return o, nil
		}},
}

func TestMain(m *testing.M) { world.Main(m) }

// cluster is an API server, and the optional kinds in it.
type cluster struct {
	*world.World
	optional.Client
	output  *background.Output
	refused atomic.Int64
	// asked counts the questions about what the API server serves of the Gadgets.
	asked atomic.Int64
	// deny has each request about definitions refused. It ends no watch: cut ends that of the
	// first kind's.
	deny atomic.Bool
	cut  atomic.Pointer[context.CancelFunc]
}

// start runs the optional kinds as a user; as the administrator for "".
func start(t *testing.T, user string) *cluster { return patient(t, user, time.Second) }

func patient(t *testing.T, user string, patience time.Duration) *cluster {
	t.Helper()
	c := &cluster{World: world.Shared(t), output: &background.Output{}}
	logger := slog.New(slog.NewTextHandler(c.output, nil))
	klog.SetSlogLogger(logger)
	access := c.As(user)
	access.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(q *http.Request) (*http.Response, error) {
			if strings.HasSuffix(q.URL.Path, "/apis/made.up/v2") {
				c.asked.Add(1)
			}
			if strings.Contains(q.URL.Path, "/customresourcedefinitions") {
				if c.deny.Load() {
					c.refused.Add(1)
					return forbidden(q), nil
				}
				if query := q.URL.Query(); query.Get("watch") != "" && strings.HasSuffix(query.Get("fieldSelector"), "="+kinds[0].Definition) {
					ctx, cut := context.WithCancel(q.Context())
					c.cut.Store(&cut)
					q = q.WithContext(ctx)
				}
			}
			answer, err := next.RoundTrip(q)
			if err == nil && answer.StatusCode == http.StatusForbidden {
				c.refused.Add(1)
			}
			return answer, err
		})
	})
	all, err := optional.New(optional.Config{REST: rest.CopyConfig(access), Kinds: kinds, Logger: logger, Patience: patience})
	c.Must(err)
	c.Client = optional.Client{Client: c.World.Client, Kinds: all}
	background.Run(c, all.Start)
	return c
}

// forbidden is the answer to a request without the right.
func forbidden(q *http.Request) *http.Response {
	body := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no right"}`
	return &http.Response{
		Request: q, StatusCode: http.StatusForbidden, Status: "403 Forbidden",
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// define installs the definition of a kind until the test ends.
func (c *cluster) define(kind optional.Kind) (remove func()) {
	c.Helper()
	d := &apiextensionsv1.CustomResourceDefinition{}
	plural, _, _ := strings.Cut(kind.Definition, ".")
	c.Make(d, fmt.Sprintf(`
metadata: {name: %s}
spec:
  group: %s
  names: {kind: %s, plural: %s}
  scope: Namespaced
  versions: [{name: %s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]`,
		kind.Definition, group, kind.Kind, plural, kind.Version))
	remove = func() {
		c.Eventually("the definition of "+kind.Kind+" is gone", func() error {
			if err := c.World.Client.Delete(context.Background(), d); !apierrors.IsNotFound(err) { // c.Context has ended at the end of the test.
				return fmt.Errorf("it is being deleted: %w", err)
			}
			return nil
		})
	}
	c.Cleanup(remove)
	return remove
}

// create makes an object as soon as the API server serves its kind.
func (c *cluster) create(kind optional.Kind, name, color string) {
	c.Helper()
	c.Eventually("the API server takes "+name, func() error {
		u := empty(kind)
		u.SetNamespace("default")
		u.SetName(name)
		u.SetLabels(map[string]string{"color": color})
		u.Object["secret"] = "s"
		return c.World.Client.Create(c.Context(), u)
	})
}

func empty(kind optional.Kind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind.GroupVersionKind)
	return u
}

// read reads an object through the optional kinds.
func (c *cluster) read(kind optional.Kind, name string) (*unstructured.Unstructured, error) {
	u := empty(kind)
	return u, c.Client.Get(c.Context(), client.ObjectKey{Namespace: "default", Name: name}, u)
}

// eventually waits until an object can be read.
func (c *cluster) eventually(kind optional.Kind, name string) *unstructured.Unstructured {
	c.Helper()
	var u *unstructured.Unstructured
	c.Eventually(name+" can be read", func() (err error) {
		u, err = c.read(kind, name)
		return err
	})
	return u
}

// gone waits until there is no such kind.
func (c *cluster) gone(kind optional.Kind) {
	c.Helper()
	c.Eventually("there is no "+kind.Kind, func() error {
		if _, err := c.read(kind, "any"); !meta.IsNoMatchError(err) {
			return fmt.Errorf("reading one: %w", err)
		}
		return nil
	})
	if there, err := c.Present(c.Context(), kind.GroupKind()); there || err != nil {
		c.Errorf("%s is present: %t, %v", kind.Kind, there, err)
	}
}

// list returns how many objects of a kind there are.
func (c *cluster) list(kind optional.Kind, options ...client.ListOption) int {
	c.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	c.Must(c.Client.List(c.Context(), list, options...))
	return len(list.Items)
}

// heard subscribes a controller to a kind, and returns its events: names, and "" for the appearance or
// removal of the kind.
func (c *cluster) heard(kind optional.Kind) <-chan string {
	c.Helper()
	out := make(chan string, 100)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	c.Must(c.Source(kind.GroupKind(), handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			out <- e.Object.GetName()
		},
		GenericFunc: func(_ context.Context, e event.GenericEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			out <- e.Object.GetName()
		},
	}).Start(c.Context(), queue))
	return out
}

// hears waits for what a controller hears next.
func (c *cluster) hears(heard <-chan string, want ...string) {
	c.Helper()
	left := map[string]int{}
	for _, w := range want {
		left[w]++
	}
	for range want {
		select {
		case name := <-heard:
			left[name]--
		case <-time.After(world.Patience):
			c.Fatalf("nothing more is heard; left of %q: %v", want, left)
		}
	}
	for name, n := range left {
		if n != 0 {
			c.Errorf("of %q: %d too few", name, n)
		}
	}
}

func TestEachKindComesAndGoesByItself(t *testing.T) {
	c := start(t, "")
	widget, gadget := kinds[0], kinds[1]
	c.gone(widget)
	c.gone(gadget)
	if n := c.list(gadget); n != 0 {
		t.Errorf("%d of a kind that is not there", n)
	}
	heard := c.heard(gadget)

	remove := c.define(gadget)
	c.create(gadget, "first", "red")
	c.hears(heard, "", "first")
	if u := c.eventually(gadget, "first"); u.Object["secret"] != nil {
		t.Errorf("kept: %v", u.Object)
	}
	c.create(gadget, "second", "blue")
	c.hears(heard, "second")
	if all, red := c.list(gadget), c.list(gadget, client.MatchingFields{"color": "red"}); all != 2 || red != 1 {
		t.Errorf("%d, of which %d are red", all, red)
	}
	c.gone(widget)

	c.define(widget)
	c.create(widget, "third", "")
	c.eventually(widget, "third")
	remove()
	c.hears(heard, "")
	c.gone(gadget)
	c.eventually(widget, "third")

	c.define(gadget)
	c.create(gadget, "fourth", "red")
	c.hears(heard, "", "fourth")
	c.eventually(gadget, "fourth")
	if said := c.output.Lines("level=ERROR"); len(said) > 0 {
		t.Errorf("errors were logged:\n%s", strings.Join(said, "\n"))
	}
}

func TestAMissingRightIsLoggedOnceUntilGranted(t *testing.T) {
	const user = "poor"
	c := start(t, user)
	gadget := kinds[1]
	c.define(gadget)
	c.create(gadget, "first", "red")

	c.saysOnce(gadget, "allow this program to get, list and watch them", "CustomResourceDefinition gadgets.made.up", `cannot list resource "customresourcedefinitions"`)
	names := []string{kinds[0].Definition, kinds[1].Definition}
	c.Grant(user, "", rbacv1.PolicyRule{
		APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{"customresourcedefinitions"}, ResourceNames: names,
		Verbs: []string{"get", "list", "watch"},
	})
	c.gone(kinds[0])
	c.saysOnce(gadget, "allow this program to get, list and watch them", `cannot list resource "gadgets" in API group "made.up"`)
	if there, err := c.Present(c.Context(), gadget.GroupKind()); there || err == nil {
		t.Errorf("present: %t, %v", there, err)
	}
	c.Grant(user, "", rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"gadgets"}, Verbs: []string{"get", "list", "watch"}})
	c.eventually(gadget, "first")
}

// saysOnce waits until reading a kind fails with these words, and the API server has refused
// some tries more: they are to be logged once.
func (c *cluster) saysOnce(kind optional.Kind, parts ...string) {
	c.Helper()
	var message string
	last := parts[len(parts)-1]
	c.Eventually("reading says "+last, func() error {
		_, err := c.read(kind, "first")
		if err == nil || !strings.Contains(err.Error(), last) {
			return fmt.Errorf("reading: %w", err)
		}
		message = err.Error()
		return nil
	})
	c.Says(message, parts...)
	before := c.refused.Load()
	c.Eventually("it is tried again", func() error {
		if n := c.refused.Load(); n < before+2 {
			return fmt.Errorf("%d times", n-before)
		}
		return nil
	})
	said := 0
	for _, line := range c.output.Lines("cannot list") {
		if strings.Contains(line, strings.ReplaceAll(last, `"`, `\"`)) && strings.Contains(line, kind.Kind+"."+group) {
			said++
		}
	}
	if spam := c.output.Lines("Failed to watch"); said != 1 || len(spam) > 0 {
		c.Errorf("logged %d times:\n%s", said, c.output)
	}
}

func TestADefinitionThatServesAnotherVersionAloneSaysSo(t *testing.T) {
	c := &cluster{World: world.Shared(t)}
	gadget := kinds[1]
	old := gadget
	old.Version = "v1"
	c.define(old)
	c.create(old, "first", "red")

	c = start(t, "")
	c.Eventually("reading says what is missing", func() error {
		_, err := c.read(gadget, "first")
		if err == nil || meta.IsNoMatchError(err) {
			t.Fatalf("taken for a cluster without the kind: %v", err)
		}
		if want := `no matches for kind "Gadget" in version "made.up/v2"`; !strings.Contains(err.Error(), want) {
			return err
		}
		c.Says(err.Error(), "objects of kind Gadget.made.up cannot be read")
		return nil
	})
}

func TestARightThatWasMissingForAWhileIsForgotten(t *testing.T) {
	c := start(t, "")
	widget := kinds[0]
	c.gone(widget)
	c.deny.Store(true)
	c.Eventually("reading says what to allow", func() error {
		if cut := c.cut.Load(); cut != nil { // nil: the watch has not begun, and is refused.
			(*cut)()
		}
		_, err := c.read(widget, "any")
		if err == nil || !strings.Contains(err.Error(), "allow this program") {
			return fmt.Errorf("reading: %w", err)
		}
		return nil
	})
	c.deny.Store(false)
	c.gone(widget)
}

func TestEachChangeOfADefinitionBeginsTheWaitsAnew(t *testing.T) {
	c := &cluster{World: world.Shared(t)}
	old := kinds[1]
	old.Version = "v1"
	c.define(old)
	c.create(old, "first", "red")

	c = patient(t, "", time.Hour)
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: old.Definition}}
	c.World.Get(d)
	asked := func(why string, change func()) {
		c.Helper()
		before := c.asked.Load()
		change()
		c.Eventually("the API server is asked "+why, func() error {
			if c.asked.Load() == before {
				return errors.New("it is not")
			}
			return nil
		})
	}
	for i := range 10 { // Each used to double the wait: the last one to more than two minutes.
		asked("after change "+strconv.Itoa(i), func() {
			world.Edit(c.World, d, func(d *apiextensionsv1.CustomResourceDefinition) {
				d.Annotations = map[string]string{"change": strconv.Itoa(i)}
			})
		})
	}
	asked("again, though nothing changed", func() {})
	asked("and again", func() {})
}

func TestAListDoesNotOutliveItsContext(t *testing.T) {
	c := start(t, "")
	c.gone(kinds[1])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kinds[1].GroupVersion().WithKind(kinds[1].Kind + "List"))
	for range 20 { // Of two reasons to go on, Go takes any.
		if err := c.Client.List(ctx, list); !errors.Is(err, context.Canceled) {
			t.Fatalf("listed, with %v", err)
		}
	}
}
