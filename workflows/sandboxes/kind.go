package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/specfile"
)

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrNotFound: there is no object of that name.
	ErrNotFound = errors.New("not found")
	// ErrDeleting: the object is being deleted, so it was not written and will not become ready.
	ErrDeleting = errors.New("it is being deleted")
	// ErrReplaced: the object was deleted and created again during the wait.
	ErrReplaced = errors.New("it was deleted and created again")
	// ErrLate: the wait took too long.
	ErrLate = errors.New("it took too long")
)

// Kind is a kind of object with a published specification.
type Kind struct {
	// Name and Plural are the names of one and of several in messages.
	Name, Plural string
	of           string
	report       func(crdv1.Object) Report
}

// Sandboxes and Groups are the kinds.
var (
	Sandboxes = Kind{specfile.Sandbox, "sandboxes", crdv1.KindSandbox, func(o crdv1.Object) Report { return SandboxOf(o.(*crdv1.SignadotSandbox)) }}
	Groups    = Kind{specfile.RouteGroup, "route groups", crdv1.KindRouteGroup, func(o crdv1.Object) Report { return GroupOf(o.(*crdv1.SignadotRouteGroup)) }}
)

// Object is a sandbox or a route group that exists.
type Object struct {
	Report
	Name, RoutingKey string
	// ID differs between an object and a later one of its name.
	ID string
	// Deleting: it is being deleted.
	Deleting bool
}

// Object returns an object of this kind.
func (k Kind) Object(o crdv1.Object) Object {
	out := Object{Report: k.report(o), Name: o.GetName(), ID: string(o.GetUID()), Deleting: o.GetDeletionTimestamp() != nil}
	switch r := out.Report.(type) {
	case Sandbox:
		out.RoutingKey = r.RoutingKey
	case Group:
		out.RoutingKey = r.RoutingKey
	}
	return out
}

// definition returns the kind of the object.
func (k Kind) definition() crdv1.Kind {
	d, _ := crdv1.KindCalled(k.of) // a constant of crdv1
	return d
}

// failed returns an error about a call to the API server; nil for nil.
func (k Kind) failed(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %s: %w", what, k.of, name, err)
}

// Get reads an object, or returns ErrNotFound.
func (k Kind) Get(ctx context.Context, reader client.Reader, name string) (Object, error) {
	o, err := k.GetObject(ctx, reader, name)
	if o == nil {
		return Object{}, err
	}
	return k.Object(o), err
}

// GetObject is Get for the object itself. It is nil after ErrNotFound.
func (k Kind) GetObject(ctx context.Context, reader client.Reader, name string) (crdv1.Object, error) {
	o := k.definition().New()
	err := reader.Get(ctx, client.ObjectKey{Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil, ErrNotFound
	}
	return o, k.failed("read", name, err)
}

// List reads all objects.
func (k Kind) List(ctx context.Context, reader client.Reader) ([]Report, error) {
	all, err := k.ListObjects(ctx, reader)
	return append([]Report{}, lists.Map(all, k.report)...), err // never null in JSON
}

// ListObjects is List for the objects themselves.
func (k Kind) ListObjects(ctx context.Context, reader client.Reader) ([]crdv1.Object, error) {
	list := k.definition().NewList()
	if err := reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list %s: %w", k.Plural, err)
	}
	items, err := meta.ExtractList(list)
	return lists.Map(items, func(o runtime.Object) crdv1.Object { return o.(crdv1.Object) }), err
}

// Delete deletes an object; one that is already deleted is no error.
func (k Kind) Delete(ctx context.Context, writer client.Writer, name string) error {
	o := k.definition().New()
	o.SetName(name)
	return k.failed("delete", name, client.IgnoreNotFound(writer.Delete(ctx, o)))
}

// Caveats returns the caveats of a sandbox; none when it does not exist.
func Caveats(ctx context.Context, reader client.Reader, name string) ([]string, error) {
	var s crdv1.SignadotSandbox
	err := reader.Get(ctx, client.ObjectKey{Name: name}, &s)
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("SignadotSandbox %s cannot be read, ask for the right: %w", name, err)
	}
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return caveatsOf(&s), nil
}

// caveatsOf returns the caveats of the present form of an object.
func caveatsOf(o crdv1.Object) []string {
	c := crdv1.FindCondition(*o.StatusConditions(), crdv1.ConditionCaveats)
	if c == nil || c.ObservedGeneration < o.GetGeneration() {
		return nil
	}
	return strings.Split(c.Message, "\n")
}
