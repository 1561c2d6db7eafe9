package power

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/workflows/podreads"
)

// volumes checks volumes that reach beyond the pod and the objects of its namespace. A volume of the
// baseline can stay, with mounts that are no wider than there.
func (g *grants) volumes() {
	for _, v := range g.next.Volumes {
		path := "spec.template.spec.volumes[" + v.Name + "]"
		g.projections(path, v)
		power, reaches := reach(v.VolumeSource)
		if !reaches {
			continue
		}
		var same []string // The volumes of the baseline that are this one.
		for _, was := range g.base.Volumes {
			if equality.Semantic.DeepEqual(was.VolumeSource, v.VolumeSource) {
				same = append(same, was.Name)
			}
		}
		g.when(len(same) == 0, power, path)
		if len(same) > 0 {
			g.mounts(power, v.Name, same)
		}
	}
}

// reach reports whether a volume reaches beyond the pod and the objects of its namespace, and returns the
// power for it. Secrets, ConfigMaps and claims, with their templates, are objects of the namespace; an
// image volume is pulled like the image of a container.
func reach(source corev1.VolumeSource) (Power, bool) {
	if source.HostPath != nil {
		return HostPath, true
	}
	source.EmptyDir, source.Secret, source.ConfigMap, source.DownwardAPI = nil, nil, nil, nil
	source.Projected, source.PersistentVolumeClaim, source.Ephemeral, source.Image = nil, nil, nil, nil
	return Volumes, source != (corev1.VolumeSource{})
}

// projections checks credentials that are projected into the pod.
func (g *grants) projections(path string, v corev1.Volume) {
	for _, is := range sources(v) {
		switch {
		case is.ServiceAccountToken != nil:
			g.when(!slices.ContainsFunc(projected(g.base), func(was corev1.VolumeProjection) bool {
				return sameToken(was.ServiceAccountToken, is.ServiceAccountToken)
			}), ServiceAccount, path+".projected.serviceAccountToken")
		case is.PodCertificate != nil:
			g.when(!slices.ContainsFunc(projected(g.base), func(was corev1.VolumeProjection) bool {
				return equality.Semantic.DeepEqual(was.PodCertificate, is.PodCertificate)
			}), ServiceAccount, path+".projected.podCertificate")
		}
	}
}

// sources returns the projections of a volume.
func sources(v corev1.Volume) []corev1.VolumeProjection {
	if v.Projected == nil {
		return nil
	}
	return v.Projected.Sources
}

// projected returns the projections of all volumes of a pod.
func projected(pod *corev1.PodSpec) []corev1.VolumeProjection {
	return slices.Concat(lists.Map(pod.Volumes, sources)...)
}

// sameToken reports whether two tokens have the same content; their paths are ignored.
func sameToken(a, b *corev1.ServiceAccountTokenProjection) bool {
	return a != nil && b != nil && a.Audience == b.Audience &&
		equality.Semantic.DeepEqual(a.ExpirationSeconds, b.ExpirationSeconds)
}

// mounted is a volume mount of a container, with the user that the container runs as.
type mounted struct {
	corev1.VolumeMount
	user user
	path string
}

// mountsOf returns where the volumes of these names are mounted in a pod.
func mountsOf(pod *corev1.PodSpec, volumes ...string) []mounted {
	var out []mounted
	for _, c := range Containers(*pod) {
		for _, m := range c.VolumeMounts {
			if slices.Contains(volumes, m.Name) {
				out = append(out, mounted{m, userOf(pod, c.Container), c.path})
			}
		}
	}
	return out
}

// mounts reports wider mounts of a volume that reaches beyond the pod. same are the names of that volume in
// the baseline. A mount is wider if it is writable where the baseline's was read-only, has another subPath or
// mount propagation, or belongs to another user, because file modes may allow that user more.
func (g *grants) mounts(power Power, name string, same []string) {
	had := mountsOf(g.base, same...)
	for _, is := range mountsOf(g.next, name) {
		covered := slices.ContainsFunc(had, func(was mounted) bool { return covers(was.VolumeMount, is.VolumeMount) })
		g.when(!covered, power, is.path+".volumeMounts["+is.MountPath+"]")
		known := slices.ContainsFunc(had, func(was mounted) bool { return equality.Semantic.DeepEqual(was.user, is.user) })
		g.when(covered && !known, power, is.path+".securityContext (the user at volume "+name+")")
	}
}

// user is the user that a container runs as for file access; fields that are not set are nil.
type user struct {
	User, Group, FSGroup *int64
	Groups               []int64
	NonRoot              bool
}

// userOf returns the user of a container in a pod.
func userOf(pod *corev1.PodSpec, c corev1.Container) user {
	p := contextOf(pod)
	u := user{User: p.RunAsUser, Group: p.RunAsGroup, FSGroup: p.FSGroup, Groups: p.SupplementalGroups, NonRoot: isTrue(p.RunAsNonRoot)}
	if s := c.SecurityContext; s != nil {
		if s.RunAsUser != nil {
			u.User = s.RunAsUser
		}
		if s.RunAsGroup != nil {
			u.Group = s.RunAsGroup
		}
		if s.RunAsNonRoot != nil {
			u.NonRoot = *s.RunAsNonRoot
		}
	}
	return u
}

// covers reports whether a mount allows no more than the baseline's mount.
func covers(was, is corev1.VolumeMount) bool {
	propagation := func(m corev1.VolumeMount) corev1.MountPropagationMode {
		if m.MountPropagation == nil {
			return corev1.MountPropagationNone
		}
		return *m.MountPropagation
	}
	return (is.ReadOnly || !was.ReadOnly) && is.SubPath == was.SubPath && is.SubPathExpr == was.SubPathExpr &&
		(propagation(is) == corev1.MountPropagationNone || propagation(is) == propagation(was))
}

// Kinds of namespaced objects with content that a pod can see.
const (
	KindSecret    = podreads.KindSecret
	KindConfigMap = podreads.KindConfigMap
	KindClaim     = podreads.KindClaim
)

// Read is an object of the namespace that a pod names, and so gets the content of.
type Read = podreads.Read

// Reads returns the objects that a pod reads, once for each field that refers to them.
func Reads(pod *corev1.PodSpec) []Read {
	return lists.Map(podreads.Of(pod), func(r podreads.Reading) Read { return r.Read })
}

// reads checks for objects that the pod can read and the baseline cannot.
func (g *grants) reads() {
	had := lists.Set(lists.Map(podreads.Of(g.base), func(r podreads.Reading) podreads.Read { return r.Read }))
	for _, r := range podreads.Of(g.next) {
		if !had[r.Read] {
			had[r.Read] = true
			g.found = append(g.found, Grant{Power: Secrets, Path: "spec.template.spec." + r.Path + " (" + r.Kind + " " + r.Name + ")", read: r.Read})
		}
	}
}
