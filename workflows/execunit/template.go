package execunit

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Template is a pod template of a user, and the bounds of the pods that are created from it.
type Template struct {
	Owner
	// Pod is the template.
	Pod corev1.PodTemplateSpec
	// Namespace is that of the pods.
	Namespace string
	// Elsewhere is how a message advises to use another namespace.
	Elsewhere string
	// Volumes are the names of the operator's own volumes.
	Volumes []string
	// Allow are the powers that the pods may have, and Setting is the setting of the chart that lists them.
	Allow   Powers
	Setting string
	// OperatorNamespace and AuthorAsked are as in Settings.
	OperatorNamespace string
	AuthorAsked       bool
}

// Form returns the problem of a template that no pod of the operator can be created from; nil if there is none.
func (t Template) Form() *Problem { return first(t.metadata, t.names, t.mounts) }

// Bounds returns the problem of a template that asks for more than its pods may have; nil if there is none.
func (t Template) Bounds() *Problem { return first(t.account, t.reads, t.baseline) }

// first returns the first problem; nil if there is none.
func first(checks ...func() *Problem) *Problem {
	for _, check := range checks {
		if p := check(); p != nil {
			return p
		}
	}
	return nil
}

// metadata refuses metadata that a template cannot set for the pod of every attempt.
func (t Template) metadata() *Problem {
	m, unit := t.Pod.ObjectMeta, t.Owner
	switch {
	case m.Name != "" || m.GenerateName != "":
		return problem(ReasonTemplateRefused, "the pod template of %s names the pod. Remove metadata.name and metadata.generateName, since every pod gets a name of its own.", unit)
	case len(m.Finalizers) > 0 || len(m.OwnerReferences) > 0 || m.UID != "" || m.ResourceVersion != "" || m.DeletionTimestamp != nil || m.Generation != 0 || m.SelfLink != "":
		return problem(ReasonTemplateRefused, "the pod template of %s sets metadata other than namespace, labels and annotations, such as finalizers or ownerReferences. Remove it.", unit)
	}
	return nil
}

// containersOf returns the containers of a template.
func containersOf(pod corev1.PodSpec) []corev1.Container {
	return slices.Concat(pod.InitContainers, pod.Containers)
}

// names refuses fields that the pod of a unit cannot have, and names that the operator uses.
func (t Template) names() *Problem {
	pod, unit := t.Pod.Spec, t.Owner
	switch {
	case len(pod.EphemeralContainers) > 0 || len(pod.EvictionResponders) > 0:
		return problem(ReasonTemplateRefused, "the pod template of %s sets ephemeralContainers or evictionResponders. Remove them, since its pods have none.", unit)
	case pod.OS != nil && pod.OS.Name != corev1.Linux:
		return problem(ReasonTemplateRefused, "the pod template of %s asks for os %s. Remove it, since its pods run on Linux.", unit, quoted(string(pod.OS.Name)))
	}
	taken := map[string]bool{}
	for _, container := range containersOf(pod) {
		switch name := container.Name; {
		case slices.Contains(t.Containers, name):
			return problem(ReasonTemplateRefused, "the pod template of %s has a container named %s, which is the operator's own. Give it another name.", unit, name)
		case len(validation.IsDNS1123Label(name)) > 0:
			return problem(ReasonTemplateRefused, "the pod template of %s has a container named %s, which is not a valid name. Change it.", unit, quoted(name))
		case taken[name]:
			return problem(ReasonTemplateRefused, "the pod template of %s has two containers named %s. Give one of them another name.", unit, quoted(name))
		case container.Image == "":
			return problem(ReasonTemplateRefused, "the container %s of %s has no image. Add it.", quoted(name), unit)
		}
		taken[container.Name] = true
	}
	return nil
}

// mounts refuses the operator's volumes, and mounts that hide them.
func (t Template) mounts() *Problem {
	pod, unit := t.Pod.Spec, t.Owner
	have := map[string]bool{}
	for _, v := range pod.Volumes {
		switch {
		case slices.Contains(t.Volumes, v.Name):
			return problem(ReasonTemplateRefused, "the pod template of %s has a volume named %s, which is the operator's own. Give it another name.", unit, v.Name)
		case have[v.Name]:
			return problem(ReasonTemplateRefused, "the pod template of %s has two volumes named %s. Give one of them another name.", unit, quoted(v.Name))
		}
		have[v.Name] = true
	}
	for i, container := range containersOf(pod) {
		main := i == len(pod.InitContainers)+MainIndex(pod)
		var names, paths []string
		for _, m := range container.VolumeMounts {
			names, paths = append(names, m.Name), append(paths, m.MountPath)
		}
		for _, d := range container.VolumeDevices {
			names, paths = append(names, d.Name), append(paths, d.DevicePath)
		}
		for j, name := range names {
			switch {
			case !have[name]:
				return problem(ReasonTemplateRefused, "the container %s of %s mounts the volume %s, which is none of the pod template's. Change its volumeMounts, or add the volume.", quoted(container.Name), unit, quoted(name))
			case main && operatorPath(paths[j]):
				return problem(ReasonTemplateRefused, "the container %s of %s mounts something at %s, which is the operator's own. Choose another path.", quoted(container.Name), unit, quoted(paths[j]))
			}
		}
	}
	return nil
}

// ownDir is the operator's folder in the main container.
const ownDir = "/signadot"

// operatorPath reports whether a path is the operator's folder, is in it, or hides it.
func operatorPath(at string) bool {
	at = path.Clean("/" + at)
	return at == "/" || at == ownDir || strings.HasPrefix(at, ownDir+"/")
}

// wrongPath returns the problem of the path of a file in the main container, as the end of a
// sentence about it; empty: there is none.
func wrongPath(at string) string {
	const longest = 4095
	switch {
	case !strings.HasPrefix(at, "/"):
		return "is not absolute"
	case len(at) > longest:
		return fmt.Sprintf("is longer than %d characters", longest)
	case strings.ContainsAny(at, ":\x00"):
		return "has a colon or a NUL in it"
	case operatorPath(at):
		return "is the operator's own"
	case path.Clean(at) != at:
		return "is not in its shortest form, " + quoted(path.Clean(at))
	}
	return ""
}
