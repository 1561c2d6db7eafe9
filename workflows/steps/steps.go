// Package steps has the operations on the resources of sandboxes and their steps: find, retry, give up,
// read logs, without flags and printing.
package steps

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
)

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrNotFound: there is no resource object of that name.
	ErrNotFound = errors.New("not found")
	// ErrNotDeleting: the resource is not being deleted.
	ErrNotDeleting = errors.New("it is not being deleted")
)

// Get reads the object of a resource, or returns ErrNotFound.
func Get(ctx context.Context, reader client.Reader, name string) (*crdv1.Resource, error) {
	r := &crdv1.Resource{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, r)
	if apierrors.IsNotFound(err) {
		return nil, ErrNotFound
	}
	return r, failed("read", name, err)
}

// List returns the resources of a sandbox, or of all, by sandbox and name.
func List(ctx context.Context, cluster client.Reader, sandbox string) ([]crdv1.Resource, error) {
	var list crdv1.ResourceList
	if err := cluster.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list Resources: %w", err)
	}
	out := slices.DeleteFunc(list.Items, func(r crdv1.Resource) bool { return sandbox != "" && sandboxOf(&r) != sandbox })
	slices.SortStableFunc(out, func(a, b crdv1.Resource) int {
		return slices.Compare([]string{sandboxOf(&a), a.Spec.Name, a.Name}, []string{sandboxOf(&b), b.Spec.Name, b.Name})
	})
	return out, nil
}

// failed returns an error about a call to the API server; nil for nil.
func failed(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s Resource %s: %w", what, name, err)
}

// Retry asks the operator to run the failed and lost steps of a resource again.
func Retry(ctx context.Context, writer client.Writer, r *crdv1.Resource, now time.Time) error {
	return change(ctx, writer, r, map[string]any{"metadata": annotated(r, crdv1.AnnotationRetry, retryAt(now))})
}

// Replace sets the delete steps of a resource that is being deleted, and has them run. It fails if the
// resource was changed since it was read.
func Replace(ctx context.Context, writer client.Writer, r *crdv1.Resource, units []crdv1.WorkUnit, now time.Time) error {
	metadata := annotated(r, crdv1.AnnotationRetry, retryAt(now))
	metadata["resourceVersion"] = r.ResourceVersion
	return change(ctx, writer, r, map[string]any{"metadata": metadata, "spec": map[string]any{"olm": map[string]any{"postStop": units}}})
}

// GiveUp lets a resource be deleted without its delete steps. It returns ErrNotDeleting for one that is
// not being deleted.
func GiveUp(ctx context.Context, writer client.Writer, r *crdv1.Resource) error {
	if r.DeletionTimestamp == nil {
		return ErrNotDeleting
	}
	return change(ctx, writer, r, map[string]any{"metadata": annotated(r, crdv1.AnnotationGiveUp, "true")})
}

// retryAt returns a value of crdv1.AnnotationRetry.
func retryAt(now time.Time) string { return now.UTC().Format(time.RFC3339Nano) }

// annotated returns metadata with an annotation, for this object and no later one of its name.
func annotated(r *crdv1.Resource, key, value string) map[string]any {
	return map[string]any{"uid": r.UID, "annotations": map[string]string{key: value}}
}

// change writes a merge patch.
func change(ctx context.Context, writer client.Writer, r *crdv1.Resource, patch map[string]any) error {
	text, err := json.Marshal(patch)
	if err == nil {
		err = writer.Patch(ctx, r, client.RawPatch(types.MergePatchType, text))
	}
	return failed("change", r.Name, err)
}

// Report is a resource as people and scripts are shown it. It has names of outputs and no
// values.
type Report struct {
	Name      string `json:"name"`
	Sandbox   string `json:"sandbox"`
	Resource  string `json:"resource"`
	Plugin    string `json:"plugin"`
	CreatedAt string `json:"createdAt"`
	Deleting  bool   `json:"deleting"`
	Ready     bool   `json:"ready"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	Create    []Step `json:"create"`
	Delete    []Step `json:"delete"`
	// ToDo are the next actions of a user, in sentences; the caller sets it.
	ToDo []string `json:"toDo"`
}

// Step is how far one of its steps is.
type Step struct {
	Name     string   `json:"name"`
	WaitsFor []string `json:"waitsFor"`
	Phase    string   `json:"phase"`
	Attempt  int32    `json:"attempt"`
	Started  string   `json:"started,omitempty"`
	Finished string   `json:"finished,omitempty"`
	// Seconds is from Started to Finished, or so far.
	Seconds *float64 `json:"seconds,omitempty"`
	// Outputs are the names of those that it has given.
	Outputs []string              `json:"outputs"`
	Pod     *crdv1.NamespacedName `json:"pod,omitempty"`
	Reason  string                `json:"reason,omitempty"`
	Message string                `json:"message,omitempty"`

	// Depth is how many steps are before it in its chain.
	Depth int `json:"-"`
}

// Of returns the report of a resource.
func Of(r *crdv1.Resource, now time.Time) Report {
	out := Report{
		Name: r.Name, Sandbox: sandboxOf(r), Resource: r.Spec.Name, Plugin: r.Spec.PluginName,
		CreatedAt: r.CreationTimestamp.UTC().Format(time.RFC3339), Deleting: r.DeletionTimestamp != nil,
		Reason: crdv1.ReasonPending, Message: "the operator has not reported on it yet",
		Create: stepsOf(r.Spec.OLM.PreStart, r.Status.Create, now), Delete: stepsOf(r.Spec.OLM.PostStop, r.Status.Delete, now),
	}
	if c := crdv1.FindCondition(r.Status.Conditions, crdv1.ConditionReady); c != nil && c.ObservedGeneration >= r.Generation {
		out.Ready, out.Reason, out.Message = c.Status == string(metav1.ConditionTrue), c.Reason, c.Message
	}
	return out
}

// sandboxOf returns the name of the sandbox that a resource was made for.
func sandboxOf(r *crdv1.Resource) string {
	for _, o := range r.OwnerReferences {
		if o.Kind == crdv1.KindSandbox {
			return o.Name
		}
	}
	return cmp.Or(r.Labels[crdv1.LabelSandbox], r.Annotations[crdv1.AnnotationSandboxName])
}

// stepsOf returns the steps of a graph in an order in which they can run.
func stepsOf(units []crdv1.WorkUnit, known []crdv1.WorkUnitStatus, now time.Time) []Step {
	out := []Step{}
	for _, place := range engine.Picture(units) {
		one := Step{Name: place.Unit, WaitsFor: append([]string{}, place.WaitsFor...), Phase: crdv1.UnitPending, Outputs: []string{}, Depth: place.Depth}
		at := slices.IndexFunc(known, func(s crdv1.WorkUnitStatus) bool { return s.Name == place.Unit })
		if at >= 0 {
			one.seen(known[at], now)
		}
		out = append(out, one)
	}
	return out
}

// seen adds the recorded status of a step.
func (s *Step) seen(st crdv1.WorkUnitStatus, now time.Time) {
	s.Phase, s.Attempt, s.Pod = cmp.Or(st.Phase, crdv1.UnitPending), st.Attempt, st.ExecUnit
	s.Reason, s.Message, s.Outputs = st.Reason, st.Message, append(s.Outputs, st.Outputs...)
	if st.Started == nil {
		return
	}
	s.Started = st.Started.UTC().Format(time.RFC3339)
	if st.Finished != nil {
		s.Finished, now = st.Finished.UTC().Format(time.RFC3339), st.Finished.Time
	}
	s.Seconds = new(max(0, now.Sub(st.Started.Time).Round(time.Second).Seconds()))
}

// Trouble reports whether a step ended so that nothing goes on without a person.
func (s Step) Trouble() bool { return s.Phase == crdv1.UnitFailed || s.Phase == crdv1.UnitLost }

// Runs reports whether a step has a pod that has not ended yet.
func (s Step) Runs() bool { return s.Phase == crdv1.UnitRunning || s.Phase == crdv1.UnitStarting }

// Retries reports whether another attempt of a step can help.
func (s Step) Retries() bool { return s.Trouble() && s.Reason != engine.ReasonInputMissing }

// Waits reports whether a step starts only after a change by a user.
func (s Step) Waits() bool {
	return s.Phase == crdv1.UnitStarting && s.Message != "" || s.Phase == crdv1.UnitRunning && execunit.Blocked(s.Reason)
}

// Done reports whether a step has ended as it is to.
func (s Step) Done() bool { return s.Phase == crdv1.UnitSucceeded || s.Phase == crdv1.UnitSkipped }

// Present returns the steps that count now: those that remove the resource once it is being
// deleted.
func (r Report) Present() []Step {
	if r.Deleting {
		return r.Delete
	}
	return r.Create
}

// Ended reports whether no step runs or will run, unless a user requests a retry.
func (r Report) Ended() bool {
	steps := r.Present()
	if slices.ContainsFunc(slices.Concat(r.Create, r.Delete), Step.Runs) {
		return false
	}
	return slices.ContainsFunc(steps, Step.Trouble) || !r.Deleting && !slices.ContainsFunc(steps, func(s Step) bool { return !s.Done() })
}
