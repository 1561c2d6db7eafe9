package baseline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/sidecars/inject"
)

// ConditionBaselineReached is a condition of a member that exists only while requests to
// Services of its baseline do not all arrive at ready pods of the baseline. It counts for Ready.
const ConditionBaselineReached = "BaselineReached"

// Reasons of BaselineReached.
const (
	// ReasonServicesMoved: Services that selected the baseline select other workloads. False when
	// no Service selects the baseline any more.
	ReasonServicesMoved = "ServicesMoved"
	// ReasonNoReadyPod: the baseline has Services and pods, and no pod is ready. False.
	ReasonNoReadyPod = "NoReadyPod"
	// ReasonServiceShared: a Service selects pods of other workloads too.
	ReasonServiceShared = "ServiceShared"
)

// Reach describes where requests to the Services of a baseline arrive.
type Reach struct {
	// Had names the Services that select the baseline, and those that have, sorted.
	Had []string
	// Selecting are the Services that select the baseline, Moved those that have and no longer do.
	Selecting, Moved []Arrival
	// Deleted are the names of Services that selected the baseline and no longer exist, sorted.
	Deleted []string
	// Unready reports whether the baseline has pods and none is ready, where its Services need one.
	Unready bool
}

// Arrival names the other workloads that one Service selects.
type Arrival struct {
	Service string
	// Others are those for which the sandbox has no member, described for messages, sorted.
	Others []string
	// Forkable are those of Others that a sandbox can fork, sorted.
	Forkable []string
	// Covered reports whether it selects one for which the sandbox has a member.
	Covered bool
}

// Surroundings are the inputs from which Read computes a Reach. They are not changed.
type Surroundings struct {
	Workload *Workload
	// Pods are those that the workload owns; Others are pods of other workloads that its
	// selector selects.
	Pods, Others []corev1.Pod
	// Services are those of the namespace, Routed the same ones after WithEndpoints.
	Services, Routed []corev1.Service
	// Had names the Services that have selected the workload.
	Had []string
	// Covered reports whether the sandbox has a member for the workload of this name.
	Covered func(name string) (bool, error)
}

// Reach reads where requests to the Services arrive. c has the indexes of Index. Pods of other
// workloads are found by the templates of Deployments and Rollouts.
func (in Surroundings) Reach(ctx context.Context, c client.Reader) (Reach, error) {
	r := Reach{Deleted: slices.Clone(in.Had)}
	forms, notReadyToo := Forms{Template: in.Workload.Template, Pods: in.Pods}, false
	var others []neighbour
	for i := range in.Routed {
		s := &in.Routed[i]
		selected := !madeForMember(s) && forms.Selected(s)
		if !selected && !slices.Contains(in.Had, s.Name) {
			continue
		}
		r.Deleted = slices.DeleteFunc(r.Deleted, func(name string) bool { return name == s.Name })
		if s.Annotations[crdv1.AnnotationIgnore] == "true" {
			continue // Users exclude it from routing.
		}
		if others == nil {
			var err error
			if others, err = in.neighbours(ctx, c); err != nil {
				return Reach{}, err
			}
		}
		a, err := in.arrival(&in.Services[i], others)
		if err != nil {
			return Reach{}, err
		}
		if r.Had = append(r.Had, s.Name); selected {
			r.Selecting, notReadyToo = append(r.Selecting, a), notReadyToo || s.Spec.PublishNotReadyAddresses
		} else {
			r.Moved = append(r.Moved, a)
		}
	}
	if len(r.Selecting) > 0 {
		r.Deleted = nil // Another Service selects the baseline; requests by a name without a Service fail.
	}
	r.Had = append(r.Had, r.Deleted...)
	slices.Sort(r.Had)
	for _, all := range [][]Arrival{r.Selecting, r.Moved} {
		slices.SortFunc(all, func(a, b Arrival) int { return cmp.Compare(a.Service, b.Service) })
	}
	n := podsCounted(in.Workload.Object)
	r.Unready = n.all > 0 && n.ready == 0 && !notReadyToo
	return r, nil
}

// neighbour is another workload of the namespace of a baseline, or a pod of one.
type neighbour struct {
	// described names it for messages; name is empty for a workload that no member can represent.
	described, name string
	labels          map[string]string
}

// neighbours returns the other Deployments and Rollouts of the namespace that have pods or ask for
// some, and the pods of other workloads that the selector of the workload selects. It is not nil.
func (in Surroundings) neighbours(ctx context.Context, c client.Reader) ([]neighbour, error) {
	out, ref := []neighbour{}, in.Workload.Ref
	var deployments appsv1.DeploymentList
	err := c.List(ctx, &deployments, client.InNamespace(ref.Namespace), client.MatchingFields{indexNotOfMember: "true"}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list Deployments of namespace %s: %w", ref.Namespace, err)
	}
	templates := map[string]map[string]string{}
	for _, d := range lists.Pointers(deployments.Items) {
		templates[d.Name] = d.Spec.Template.Labels
		if hasPods(d) && (ref.Kind != KindDeployment || ref.Name != d.Name) {
			out = append(out, neighbour{KindDeployment + " " + d.Name, d.Name, d.Spec.Template.Labels})
		}
	}
	rollouts := NewRolloutList()
	if err := c.List(ctx, rollouts, client.InNamespace(ref.Namespace), client.UnsafeDisableDeepCopy); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("list Rollouts of namespace %s: %w", ref.Namespace, err)
	}
	for _, u := range lists.Pointers(rollouts.Items) {
		if !hasPods(u) || madeForMember(u) || ref.Kind == KindRollout && ref.Name == u.GetName() {
			continue
		}
		labels := labelsOfNew(u)
		if name, refers := ReferredDeployment(u); refers {
			labels = templates[name]
		}
		out = append(out, neighbour{KindRollout + " " + u.GetName(), u.GetName(), labels})
	}
	out = append(out, lists.Map(lists.Filter(lists.Pointers(in.Others), counts), neighbourOf)...)
	return out, nil
}

// neighbourOf returns the workload of a pod.
func neighbourOf(pod *corev1.Pod) neighbour {
	if w, none := inject.OwnerOf(pod, pod.Namespace); none == "" {
		kind := KindDeployment
		if w.Kind != kind {
			kind = KindRollout
		}
		return neighbour{kind + " " + w.Name, w.Name, pod.Labels}
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return neighbour{owner.Kind + " " + owner.Name, "", pod.Labels}
	}
	return neighbour{"Pod " + pod.Name, "", pod.Labels}
}

// hasPods reports whether a Deployment or Rollout has pods, or wants some.
func hasPods(workload client.Object) bool {
	return podsCounted(workload).all > 0 || !asksForNone(workload)
}

// asksForNone reports whether a Deployment or Rollout is scaled to 0 replicas.
func asksForNone(workload client.Object) bool {
	switch o := workload.(type) {
	case *appsv1.Deployment:
		return o.Spec.Replicas != nil && *o.Spec.Replicas == 0
	case *unstructured.Unstructured:
		n, set, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		return set && n == 0
	}
	return false
}

// arrival returns which of the others a Service selects.
func (in Surroundings) arrival(s *corev1.Service, others []neighbour) (Arrival, error) {
	a, selects := Arrival{Service: s.Name}, ledTo(s)
	if !isRouted(s) {
		return a, nil // An ExternalName selects none.
	}
	for _, other := range others {
		if !selects(other.labels) || slices.Contains(a.Others, other.described) {
			continue
		}
		covered, err := in.Covered(other.name)
		if err != nil {
			return a, err
		}
		if a.Covered = a.Covered || covered; !covered {
			a.Others = append(a.Others, other.described)
			if other.name != "" {
				a.Forkable = append(a.Forkable, other.described)
			}
		}
	}
	slices.Sort(a.Others)
	slices.Sort(a.Forkable)
	return a, nil
}

// MembersOf returns the members of one kind for the workload with this name. c has the indexes of
// Index.
func MembersOf(ctx context.Context, c client.Reader, kind crdv1.Kind, namespace, name string) ([]crdv1.Member, error) {
	var out []crdv1.Member
	list := kind.NewList()
	if err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{indexBaseline: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list members for %s/%s: %w", namespace, name, err)
	}
	return out, meta.EachListItem(list, func(o runtime.Object) error {
		if m, ok := o.(crdv1.Member); ok {
			out = append(out, m)
		}
		return nil
	})
}

// Kept returns the Services with each one that has moved replaced by one that selects the baseline.
// Its mapping stays, so that the first request after it moved back is routed. Nothing is shared with
// the copies; a Service without a selector is returned as it is.
func (in Surroundings) Kept(r Reach) []corev1.Service {
	out := in.Routed
	for i := range in.Routed {
		s := &in.Routed[i]
		if !isRouted(s) || withoutSelector(s) || !slices.ContainsFunc(r.Moved, func(a Arrival) bool { return a.Service == s.Name }) {
			continue
		}
		if &out[0] == &in.Routed[0] {
			out = slices.Clone(in.Routed)
		}
		out[i] = *s.DeepCopy()
		out[i].Spec.Selector = maps.Clone(in.Workload.Template.Labels)
	}
	return out
}

// Incomplete reports whether requests to a Service that selects the baseline, or has selected it,
// arrive elsewhere. What ends that can be no event about the baseline.
func (r Reach) Incomplete() bool {
	elsewhere := func(a Arrival) bool { return a.Covered || len(a.Others) > 0 }
	return slices.ContainsFunc(r.Selecting, elsewhere) || len(r.Moved) > 0
}

// mostNamed is the number of workloads that a message names at most.
const mostNamed = 3

// Condition returns the condition BaselineReached of a member; false if there is nothing to report.
func (r Reach) Condition(w *Workload) (condition.Condition, bool) {
	moved := slices.DeleteFunc(slices.Clone(r.Moved), func(a Arrival) bool { return a.Covered && len(a.Others) == 0 })
	switch {
	case len(r.Selecting) == 0 && len(moved) > 0:
		return condition.False(ReasonServicesMoved, moved[0].left(w)+
			", so requests to it do not reach the sandbox: "+moved[0].remedy("change its selector back")), true
	case len(r.Selecting) > 0 && r.Unready:
		return condition.False(ReasonNoReadyPod, fmt.Sprintf("No pod of %s is ready, so requests to its Services fail, also those with the routing key: kubectl get pods -n %s",
			w, w.Ref.Namespace)), true
	}
	var parts []string
	reason := ReasonServicesMoved
	for _, a := range r.Selecting {
		if len(a.Others) > 0 {
			reason = ReasonServiceShared
			parts = append(parts, fmt.Sprintf("Service %s also selects pods of %s, so some requests with the routing key reach these pods and not the sandbox: %s",
				a.Service, condition.List(a.Others, mostNamed, ", "), a.remedy("change the selector")))
		}
	}
	for _, a := range moved {
		parts = append(parts, a.left(w)+", so requests to it do not reach the sandbox")
	}
	return condition.True(reason, strings.Join(parts, "; ")+"."), len(parts) > 0
}

// left describes a Service that no longer selects a workload.
func (a Arrival) left(w *Workload) string {
	text := fmt.Sprintf("Service %s no longer selects %s", a.Service, w)
	if len(a.Others) > 0 {
		text += " but pods of " + condition.List(a.Others, mostNamed, ", ")
	}
	return text
}

// remedy returns the advice for users: fork the other workloads as well, or the alternative.
func (a Arrival) remedy(alternative string) string {
	if len(a.Forkable) == 0 {
		return alternative
	}
	return fmt.Sprintf("add %s to the sandbox, or %s", condition.List(a.Forkable, mostNamed, ", "), alternative)
}

// Sleeping returns the message about a workload without pods that Services select, with the command
// that helps.
func (w *Workload) Sleeping() string {
	if !asksForNone(w.Object) {
		return fmt.Sprintf("%s has no pods, so requests to its Services fail, also those with the routing key, until it has one: kubectl describe -n %s %s/%s",
			w, w.Ref.Namespace, strings.ToLower(w.Ref.Kind), w.Ref.Name)
	}
	return fmt.Sprintf("%s has 0 replicas, so requests to its Services fail, also those with the routing key: kubectl scale --replicas=1 -n %s %s/%s",
		w, w.Ref.Namespace, strings.ToLower(w.Ref.Kind), w.Ref.Name)
}
