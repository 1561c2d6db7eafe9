package workflows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/sweep/state"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/iocontext/store"
)

// state describes the Resource, without values that differ from run to run: attempts, times, and
// pods that have ended and are released.
func (w *World) state(ctx context.Context) (state.State, error) {
	all, err := w.owned(ctx)
	out := state.State{}
	outputs := outputsOf(all)
	for _, o := range all {
		what := fmt.Sprintf("%T %s", o, strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
		switch o := o.(type) {
		case *crdv1.Resource:
			text := o.Status.Phase + sayConditions(o.Status.Conditions, o.Generation) + sayUnits(o.Status.Create) + sayUnits(o.Status.Delete)
			out["Resource "+o.Name] = strings.ReplaceAll(text, o.OutputsSecret(), "outputs of "+o.Name) // a random name
		case *crdv1.SignadotObjectLifecycleMethods:
			out["SignadotObjectLifecycleMethods "+o.Name] = o.Status.Phase + sayConditions(o.Status.Conditions, o.Generation) +
				sayUnits(o.Status.PreCreate) + sayUnits(o.Status.PostStop)
		case *corev1.Secret:
			if key := o.Annotations[store.AnnotationKey]; key != "" {
				what = "value of " + key // The name has a UID.
			} else {
				resource, recorded := outputs[o.Name]
				if owner := metav1.GetControllerOf(o); !recorded && owner != nil && slices.Contains(slices.Collect(maps.Values(outputs)), owner.Name) {
					continue // Of a process that ended before it recorded that: it is deleted with the Resource.
				}
				what = "Secret " + o.Namespace + "/" + cmp.Or(resource, o.Name)
			}
			text := ""
			for _, key := range sorted(o.Data) {
				text += key + ": " + string(o.Data[key]) + "\n"
			}
			if out[what] != text { // Values have equal copies in two namespaces for one release.
				out[what] += text
			}
		case *corev1.Pod:
			if !ended(o) || len(o.Finalizers) > 0 {
				out["pod of unit "+o.Labels[crdv1.LabelUnit]] = "it has not ended, or is held"
			}
		}
	}
	return out, err
}

func sorted[V any](m map[string]V) []string {
	var out []string
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

func sayUnits(all []crdv1.WorkUnitStatus) string {
	var b strings.Builder
	for _, st := range all {
		fmt.Fprintf(&b, "\nunit %s: %s %s %s %s", st.Name, st.Phase, st.Reason, st.Message, st.Outputs)
	}
	return b.String()
}

func sayConditions(all []crdv1.StatusCondition, generation int64) string {
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "\n%s: %s, %s: %s (of now: %t)", c.Type, c.Status, c.Reason, c.Message, c.ObservedGeneration == generation)
	}
	return b.String()
}

// owned returns every object that a run has created.
func (w *World) owned(ctx context.Context) ([]client.Object, error) {
	var out []client.Object
	var resources crdv1.ResourceList
	var methods crdv1.SignadotObjectLifecycleMethodsList
	var pods corev1.PodList
	var secrets corev1.SecretList
	err := errors.Join(w.people.List(ctx, &resources), w.people.List(ctx, &methods), w.people.List(ctx, &pods), w.people.List(ctx, &secrets))
	for i := range resources.Items {
		out = append(out, &resources.Items[i])
	}
	for i := range methods.Items {
		out = append(out, &methods.Items[i])
	}
	for i := range pods.Items {
		out = append(out, &pods.Items[i])
	}
	for i := range secrets.Items {
		if s := &secrets.Items[i]; s.Namespace == outputNamespace || s.Type == store.Type {
			out = append(out, s)
		}
	}
	return out, err
}

// outputsOf returns the Resources by the names of the Secrets with their outputs, which are random.
func outputsOf(all []client.Object) map[string]string {
	out := map[string]string{}
	for _, o := range all {
		if r, is := o.(*crdv1.Resource); is {
			out[r.OutputsSecret()] = r.Name
		}
	}
	return out
}

// wipe takes away whatever a run has left.
func (w *World) wipe(ctx context.Context) error {
	marks := w.people.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(operatorNamespace)) // of the routing log
	return errors.Join(marks, wait.Until(ctx, patience, "wipe the world", func() error {
		all, err := w.owned(ctx)
		for _, o := range all {
			none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			if err := w.people.Patch(ctx, o, none); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			if err := w.people.Delete(ctx, o, client.GracePeriodSeconds(0)); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		if err == nil && len(all) > 0 {
			return errors.New("something is left")
		}
		return err
	}))
}
