package fork

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/reconcilers/baseline"
)

// Writable gives a clone in the form in which it can be written with
// server-side apply. Kubernetes takes lists in which an entry stands twice (a
// variable, a port under two names) and goes by one of them; server-side apply
// refuses them. So each entry that Kubernetes would pass over is left out. Of a
// port with two names the second is lost; Services (the function) knows.
func Writable(clone Object) Object {
	d, ok := clone.(*appsv1.Deployment)
	if !ok {
		return clone
	}
	out := d.DeepCopy()
	pod := &out.Spec.Template.Spec
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Env = lastOf(c.Env, func(e corev1.EnvVar) string { return e.Name })
			c.Ports = firstOf(c.Ports, func(p corev1.ContainerPort) portKey {
				return portKey{p.ContainerPort, baseline.ProtocolOf(p.Protocol)}
			})
		}
	}
	pod.ImagePullSecrets = firstOf(pod.ImagePullSecrets, func(r corev1.LocalObjectReference) string { return r.Name })
	pod.HostAliases = mergeAliases(pod.HostAliases)
	return out
}

// firstOf leaves out what has the key of something before it.
func firstOf[T any, K comparable](list []T, key func(T) K) []T {
	seen := map[K]bool{}
	return slices.DeleteFunc(list, func(item T) bool {
		k := key(item)
		was := seen[k]
		seen[k] = true
		return was
	})
}

// lastOf leaves out what has the key of something after it.
func lastOf[T any, K comparable](list []T, key func(T) K) []T {
	slices.Reverse(list)
	list = firstOf(list, key)
	slices.Reverse(list)
	return list
}

// mergeAliases puts the names of one address together.
func mergeAliases(aliases []corev1.HostAlias) []corev1.HostAlias {
	var out []corev1.HostAlias
	for _, a := range aliases {
		i := slices.IndexFunc(out, func(have corev1.HostAlias) bool { return have.IP == a.IP })
		if i < 0 {
			out = append(out, a)
			continue
		}
		out[i].Hostnames = append(out[i].Hostnames, a.Hostnames...)
	}
	return out
}
