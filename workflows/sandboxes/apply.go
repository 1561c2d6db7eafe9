package sandboxes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/plugins"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// Applied is the result of an application. With an error it has the fields that are known by then.
type Applied struct {
	// Object is the object as it was written.
	Object Object
	// Notes name the parts of the specification that have no effect.
	Notes specfile.Problems
	// TooLarge is the size of a specification that is too large to be stored in the object; 0 if stored.
	TooLarge int
	// Matched are the sandboxes of a route group, and Left those that it no longer has.
	Matched, Left []string
}

// ApplySandbox compiles a sandbox and creates its object, or replaces the specification of the one that
// exists; text is the specification, to be stored with it. Faults of the specification are
// specfile.Problems. A conflict with another writer is an error of the API server: try again.
func ApplySandbox(ctx context.Context, c client.Client, from Plugins, asked spec.Sandbox, text json.RawMessage, now time.Time) (out Applied, err error) {
	there := &crdv1.SignadotSandbox{}
	unread := c.Get(ctx, client.ObjectKey{Name: asked.Name}, there)
	kept, err := PluginsFor(ctx, from, asked, nil)
	if err != nil {
		return out, err
	}
	compiled, err := compile.Sandbox(compile.Input{Sandbox: asked, Plugins: kept, RoutingKey: there.Spec.ID, Pinned: pinned(there)})
	if err != nil {
		return out, err
	}
	out.Notes = compiled.Notes
	if client.IgnoreNotFound(unread) != nil { // The compiler reports a name that no object can have.
		return out, Sandboxes.failed("read", asked.Name, unread)
	}
	object := compiled.Sandbox
	err = Sandboxes.put(ctx, c, &out, text, now, object, there, func() { there.Spec = object.Spec })
	return out, err
}

// Plugins has the resource plugins that sandboxes can name: those of a cluster are a plugins.Store, and a
// control plane has its own.
type Plugins interface {
	// List returns all versions.
	List(ctx context.Context) ([]plugins.Kept, error)
}

// PluginsFor returns the plugins that a sandbox may name: the given ones before the others, which are not read
// for a sandbox without resources, and can be nil.
func PluginsFor(ctx context.Context, from Plugins, asked spec.Sandbox, given []spec.Plugin) ([]spec.Plugin, error) {
	if len(asked.Spec.Resources) == 0 || from == nil {
		return given, nil
	}
	kept, err := from.List(ctx)
	out := lists.Map(kept, func(k plugins.Kept) spec.Plugin { return k.Plugin })
	return append(out, given...), err // The last one of a name counts.
}

// pinned returns the versions of plugins that a sandbox has.
func pinned(o *crdv1.SignadotSandbox) map[string]string {
	out := map[string]string{}
	for _, r := range o.Spec.ManagedResources {
		if name, err := spec.ParsePluginName(r.PluginName); err == nil {
			out[r.Name] = name.Bare + "@" + name.Defaulted().Version
		}
	}
	return out
}

// ApplyGroup compiles a route group of the sandboxes that match now, and creates it or replaces the one
// that exists, as ApplySandbox does.
func ApplyGroup(ctx context.Context, c client.Client, asked spec.Group, text json.RawMessage, now time.Time) (out Applied, err error) {
	there := &crdv1.SignadotRouteGroup{}
	unread := c.Get(ctx, client.ObjectKey{Name: asked.Name}, there)
	var list crdv1.SignadotSandboxList
	if err := c.List(ctx, &list); err != nil {
		return out, fmt.Errorf("list sandboxes, to find those that the route group matches: %w", err)
	}
	known := map[string]map[string]string{}
	for i := range list.Items {
		if o := &list.Items[i]; o.DeletionTimestamp == nil {
			known[o.Name] = labelsOf(o)
		}
	}
	compiled, err := compile.Group(compile.GroupInput{Group: asked, Sandboxes: known, RoutingKey: there.Spec.RoutingKey})
	switch {
	case err != nil:
		return out, err
	case client.IgnoreNotFound(unread) != nil: // The compiler reports a name that no object can have.
		return out, Groups.failed("read", asked.Name, unread)
	}
	out.Notes, out.Matched = compiled.Notes, compiled.Group.Spec.SandboxNames
	out.Left = slices.DeleteFunc(slices.Clone(there.Spec.SandboxNames), func(name string) bool { return slices.Contains(out.Matched, name) })
	err = Groups.put(ctx, c, &out, text, now, compiled.Group, there, func() {
		there.Spec.RoutingKey, there.Spec.SandboxNames = compiled.Group.Spec.RoutingKey, out.Matched
	})
	return out, err
}

// labelsOf returns the labels of a sandbox: those of its specification before those of its object.
func labelsOf(o *crdv1.SignadotSandbox) map[string]string {
	out := map[string]string{}
	maps.Copy(out, o.Labels)
	maps.Copy(out, noted[map[string]string](o, crdv1.AnnotationLabels))
	return out
}

// put creates an object that was compiled from a specification, or changes the one that exists; assign
// gives that the new spec.
func (k Kind) put(ctx context.Context, c client.Client, out *Applied, text json.RawMessage, now time.Time, object, there crdv1.Object, assign func()) (err error) {
	if there.GetDeletionTimestamp() != nil {
		return ErrDeleting
	}
	if there.GetUID() == "" {
		if out.TooLarge, err = Keep(text, now, object); err == nil {
			err = k.failed("create", object.GetName(), c.Create(ctx, object, client.FieldValidation("Strict")))
		}
		out.Object = k.Object(object)
		return err
	}
	assign()
	annotations := there.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	for _, key := range append([]string{crdv1.AnnotationSpecification}, compiledTo...) {
		if value, has := object.GetAnnotations()[key]; has {
			annotations[key] = value
		} else {
			delete(annotations, key)
		}
	}
	there.SetAnnotations(annotations)
	if out.TooLarge, err = Keep(text, now, there); err == nil {
		err = k.failed("change", there.GetName(), c.Update(ctx, there, client.FieldValidation("Strict")))
	}
	out.Object = k.Object(there)
	return err
}

// compiledTo are the annotations that are compiled of a specification.
var compiledTo = []string{
	crdv1.AnnotationDescription, crdv1.AnnotationLabels, crdv1.AnnotationTTL, crdv1.AnnotationTTLFrom,
	crdv1.AnnotationEndpoints, crdv1.AnnotationPlugins, crdv1.AnnotationLocal,
}

// specification is what AnnotationSpecification has.
type specification struct {
	// Spec is the specification, with directives replaced.
	Spec json.RawMessage `json:"spec"`
	// Of is the digest of the object that it was compiled to.
	Of string `json:"of"`
}

// MaxKept bounds the size of a specification that is stored in its object: the annotations of an object
// have 256 KiB together.
const MaxKept = 128 << 10

// Keep adds a specification to the annotations of the object that it was compiled to, so that it can be
// read again, and when it was applied. It returns the size of one that is too large, which is not stored.
func Keep(text json.RawMessage, at time.Time, o client.Object) (tooLarge int, err error) {
	annotations := o.GetAnnotations()
	annotations[crdv1.AnnotationUpdatedAt] = at.UTC().Format(time.RFC3339)
	noted, err := json.Marshal(specification{Spec: text, Of: digest(o)})
	if err != nil {
		return 0, err
	}
	size := len(noted)
	for key, value := range annotations {
		size += len(key) + len(value)
	}
	if size > MaxKept {
		return size, nil
	}
	annotations[crdv1.AnnotationSpecification] = string(noted)
	o.SetAnnotations(annotations)
	return 0, nil
}

// Specification returns the specification that an object was applied from, also if it was changed since; nil: none
// is known.
func Specification(o client.Object) json.RawMessage {
	return noted[specification](o, crdv1.AnnotationSpecification).Spec
}

// known returns the specification that an object was compiled from; nil when it was not applied as
// a file, or was changed since.
func known(o client.Object) json.RawMessage {
	noted := noted[specification](o, crdv1.AnnotationSpecification)
	if noted.Of == "" || noted.Of != digest(o) {
		return nil
	}
	return noted.Spec
}

// noted reads an annotation that is JSON into a value; other text is left out.
func noted[T any](o client.Object, key string) (value T) {
	_ = json.Unmarshal([]byte(o.GetAnnotations()[key]), &value) // Another client wrote it.
	return value
}

// digest identifies what a specification was compiled to, whatever the form of its JSON.
func digest(o client.Object) string {
	var object struct {
		Spec any `json:"spec"`
	}
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	annotations := map[string]string{}
	for _, key := range compiledTo {
		if value, has := o.GetAnnotations()[key]; has {
			annotations[key] = value
		}
	}
	if err == nil {
		text, err = json.Marshal([]any{object.Spec, annotations})
	}
	if err != nil {
		return "" // Such an object has no known specification.
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
