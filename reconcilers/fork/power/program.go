package power

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"switchyard.dev/eventbus/lists"
)

// programs checks the images and commands of containers that can reach the node, as privileged ones or by
// a directory of the node, because the baseline can. It is no added power if a container of the baseline
// with the same access runs the same program.
func (g *grants) programs() {
	for _, c := range Containers(*g.next) {
		if !g.inReach(g.next, c.Container) {
			continue
		}
		ran := false
		for _, was := range Containers(*g.base) {
			ran = ran || (was.Name == c.Name || g.inReach(g.base, was.Container)) && program(was.Container) == program(c.Container)
		}
		if !ran {
			g.found = append(g.found, Grant{Power: NodePrograms, Path: c.path + " (its image or commands)", what: program(c.Container)})
		}
	}
}

// inReach reports whether a container of a pod can reach the node as the baseline can.
func (g *grants) inReach(pod *corev1.PodSpec, c corev1.Container) bool {
	if was, _ := ContainerNamed(*g.base, c.Name); privileged(was) && privileged(c) {
		return true
	}
	for _, m := range c.VolumeMounts {
		if v := volumeNamed(pod, m.Name); v != nil && v.HostPath != nil && hasVolume(g.base, v.VolumeSource) {
			return true
		}
	}
	return false
}

// privileged reports whether a container is.
func privileged(c corev1.Container) bool {
	return c.SecurityContext != nil && isTrue(c.SecurityContext.Privileged)
}

// volumeNamed returns the volume of this name, or nil.
func volumeNamed(pod *corev1.PodSpec, name string) *corev1.Volume {
	return lists.First(lists.Pointers(pod.Volumes), func(v *corev1.Volume) bool { return v.Name == name })
}

// hasVolume reports whether a pod has this volume, by any name.
func hasVolume(pod *corev1.PodSpec, source corev1.VolumeSource) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return equality.Semantic.DeepEqual(v.VolumeSource, source) })
}

// program returns the image and all commands of a container as text, for comparison.
func program(c corev1.Container) string {
	run := []any{c.Image, c.Command, c.Args}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil && p.Exec != nil {
			run = append(run, p.Exec.Command)
		}
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil && h.Exec != nil {
				run = append(run, h.Exec.Command)
			}
		}
	}
	text, err := json.Marshal(run)
	if err != nil {
		return c.Image // Never: it is texts.
	}
	return string(text)
}

// users checks for containers that become root where the baseline sets another user. A new container is
// compared with all containers of the baseline.
func (g *grants) users() {
	for _, c := range Containers(*g.next) {
		var had []Container
		for _, was := range Containers(*g.base) {
			if was.Name == c.Name {
				had = []Container{was}
				break
			}
			had = append(had, was)
		}
		_, known := ContainerNamed(*g.base, c.Name)
		others := len(had) > 0
		for _, was := range had {
			u := userOf(g.base, was.Container).User
			others = others && u != nil && *u != 0
		}
		is := userOf(g.next, c.Container).User
		root := is != nil && *is == 0 || is == nil && known // The image's own may be root.
		g.when(others && root, Root, c.path+".securityContext.runAsUser")
	}
}

// claims compares claims of devices (dynamic resource allocation).
func (g *grants) claims() {
	for _, claim := range g.next.ResourceClaims {
		had := false
		for _, was := range g.base.ResourceClaims {
			had = had || equality.Semantic.DeepEqual(was, claim)
		}
		g.when(!had, ResourceClaims, "spec.template.spec.resourceClaims["+claim.Name+"]")
	}
}
