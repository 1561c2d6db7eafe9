package power

import (
	corev1 "k8s.io/api/core/v1"
)

// Kinds of objects of a namespace whose content a pod gets to see.
const (
	KindSecret    = "Secret"
	KindConfigMap = "ConfigMap"
	KindClaim     = "PersistentVolumeClaim"
)

// Read is an object of the namespace that a pod names, and so gets the content of.
type Read struct {
	// Group is the API group of the kind; empty for those of Kubernetes itself.
	Group string
	// Kind is KindSecret, KindConfigMap, KindClaim, or what a new claim may be made from.
	Kind string
	// Name is that of the object.
	Name string
}

// reading is a Read with the field that names it.
type reading struct {
	Read
	path string
}

// Reads returns what a pod reads, as often as its fields name it.
func Reads(pod *corev1.PodSpec) []Read {
	var out []Read
	for _, r := range readsOf(pod) {
		out = append(out, r.Read)
	}
	return out
}

// readsOf returns every object that a pod of the template names, in the order of its
// fields; one that stands in several fields is there several times. What is optional
// counts as well: it is read where it is there.
func readsOf(pod *corev1.PodSpec) []reading {
	var r readings
	const at = "spec.template.spec."
	for _, s := range pod.ImagePullSecrets {
		r.add(KindSecret, s.Name, at+"imagePullSecrets")
	}
	for _, v := range pod.Volumes {
		r.volume(at+"volumes["+v.Name+"]", v.VolumeSource)
	}
	for _, c := range Containers(*pod) {
		r.environment(c)
	}
	return r.found
}

// readings collects what a pod names.
type readings struct{ found []reading }

func (r *readings) add(kind, name, path string) {
	if name != "" {
		r.found = append(r.found, reading{Read{Kind: kind, Name: name}, path})
	}
}

// environment looks at the variables of a container.
func (r *readings) environment(c Container) {
	for _, from := range c.EnvFrom {
		if from.SecretRef != nil {
			r.add(KindSecret, from.SecretRef.Name, c.path+".envFrom")
		}
		if from.ConfigMapRef != nil {
			r.add(KindConfigMap, from.ConfigMapRef.Name, c.path+".envFrom")
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if s := e.ValueFrom.SecretKeyRef; s != nil {
			r.add(KindSecret, s.Name, c.path+".env["+e.Name+"]")
		}
		if m := e.ValueFrom.ConfigMapKeyRef; m != nil {
			r.add(KindConfigMap, m.Name, c.path+".env["+e.Name+"]")
		}
	}
}

// volume looks at one volume.
func (r *readings) volume(path string, v corev1.VolumeSource) {
	if v.Secret != nil {
		r.add(KindSecret, v.Secret.SecretName, path)
	}
	if v.ConfigMap != nil {
		r.add(KindConfigMap, v.ConfigMap.Name, path)
	}
	if v.PersistentVolumeClaim != nil {
		r.add(KindClaim, v.PersistentVolumeClaim.ClaimName, path)
	}
	for _, s := range sources(corev1.Volume{VolumeSource: v}) {
		if s.Secret != nil {
			r.add(KindSecret, s.Secret.Name, path+".projected")
		}
		if s.ConfigMap != nil {
			r.add(KindConfigMap, s.ConfigMap.Name, path+".projected")
		}
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		r.madeFrom(path+".ephemeral", v.Ephemeral.VolumeClaimTemplate.Spec)
	}
	for _, name := range driverSecrets(v) {
		r.add(KindSecret, name, path)
	}
}

// madeFrom looks at what the content of a new claim is taken from.
func (r *readings) madeFrom(path string, claim corev1.PersistentVolumeClaimSpec) {
	add := func(group *string, kind, name string) {
		if kind != "" && name != "" {
			r.found = append(r.found, reading{Read{Group: textOf(group), Kind: kind, Name: name}, path + ".dataSource"})
		}
	}
	if s := claim.DataSource; s != nil {
		add(s.APIGroup, s.Kind, s.Name)
	}
	if s := claim.DataSourceRef; s != nil {
		add(s.APIGroup, s.Kind, s.Name)
	}
}

// driverSecrets returns the Secrets that volumes of drivers name.
func driverSecrets(v corev1.VolumeSource) []string {
	var out []string
	local := func(ref *corev1.LocalObjectReference) {
		if ref != nil {
			out = append(out, ref.Name)
		}
	}
	if v.CSI != nil {
		local(v.CSI.NodePublishSecretRef)
	}
	if v.FlexVolume != nil {
		local(v.FlexVolume.SecretRef)
	}
	if v.CephFS != nil {
		local(v.CephFS.SecretRef)
	}
	if v.RBD != nil {
		local(v.RBD.SecretRef)
	}
	if v.ISCSI != nil {
		local(v.ISCSI.SecretRef)
	}
	if v.Cinder != nil {
		local(v.Cinder.SecretRef)
	}
	if v.ScaleIO != nil {
		local(v.ScaleIO.SecretRef)
	}
	if v.StorageOS != nil {
		local(v.StorageOS.SecretRef)
	}
	if v.AzureFile != nil {
		out = append(out, v.AzureFile.SecretName)
	}
	return out
}

// reads looks at objects whose content the baseline does not get.
func (g *grants) reads() {
	had := map[Read]bool{}
	for _, r := range readsOf(g.base) {
		had[r.Read] = true
	}
	for _, r := range readsOf(g.next) {
		if !had[r.Read] {
			had[r.Read] = true
			g.found = append(g.found, Grant{Power: Secrets, Path: r.path + " (" + r.Kind + " " + r.Name + ")", read: r.Read})
		}
	}
}
