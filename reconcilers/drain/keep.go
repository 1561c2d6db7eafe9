package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/atrest"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/publish"
)

// ReasonUninstalled: the operator that acted on the object was uninstalled.
const ReasonUninstalled = "OperatorUninstalled"

// rousing bounds rouse, which also runs after the program receives SIGTERM.
const rousing = 10 * time.Second

// keep drains the cluster except for the users' objects.
func (d *draining) keep(ctx context.Context) error {
	installation, err := publish.Installation(ctx, d.Client, d.Namespace)
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	if installation == "" {
		d.Logger.Warn("there is no ConfigMap by which the controller manager would know that this is for it, so it is not waited for",
			"namespace", d.Namespace, "name", publish.EpochConfigMap)
		d.Wait = 0
	} else {
		d.mark = atrest.Mark(installation, time.Now())
	}
	forced, err := d.end(ctx, twice(d.unrested), d.putToRest)
	if err != nil {
		return errors.Join(err, d.rouse(ctx))
	}
	routed, err := d.endMeshes(ctx)
	if err != nil {
		return errors.Join(err, d.rouse(ctx))
	}
	stay, err := d.farewell(ctx)
	if err != nil { // Only the status is outdated; nothing is blocked.
		d.Logger.Warn("the status of some remaining objects does not state that the operator was uninstalled", "why", err)
	}
	stay = append(stay, d.strangers...)
	attrs := []any{"stays", len(stay), "objects", named(stay), "forced", forced}
	if len(routed) > 0 {
		attrs = append(attrs, "routes stay in", named(routed))
	}
	d.Logger.Info("the operator's objects are deleted. Objects of users remain, and work again after the next installation", attrs...)
	return nil
}

// stays reports whether an object is left where it is: a user's object is, unless it is being deleted.
func (d *draining) stays(i item) bool { return d.Keep && i.byPeople() && i.DeletionTimestamp == nil }

// rests reports whether an object can be left as it is: a user created it, it has no finalizer of the
// operator, and the manager will not add one.
func (d *draining) rests(i item) bool {
	return i.byPeople() && !i.held() && (d.forcing || i.DeletionTimestamp != nil || i.Annotations[atrest.Annotation] == d.mark)
}

// unrested returns the objects to delete, and those that stay and are not at rest. While there are any,
// it does not list the objects of members.
func (d *draining) unrested(ctx context.Context) (out []item, err error) {
	all, err := d.list(ctx)
	out = append(out, lists.Filter(all, func(i item) bool { return !d.rests(i) })...)
	if len(out) > 0 || err != nil {
		return out, err
	}
	return d.made(ctx)
}

// twice calls look again after a pause if it found nothing: a controller that was reconciling a route
// group may have created one more object.
func twice(look lookup) lookup {
	return func(ctx context.Context) ([]item, error) {
		if left, err := look(ctx); len(left) > 0 || err != nil {
			return left, err
		}
		wake.Sleep(ctx, pause)
		return look(ctx)
	}
}

// made returns the objects that members and runner groups own: these stay, so the garbage collector does not delete
// them.
func (d *draining) made(ctx context.Context) (out []item, err error) {
	virtual := client.HasLabels{crdv1.LabelVirtualWorkload}
	fork, tunnel, runner := client.HasLabels{crdv1.LabelForkedWorkload}, client.HasLabels{crdv1.LabelExternalWorkload}, client.HasLabels{crdv1.JobRunnerGroupLabel}
	for _, of := range []struct {
		kind schema.GroupVersionKind
		by   client.ListOption
	}{
		{appsv1.SchemeGroupVersion.WithKind("Deployment"), fork},
		{baseline.RolloutKind(), fork},
		{corev1.SchemeGroupVersion.WithKind("Service"), fork},
		{corev1.SchemeGroupVersion.WithKind("Service"), tunnel},
		{corev1.SchemeGroupVersion.WithKind("Service"), virtual},
		{discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), virtual},
		{corev1.SchemeGroupVersion.WithKind("Service"), runner},
		{corev1.SchemeGroupVersion.WithKind("Pod"), runner},
		{discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), tunnel},
		{corev1.SchemeGroupVersion.WithKind("Endpoints"), tunnel},
	} {
		for _, ns := range d.everywhere() {
			more, one := d.listOf(ctx, of.kind, of.by, client.InNamespace(ns))
			err = errors.Join(err, one)
			out = append(out, lists.Filter(more, item.ofOurs)...)
		}
	}
	return out, err
}

// everywhere returns the namespaces to list; the empty one means all.
func (d *draining) everywhere() []string {
	if len(d.Namespaces) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return d.Namespaces
}

// putToRest marks an object that stays. The objects created for it are deleted as a consequence.
func (d *draining) putToRest(ctx context.Context, i item) error {
	if !d.stays(i) || i.Annotations[atrest.Annotation] == d.mark {
		return nil
	}
	return d.annotate(ctx, i, &d.mark)
}

// rouse removes the mark from objects at rest, after a failed drain.
func (d *draining) rouse(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rousing)
	defer cancel()
	all, err := d.list(ctx)
	for _, i := range all {
		if d.mark != "" && i.Annotations[atrest.Annotation] == d.mark {
			err = errors.Join(err, d.annotate(ctx, i, nil))
		}
	}
	if err != nil {
		return fmt.Errorf("drain: reactivate the objects at rest (remove annotation %s from them): %w", atrest.Annotation, err)
	}
	return nil
}

// annotate sets the annotation of rest, or takes it off.
func (d *draining) annotate(ctx context.Context, i item, mark *string) error {
	value := "null"
	if mark != nil {
		value = fmt.Sprintf("%q", *mark)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%s}}}`, i.UID, atrest.Annotation, value)
	err := d.Client.Patch(ctx, i.PartialObjectMetadata, client.RawPatch("application/merge-patch+json", patch), client.FieldOwner(crdv1.FieldManager))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("put %s to rest: %w", i, err)
	}
	return nil
}

// farewell writes into the status of all objects that stay that the operator was uninstalled, and
// returns them.
func (d *draining) farewell(ctx context.Context) (stay []item, err error) {
	all, err := d.list(ctx)
	for _, i := range all {
		if !d.stays(i) {
			continue
		}
		stay = append(stay, i)
		err = errors.Join(err, d.conclude(ctx, i))
	}
	return stay, err
}

// conclude writes into the status of one object that the operator was uninstalled. It keeps the
// condition Accepted.
func (d *draining) conclude(ctx context.Context, i item) error {
	made, err := d.Client.Scheme().New(i.GroupVersionKind())
	if err != nil {
		return fmt.Errorf("write the status of %s: %w", i, err)
	}
	o, ok := made.(conditioned)
	if !ok {
		return fmt.Errorf("write the status of %s: it has no conditions", i)
	}
	if err := d.Client.Get(ctx, client.ObjectKeyFromObject(i), o); err != nil {
		return client.IgnoreNotFound(err)
	}
	before, ok := o.DeepCopyObject().(conditioned)
	if !ok {
		return fmt.Errorf("write the status of %s: it cannot be copied", i)
	}
	condition.Write(o, uninstalled(o.ConditionTypes()), metav1.Now())
	silent := log.IntoContext(ctx, logr.Discard()) // Every object gets the same status.
	return d.writer().Status(silent, before, o)
}

// conditioned is one of the operator's objects with conditions.
type conditioned interface {
	client.Object
	crdv1.Conditioned
}

// uninstalled returns the conditions of an object after the operator was uninstalled.
func uninstalled(types []string) condition.Set {
	const gone = "The operator was uninstalled, and the objects that it created for this object were deleted. " +
		"Install it again to re-create them, or delete this object: no finalizer blocks its deletion."
	out := condition.Set{crdv1.ConditionReady: condition.False(ReasonUninstalled, gone)}
	for _, t := range types {
		if t != crdv1.ConditionReady && t != crdv1.ConditionAccepted {
			out[t] = condition.Unknown(ReasonUninstalled, gone)
		}
	}
	return out
}

// valuesWithin is how long the deletion of the namespace of values is waited for.
const valuesWithin = 30 * time.Second

// deleteValues deletes the namespace of the values of units when it has no Secrets, and waits until it
// is deleted, since the next installation creates it again. Errors are logged: the namespace
// then stays, and is used again.
func deleteValues(ctx context.Context, c client.Client, name string, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, valuesWithin)
	defer cancel()
	kept, err := tryDeleteValues(ctx, c, name)
	switch {
	case err != nil:
		logger.Warn("the namespace of the values of units is not deleted", "namespace", name, "error", err)
	case kept > 0:
		logger.Info("the namespace of the values of units stays: delete steps of resources read the values", "namespace", name, "values", kept)
	}
}

// tryDeleteValues returns how many Secrets keep the namespace.
func tryDeleteValues(ctx context.Context, c client.Client, name string) (kept int, err error) {
	namespace := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	var secrets metav1.PartialObjectMetadataList
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := c.List(ctx, &secrets, client.InNamespace(name)); err != nil {
		return 0, fmt.Errorf("list its Secrets: %w", err)
	}
	if len(secrets.Items) > 0 {
		return len(secrets.Items), nil
	}
	if err := c.Delete(ctx, namespace, client.Preconditions{UID: &namespace.UID}); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	for {
		err := c.Get(ctx, client.ObjectKey{Name: name}, namespace)
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		if !wake.Sleep(ctx, pause) {
			return 0, errors.Join(errors.New("it is still being deleted"), err)
		}
	}
}

// Delete workflows are not cut short: they remove resources outside of the cluster, which nothing
// removes later.

// working reports whether a delete workflow is making progress: none of its units has failed. It
// returns false if workflows cannot be read.
func (d *draining) working(ctx context.Context) bool {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(crdv1.GroupVersion().WithKind(crdv1.KindLifecycleMethods + "List"))
	if err := d.Client.List(ctx, list); err != nil {
		if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			d.Logger.Warn("cannot list SignadotObjectLifecycleMethods, so delete workflows are not waited for", "error", err)
		}
		return false
	}
	return slices.ContainsFunc(list.Items, func(o unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		return o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), crdv1.Finalizer) && phase != "" && phase != crdv1.PhaseOLMFailed
	})
}

// remains returns a message about the leftovers of a Resource that is forced: the results of the units
// that were started. It is empty for objects of other kinds.
func (d *draining) remains(ctx context.Context, i item) string {
	if i.kind != crdv1.KindResource {
		return ""
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(i.GroupVersionKind())
	if err := d.Client.Get(ctx, client.ObjectKeyFromObject(i), o); err != nil {
		return fmt.Sprintf("objects of its create steps; the steps cannot be read: %v", err)
	}
	var begun []string
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "create")
	for _, one := range all {
		unit, ok := one.(map[string]any)
		if name, _ := unit["name"].(string); ok && unit["attempt"] != nil {
			begun = append(begun, name)
		}
	}
	if len(begun) == 0 {
		return ""
	}
	return "objects of its create steps: " + strings.Join(begun, ", ")
}
