package execunit

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// metadata refuses metadata that a template cannot set for the pod of every attempt.
func (c checking) metadata() *Problem {
	m, unit := c.exec.PodTemplate.ObjectMeta, quoted(c.unit.Name)
	switch {
	case m.Name != "" || m.GenerateName != "":
		return problem(ReasonTemplateRefused, "the pod template of step %s names the pod. Remove metadata.name and metadata.generateName, since every attempt gets a new pod.", unit)
	case len(m.Finalizers) > 0 || len(m.OwnerReferences) > 0 || m.UID != "" || m.ResourceVersion != "" || m.DeletionTimestamp != nil || m.Generation != 0 || m.SelfLink != "":
		return problem(ReasonTemplateRefused, "the pod template of step %s sets metadata other than namespace, labels and annotations, such as finalizers or ownerReferences. Remove it.", unit)
	}
	return nil
}

// restarts refuses fields that could start the script a second time.
func (c checking) restarts() *Problem {
	pod, unit := c.exec.PodTemplate.Spec, quoted(c.unit.Name)
	if pod.RestartPolicy != "" && pod.RestartPolicy != corev1.RestartPolicyNever {
		return problem(ReasonTemplateRefused, "the pod template of step %s sets restartPolicy %s. Remove it, since a step runs once.", unit, quoted(string(pod.RestartPolicy)))
	}
	main := pod.Containers[mainIndex(pod)].Name
	for _, container := range containersOf(pod) {
		policy := container.RestartPolicy
		switch {
		case len(container.RestartPolicyRules) > 0:
			return problem(ReasonTemplateRefused, "the container %s of step %s has restartPolicyRules. Remove them, since a step runs once.", quoted(container.Name), unit)
		case container.Name == main && policy != nil && *policy != corev1.ContainerRestartPolicyNever:
			return problem(ReasonTemplateRefused, "the container %s of step %s sets restartPolicy %s. Remove it, since a step runs once.", quoted(main), unit, quoted(string(*policy)))
		}
	}
	return nil
}

// containersOf returns the containers of a template.
func containersOf(pod corev1.PodSpec) []corev1.Container {
	return slices.Concat(pod.InitContainers, pod.Containers)
}

// names refuses fields that the pod of a unit cannot have, and names that the operator uses.
func (c checking) names() *Problem {
	pod, unit := c.exec.PodTemplate.Spec, quoted(c.unit.Name)
	switch {
	case len(pod.EphemeralContainers) > 0 || len(pod.EvictionResponders) > 0:
		return problem(ReasonTemplateRefused, "the pod template of step %s sets ephemeralContainers or evictionResponders. Remove them, since the pod of a step has none.", unit)
	case pod.OS != nil && pod.OS.Name != corev1.Linux:
		return problem(ReasonTemplateRefused, "the pod template of step %s asks for os %s. Remove it, since steps run on Linux.", unit, quoted(string(pod.OS.Name)))
	}
	taken := map[string]bool{}
	for _, container := range containersOf(pod) {
		switch name := container.Name; {
		case name == InputManager || name == OutputManager:
			return problem(ReasonTemplateRefused, "the pod template of step %s has a container named %s, which is the operator's own. Give it another name.", unit, name)
		case len(validation.IsDNS1123Label(name)) > 0:
			return problem(ReasonTemplateRefused, "the pod template of step %s has a container named %s, which is not a valid name. Change it.", unit, quoted(name))
		case taken[name]:
			return problem(ReasonTemplateRefused, "the pod template of step %s has two containers named %s. Give one of them another name.", unit, quoted(name))
		case container.Image == "":
			return problem(ReasonTemplateRefused, "the container %s of step %s has no image. Add it.", quoted(name), unit)
		}
		taken[container.Name] = true
	}
	return nil
}

// mounts refuses the operator's volumes, and mounts that hide them.
func (c checking) mounts() *Problem {
	pod, unit := c.exec.PodTemplate.Spec, quoted(c.unit.Name)
	have := map[string]bool{}
	for _, v := range pod.Volumes {
		switch {
		case v.Name == VolumeIO || v.Name == VolumeToken:
			return problem(ReasonTemplateRefused, "the pod template of step %s has a volume named %s, which is the operator's own. Give it another name.", unit, v.Name)
		case have[v.Name]:
			return problem(ReasonTemplateRefused, "the pod template of step %s has two volumes named %s. Give one of them another name.", unit, quoted(v.Name))
		}
		have[v.Name] = true
	}
	for i, container := range containersOf(pod) {
		main := i == len(pod.InitContainers)+mainIndex(pod)
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
				return problem(ReasonTemplateRefused, "the container %s of step %s mounts the volume %s, which is none of the pod template's. Change its volumeMounts, or add the volume.", quoted(container.Name), unit, quoted(name))
			case main && operatorPath(paths[j]):
				return problem(ReasonTemplateRefused, "the container %s of step %s mounts something at %s, which is the operator's own. Choose another path.", quoted(container.Name), unit, quoted(paths[j]))
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
