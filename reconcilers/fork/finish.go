package fork

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/protos/crd/variable"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/meaning"
	"switchyard.dev/reconcilers/fork/power"
)

// annotationRestarted on a pod template is the time of the last kubectl rollout restart. It does not apply
// to other workloads (decision record 0021).
const annotationRestarted = "kubectl.kubernetes.io/restartedAt"

// foreignAnnotations returns prefixes of annotations that hold for the baseline but not for its clone: how
// it was applied, its revision and change cause, its release, its leader election record, and the
// subscribers to its rollout notifications. Release tools would prune a clone that kept their annotations.
func foreignAnnotations() []string {
	return []string{
		corev1.LastAppliedConfigAnnotation,
		"deployment.kubernetes.io/",
		"kubernetes.io/change-cause",
		"control-plane.alpha.kubernetes.io/",
		"rollout.argoproj.io/",
		"notifications.argoproj.io/",
		"meta.helm.sh/",
		"helm.sh/",
		"argocd.argoproj.io/",
		"kustomize.toolkit.fluxcd.io/",
		"helm.toolkit.fluxcd.io/",
	}
}

// isForeign reports whether an annotation is true of the baseline only.
func isForeign(key, _ string) bool { return hasAnyPrefix(key, foreignAnnotations()) }

// finish turns the patched baseline, last, into an object of its own.
func finish(last, first *draft, live *baseline.Workload, id Identity, keep keptKeys) error {
	own := metav1.ObjectMeta{
		Name:            id.DeploymentName(live.Ref.Name),
		Namespace:       live.Ref.Namespace,
		Labels:          ownLabels(last.meta.Labels, first.meta.Labels, keep),
		Annotations:     last.meta.Annotations,
		OwnerReferences: []metav1.OwnerReference{id.Owner},
	}
	id.Mark(&own)
	metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&own)
	if err != nil {
		return err
	}
	last.fields["metadata"] = metadata
	delete(last.fields, "status")

	labels := ownLabels(last.template.Labels, first.template.Labels, keep.ofPods(last.written))
	labels[crdv1.LabelForkedWorkload] = id.selectorValue()
	template := at(last.fields, "spec", "template", "metadata")
	template["labels"] = ofStrings(labels)
	delete(template, "finalizers") // No controller would remove them, and the fork could not be deleted.
	annotations := at(template, "annotations")
	delete(annotations, crdv1.AnnotationInject)
	if len(annotations) == 0 {
		delete(template, "annotations")
	}
	at(last.fields, "spec")["selector"] = map[string]any{"matchLabels": ofStrings(id.Selector())}

	pod := at(last.fields, "spec", "template", "spec")
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range objects(pod, list) {
			ordered(c, last.template.Spec, first.template.Spec)
			setEnv(c, id)
		}
	}
	nameAccountOnce(pod, last.template.Spec)
	return nil
}

// nameAccountOnce leaves out the older field for the name of the service account. API
// servers go by the newer one and write the same into both, so that a patch of only
// the newer one would never seem to be done.
func nameAccountOnce(fields map[string]any, pod corev1.PodSpec) {
	delete(fields, "serviceAccount")
	if name := power.Account(pod); name != "" {
		fields["serviceAccountName"] = name
	}
}

// ownLabels returns the labels without those of the baseline that are not kept. A label that
// a patch gave another value is the patch's, not the baseline's.
func ownLabels(labels, baseline map[string]string, keep keptKeys) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		if have, inherited := baseline[key]; !inherited || have != value || keep.matches(key) {
			out[key] = value
		}
	}
	return out
}

// ordered places the variables of a container so that each can refer to the others.
func ordered(container map[string]any, pod, live corev1.PodSpec) {
	name, _ := container["name"].(string)
	env, _ := container["env"].([]any)
	order, _ := meaning.Order(variablesIn(pod, name), variablesIn(live, name))
	if len(order) != len(env) {
		return
	}
	out := make([]any, 0, len(env))
	for _, i := range order {
		out = append(out, env[i])
	}
	container["env"] = out
}

// setEnv sets the variables of the sandbox in a container. They come first, so that the variables after
// them can refer to them.
func setEnv(container map[string]any, id Identity) {
	env := []any{map[string]any{"name": variable.EnvSandboxName, "value": id.SandboxName}}
	if id.RoutingKey != "" {
		env = append(env, map[string]any{"name": variable.EnvRoutingKey, "value": id.RoutingKey})
	}
	for _, e := range objects(container, "env") {
		if e["name"] != variable.EnvSandboxName && e["name"] != variable.EnvRoutingKey {
			env = append(env, e)
		}
	}
	container["env"] = env
}

// hasAnyPrefix reports whether the text begins with one of the prefixes.
func hasAnyPrefix(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}

// Identity identifies the ForkedWorkload, the sandbox and the baseline of a fork. It is recorded on all
// objects created for the fork.
type Identity struct {
	// ForkedWorkload is the name of the ForkedWorkload.
	ForkedWorkload string
	// Namespace is the namespace of the ForkedWorkload and of all objects created for it.
	Namespace string
	// Owner refers to the ForkedWorkload as the controller of the created objects.
	Owner metav1.OwnerReference
	// Baseline is the forked workload, with its namespace.
	Baseline crdv1.ObjectRef
	// SandboxName is the sandbox as its users know it.
	SandboxName string
	// SandboxLabel is the value of the sandbox's label; may be empty.
	SandboxLabel string
	// RoutingKey is empty for a ForkedWorkload that no sandbox created.
	RoutingKey string
}

// Selector returns the labels by which the fork's pods are found.
func (id Identity) Selector() map[string]string {
	return map[string]string{crdv1.LabelForkedWorkload: id.selectorValue()}
}

// DeploymentName names the clone, whatever its kind.
func (id Identity) DeploymentName(workload string) string { return id.name(workload) }

// ServiceName returns the name of the fork's Service for a baseline Service.
func (id Identity) ServiceName(baselineService string) string { return id.name(baselineService) }

// name returns a name that contains the sandbox and the part, and a hash of their owner: two sandboxes can
// have the same display name, and two ForkedWorkloads can share a Service.
func (id Identity) name(part string) string {
	shown := crdv1.ObjectName(crdv1.MaxServiceName, id.SandboxName, part)
	unique := crdv1.ObjectName(crdv1.MaxServiceName, id.SandboxName, part, id.Namespace, id.ForkedWorkload)
	return shown[:strings.LastIndexByte(shown, '-')] + unique[strings.LastIndexByte(unique, '-'):]
}

func (id Identity) selectorValue() string { return crdv1.LabelValue(id.ForkedWorkload) }

// Mark writes the identity on an object.
func (id Identity) Mark(o *metav1.ObjectMeta) {
	o.Labels, o.Annotations = lists.Merged(o.Labels), lists.Merged(o.Annotations)
	o.Labels[crdv1.LabelForkedWorkload] = id.selectorValue()
	if id.SandboxLabel != "" {
		o.Labels[crdv1.LabelSandbox] = id.SandboxLabel
	}
	o.Annotations[crdv1.AnnotationBaseline] = baseline.NameOf(id.Baseline)
	o.Annotations[crdv1.AnnotationSandboxName] = id.SandboxName
	if id.RoutingKey != "" {
		o.Annotations[crdv1.AnnotationRoutingKey] = id.RoutingKey
	}
}

// withConfinement returns next with the restrictions that all containers of the baseline (first) share set
// on the containers that the patch has added, as if they were set on the pod. Fields that a patch sets are
// kept; guardPowers checks the result. before is the draft before the patch.
//
// Restrictions that a power in allowed lets the container drop are not inherited. Nor is a read-only root
// file system: a writable one gives no power beyond the container, and the added container may need it.
func withConfinement(k kind, next, before, first *draft, allowed power.Powers) (*draft, error) {
	changed := false
	pod := at(next.fields, "spec", "template", "spec")
	for _, list := range []string{"initContainers", "containers"} {
		for _, fields := range objects(pod, list) {
			name, _ := fields["name"].(string)
			if _, had := power.ContainerNamed(first.template.Spec, name); had {
				continue
			}
			is, _ := power.ContainerNamed(next.template.Spec, name)
			inherited, err := runtime.DefaultUnstructuredConverter.ToUnstructured(power.Confining(&first.template, &next.template, is, allowed))
			if err != nil {
				return nil, err
			}
			for key, value := range inherited {
				changed = true
				if key == "capabilities" { // The patch can set add without setting drop.
					at(fields, "securityContext", key)["drop"] = at(inherited, key)["drop"]
					continue
				}
				at(fields, "securityContext")[key] = value
			}
		}
	}
	if !changed {
		return next, nil
	}
	document, err := encode(next.fields)
	if err != nil {
		return nil, err
	}
	return k.read(document, before)
}

// guardPowers refuses patches that give the fork more power than its baseline has:
// they are applied with the rights of the operator, which their author may not have.
// What counts is the result: a power that an earlier patch adds and a later one takes
// away is none.
func guardPowers(drafts []*draft, live *baseline.Workload, plan Plan) *Problem {
	first, last := drafts[0], len(drafts)-1
	refused := func(i int) []power.Grant {
		return slices.DeleteFunc(power.Added(&first.template, &drafts[i].template, plan.Running), func(g power.Grant) bool {
			return slices.Contains(plan.Powers, g.Power) || plan.answered(g)
		})
	}
	if last == 0 {
		return nil
	}
	wrong := refused(last)
	if len(wrong) == 0 {
		return nil
	}
	by := last // The patch that gave it, and no later one took away.
	for by > 1 && slices.Contains(refused(by-1), wrong[0]) {
		by--
	}
	here := patchPlace{index: by - 1, count: last, live: live}
	more := ""
	if len(wrong) > 1 {
		more = fmt.Sprintf(" (and %d more fields)", len(wrong)-1)
	}
	return problem(ReasonPatchNotAllowed,
		"%s gives the fork more power than its baseline has, by %s%s: change the patch, or, for every sandbox, let the operator's chart have %s: [%s]",
		here, wrong[0].Path, more, power.Setting, power.Names(wrong))
}

// answered reports whether another check covers a power: the admission webhook checks that the author can read
// the referenced objects. Plan.Resources is no such check, because the author of a ForkedWorkload can list any
// object as an output of a resource.
func (p Plan) answered(g power.Grant) bool { return p.AuthorAsked && g.Power == power.Secrets }

// Outputs returns the objects that the plan lists as outputs of the sandbox's resources. The list is
// trustworthy only in a plan made from a sandbox: a ForkedWorkload can list any object.
func (p Plan) Outputs() map[power.Read]bool {
	out := map[power.Read]bool{}
	for _, r := range p.Resources {
		out[power.Read{Kind: cmp.Or(r.OutputKind, defaultOutputKind), Name: r.ObjectName}] = true
	}
	return out
}
