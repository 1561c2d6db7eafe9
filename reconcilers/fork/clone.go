package fork

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/meaning"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/fork/variables"
	"switchyard.dev/reconcilers/fork/written"
)

// Plan has the parameters of a fork.
type Plan struct {
	// Identity is the ForkedWorkload, the sandbox and the baseline that the fork belongs to.
	Identity Identity
	// Patches are applied in order.
	Patches []crdv1.Patch
	// Resources are the values of the sandbox's resources for template patches, by resource name.
	Resources map[string]crdv1.ResourceTemplateData
	// Siblings are the other forks of the sandbox that patches name, by Siblings.
	Siblings map[string]variables.Reached
	// Powers are those that patches may add. None when it is empty.
	Powers power.Powers
	// AuthorAsked is set if the admission webhook checks, when patches are written, that their author can
	// read the objects that they reference (package admission). Reading them then needs no power.
	AuthorAsked bool
	// Running is the pod of the fork that runs; nil when none does.
	Running *corev1.PodSpec
	// PreservedLabels are RE2 expressions for keys of baseline labels that stay.
	PreservedLabels []string
	// InstallationLabels are such expressions that count for all forks. They keep no label by which
	// a Service, a PodDisruptionBudget or the baseline itself selects its pods (package reserved).
	InstallationLabels []string
	// ServicesIn are all Services of the namespace that are not a fork's own.
	Neighbours []corev1.Service
	// Budgets are all PodDisruptionBudgets of the namespace.
	Budgets []policyv1.PodDisruptionBudget
}

// Object is a workload of any kind, as clients take one.
type Object interface {
	metav1.Object
	runtime.Object
}

// Fork is a workload that runs beside its baseline.
type Fork struct {
	// Object is the whole clone, an *appsv1.Deployment, or a Rollout as *unstructured.Unstructured, to be
	// converted by Writable and applied. It has no status and no fields that the API server sets.
	Object Object
	// Template is its pod template.
	Template *corev1.PodTemplateSpec
	// Replicas is the number of pods that patches set; nil if they leave it open.
	Replicas *int32
	// Yields are field paths that the fork's field manager does not force: annotations that come from the
	// baseline only. Another field manager that sets them keeps them.
	Yields [][]string
	// Keeps are paths of fields that are set when the fork is created and left alone
	// afterwards: the replicas, if patches leave them open.
	Keeps [][]string
	// Added are the names of containers that patches add to those of the baseline.
	Added []string
	// Circle are variables that refer to each other, as container/name, so that some keep $(NAME) as
	// written; Lost are labels of the baseline that the fork reads and does not have.
	Circle []string
	Lost   []meaning.Read
}

// Clone returns the fork of a live workload. The workload is not changed. A Problem
// means that there is no such fork.
func Clone(live *baseline.Workload, plan Plan) (*Fork, *Problem) {
	keep, p := keptLabels(live, plan)
	if p != nil {
		return nil, p
	}
	k, p := kindOf(live)
	if p != nil {
		return nil, p
	}
	drafts, p := patched(k, live, plan)
	if p != nil {
		return nil, p
	}
	if p := guardPowers(drafts, live, plan); p != nil {
		return nil, p
	}
	first, last := drafts[0], drafts[len(drafts)-1]
	if p := plan.unfit(last.template.Spec); p != nil {
		return nil, p
	}
	if conflict := traffic.Conflict(last.template.Spec); conflict != "" {
		return nil, problem(ReasonPatchNotAllowed, "%s", conflict)
	}
	fork := &Fork{}
	if last.sized && last.replicas != nil {
		fork.Replicas = last.replicas
	}
	k.finish(last.fields, fork.Replicas == nil)
	if err := finish(last, first, live, plan.Identity, keep); err != nil {
		return nil, problem(ReasonPatchFailed, "the fork of %s cannot be written: %v", live, err)
	}
	object, template, err := k.object(last.fields)
	if err != nil {
		return nil, problem(ReasonPatchFailed, "the fork of %s cannot be written: %v", live, err)
	}
	if p := guardLabels(template.Labels, live, plan); p != nil {
		return nil, p
	}
	fork.Object, fork.Template, fork.Added = object, template, added(first.template.Spec, template.Spec)
	fork.Circle, fork.Lost = circles(last.template.Spec, first.template.Spec), meaning.LostLabels(template, live.Template.Labels)
	fork.Yields = yields(object, template, first)
	if _, written := at(last.fields, "spec")["replicas"]; written && fork.Replicas == nil {
		fork.Keeps = [][]string{{"spec", "replicas"}}
	}
	return fork, nil
}

// patched returns the workload before the first patch and after each of them.
func patched(k kind, live *baseline.Workload, plan Plan) ([]*draft, *Problem) {
	fields, p := k.bare(live)
	if p != nil {
		return nil, p
	}
	document, err := encode(fields)
	if err != nil {
		return nil, problem(ReasonPatchFailed, "%s cannot be written as JSON: %v", live, err)
	}
	first, err := k.read(document, nil)
	if err != nil {
		return nil, problem(ReasonPatchFailed, "%s cannot be read: %v", live, err)
	}
	drafts, book := []*draft{first}, newPortBook(first.template.Spec)
	for i := range plan.Patches {
		here := patchPlace{index: i, count: len(plan.Patches), live: live}
		form, p := formOf(plan, i, here)
		if p != nil {
			return nil, p
		}
		if document, err = form.apply(k, document); err != nil {
			return nil, problem(ReasonPatchFailed, "%s (%s) does not apply: %v", here, form.name, err)
		}
		before := drafts[i]
		next, err := k.read(document, before)
		if err != nil {
			return nil, problem(ReasonPatchFailed, "%s (%s) does not give a %s: %v", here, form.name, live.Ref.Kind, err)
		}
		if p := checkNames(form.name, before.template.Spec, next.template.Spec, here); p != nil {
			return nil, p
		}
		if wrong := meaning.Doubled(before.template.Spec, next.template.Spec); form.name == formStrategic && wrong != "" {
			return nil, problem(ReasonPatchFailed, "%s %s", here, wrong)
		}
		if p := checkPatched(k, next, first, here); p != nil {
			return nil, p
		}
		if next, err = withConfinement(k, next, before, first, plan.Powers); err != nil {
			return nil, problem(ReasonPatchFailed, "%s (%s) does not give a %s: %v", here, form.name, live.Ref.Kind, err)
		}
		next.sized = before.sized || form.sizes()
		next.written = lists.Merged(before.written, written.PodLabels(form.name, form.content))
		if c := book.enter(i, before.template.Spec, next.template.Spec); c != nil {
			return nil, problem(ReasonPortConflict, "%s: container port %s is given by %s and again by %s: give it in one of them only",
				here, c.port, c.first, c.second)
		}
		drafts = append(drafts, next)
	}
	return drafts, nil
}

// patchPlace names a patch in messages.
type patchPlace struct {
	index, count int
	live         *baseline.Workload
}

func (p patchPlace) String() string {
	return fmt.Sprintf("patch %d of %d for %s", p.index+1, p.count, p.live)
}

// checkPatched returns a Problem if the result is no longer a fork of the baseline, or if the API server
// would reject it for a reason that this function can describe better.
func checkPatched(k kind, next, first *draft, here patchPlace) *Problem {
	switch {
	case next.kind != first.kind || next.apiVersion != first.apiVersion:
		return problem(ReasonPatchFailed, "%s changes kind or apiVersion: leave them out of the patch", here)
	case next.meta.Name != first.meta.Name || next.meta.Namespace != first.meta.Namespace:
		return problem(ReasonPatchFailed, "%s changes metadata.name or metadata.namespace: leave them out of the patch", here)
	case metav1.FormatLabelSelector(next.selector) != metav1.FormatLabelSelector(first.selector):
		return problem(ReasonPatchFailed, "%s changes spec.selector, which every fork has of its own: leave it out of the patch", here)
	case len(next.template.Spec.Containers) == 0:
		return problem(ReasonPatchFailed, "%s leaves no container: keep at least one", here)
	}
	pod, live := next.template.Spec, first.template.Spec
	for _, list := range []struct {
		kind     string
		has, had []corev1.Container
	}{{"container", pod.Containers, live.Containers}, {"init container", pod.InitContainers, live.InitContainers}} {
		for _, c := range list.has {
			if c.Image == "" {
				return problem(ReasonPatchFailed,
					"%s gives %s %q no image: the baseline has %s; use one of these names or give an image",
					here, list.kind, c.Name, containerNames(list.kind, list.had))
			}
		}
	}
	if wrong := k.check(next, first); wrong != "" {
		return problem(ReasonPatchFailed, "%s %s", here, wrong)
	}
	return nil
}

// containerNames lists containers of a kind for a message.
func containerNames(kind string, of []corev1.Container) string {
	names := lists.Map(of, func(c corev1.Container) string { return c.Name })
	switch len(names) {
	case 0:
		return "no " + kind
	case 1:
		return "the " + kind + " " + names[0]
	}
	return "the " + kind + "s " + strings.Join(names, ", ")
}

// circles returns the variables that refer to each other, as container/name.
func circles(pod, live corev1.PodSpec) (out []string) {
	for _, c := range power.Containers(pod) {
		before := variablesIn(live, c.Name)
		_, circle := meaning.Order(c.Env, before)
		if len(c.EnvFrom) == 0 { // Otherwise that may have a variable of the same name.
			circle = append(circle, meaning.OfThemselves(c.Env, before)...)
		}
		out = append(out, lists.Map(circle, func(name string) string { return c.Name + "/" + name })...)
	}
	return out
}

// variablesIn returns the variables of a container of a pod.
func variablesIn(pod corev1.PodSpec, name string) []corev1.EnvVar {
	c, _ := power.ContainerNamed(pod, name)
	return c.Env
}

// added returns the names of the containers of a pod that the baseline's has not.
func added(live, pod corev1.PodSpec) []string {
	var out []string
	for _, c := range power.Containers(pod) {
		if _, had := power.ContainerNamed(live, c.Name); !had {
			out = append(out, c.Name)
		}
	}
	return out
}

// withoutContent returns an error of the patch libraries without values of the patch or the workload. The
// libraries quote whole objects, including passwords, and more users can read conditions and Events than
// can read the patch.
func withoutContent(err error) error {
	text := err.Error()
	if strings.HasPrefix(text, "expected a ") { // Only names of Go types follow.
		return err
	}
	if strings.HasPrefix(text, "map: ") {
		const marker = " does not contain declared merge key: "
		if i := strings.LastIndex(text, marker); i >= 0 {
			return fmt.Errorf("an entry of a list has no %s, the merge key of that list", text[i+len(marker):])
		}
	}
	if cause := errors.Unwrap(err); cause != nil && strings.HasPrefix(text, "invalid operation ") {
		return fmt.Errorf("an operation is not valid: %w", cause)
	}
	known, _, quotes := strings.Cut(text, " in map: ")
	for _, opens := range []string{"map[", "[", "{"} {
		before, _, found := strings.Cut(known, opens)
		known, quotes = before, quotes || found
	}
	switch known = strings.TrimRight(known, " :\n"); {
	case !quotes:
		return err
	case known == "":
		return errors.New("it is not written as such a patch has to be")
	}
	return errors.New(known)
}
