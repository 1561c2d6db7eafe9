package power

import (
	"reflect"

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
	var out []reading
	add := func(path string, named ...Read) {
		for _, r := range named {
			if r.Kind != "" && r.Name != "" {
				out = append(out, reading{r, path})
			}
		}
	}
	const at = "spec.template.spec."
	for _, s := range pod.ImagePullSecrets {
		add(at+"imagePullSecrets", Read{Kind: KindSecret, Name: s.Name})
	}
	for _, v := range pod.Volumes {
		path := at + "volumes[" + v.Name + "]"
		add(path, referred(v.VolumeSource)...)
		for _, s := range sources(v) {
			add(path+".projected", referred(s)...)
		}
		add(path+".ephemeral.dataSource", madeFrom(v.Ephemeral)...)
	}
	for _, c := range Containers(*pod) {
		for _, from := range c.EnvFrom {
			add(c.path+".envFrom", referred(from)...)
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil {
				add(c.path+".env["+e.Name+"]", referred(*e.ValueFrom)...)
			}
		}
	}
	return out
}

// referred returns the objects that the pointers of a struct refer to, such as the source of
// a volume or of a variable. Of a type that is not known here, such as the volume of a
// driver, it takes the pointers in turn: a driver that is new to us names its Secret as all
// do.
func referred(in any) []Read {
	var out []Read
	fields := reflect.ValueOf(in)
	for i := range fields.NumField() {
		f := fields.Field(i)
		if f.Kind() != reflect.Pointer || f.IsNil() || f.Elem().Kind() != reflect.Struct {
			continue
		}
		if r, known := target(f.Interface()); known {
			out = append(out, r)
		} else {
			out = append(out, referred(f.Elem().Interface())...)
		}
	}
	return out
}

// target returns what a reference of a pod refers to; false when it is of a type that is not
// known here.
func target(reference any) (Read, bool) {
	switch to := reference.(type) {
	case *corev1.SecretVolumeSource:
		return Read{Kind: KindSecret, Name: to.SecretName}, true
	case *corev1.SecretProjection:
		return Read{Kind: KindSecret, Name: to.Name}, true
	case *corev1.SecretEnvSource:
		return Read{Kind: KindSecret, Name: to.Name}, true
	case *corev1.SecretKeySelector:
		return Read{Kind: KindSecret, Name: to.Name}, true
	case *corev1.LocalObjectReference: // Drivers have such for Secrets alone.
		return Read{Kind: KindSecret, Name: to.Name}, true
	case *corev1.AzureFileVolumeSource:
		return Read{Kind: KindSecret, Name: to.SecretName}, true
	case *corev1.ConfigMapVolumeSource:
		return Read{Kind: KindConfigMap, Name: to.Name}, true
	case *corev1.ConfigMapProjection:
		return Read{Kind: KindConfigMap, Name: to.Name}, true
	case *corev1.ConfigMapEnvSource:
		return Read{Kind: KindConfigMap, Name: to.Name}, true
	case *corev1.ConfigMapKeySelector:
		return Read{Kind: KindConfigMap, Name: to.Name}, true
	case *corev1.PersistentVolumeClaimVolumeSource:
		return Read{Kind: KindClaim, Name: to.ClaimName}, true
	}
	return Read{}, false
}

// madeFrom returns what the content of a claim is taken from that is made with the pod.
func madeFrom(v *corev1.EphemeralVolumeSource) []Read {
	if v == nil || v.VolumeClaimTemplate == nil {
		return nil
	}
	var out []Read
	if s := v.VolumeClaimTemplate.Spec.DataSource; s != nil {
		out = append(out, Read{textOf(s.APIGroup), s.Kind, s.Name})
	}
	if s := v.VolumeClaimTemplate.Spec.DataSourceRef; s != nil {
		out = append(out, Read{textOf(s.APIGroup), s.Kind, s.Name})
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
