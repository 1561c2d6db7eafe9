// Package podreads lists the objects of its namespace that a pod refers to and can read the
// content of. It is pure: values in, values out.
package podreads

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// Kinds of objects of a namespace with content that a pod can read.
const (
	KindSecret    = "Secret"
	KindConfigMap = "ConfigMap"
	KindClaim     = "PersistentVolumeClaim"
)

// Read is an object of the namespace that a pod refers to and can read the content of.
type Read struct {
	// Group is the API group of the kind; empty for those of Kubernetes itself.
	Group string
	// Kind is KindSecret, KindConfigMap, KindClaim, or the kind of a new claim's source.
	Kind string
	// Name is that of the object.
	Name string
	// Namespace is the object's, where the pod names one; empty: the pod's own.
	Namespace string
}

// Reading is a Read with the field that names it.
type Reading struct {
	Read
	// Path is that of the field, in the pod's spec.
	Path string
}

// Of returns every object that a pod refers to, in the order of its fields; an object in several
// fields is listed several times. Optional references are included: they are read where the
// object exists.
func Of(pod *corev1.PodSpec) []Reading {
	var out []Reading
	add := func(path string, named ...Read) {
		for _, r := range named {
			if r.Kind != "" && r.Name != "" {
				out = append(out, Reading{r, path})
			}
		}
	}
	for _, s := range pod.ImagePullSecrets {
		add("imagePullSecrets", Read{Kind: KindSecret, Name: s.Name})
	}
	for _, v := range pod.Volumes {
		path := "volumes[" + v.Name + "]"
		add(path, referred(v.VolumeSource)...)
		for _, s := range sources(v) {
			add(path+".projected", referred(s)...)
		}
		add(path+".ephemeral.dataSource", madeFrom(v.Ephemeral)...)
	}
	container := func(path string, c corev1.Container) {
		path += "[" + c.Name + "]"
		for _, from := range c.EnvFrom {
			add(path+".envFrom", referred(from)...)
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil {
				add(path+".env["+e.Name+"]", referred(*e.ValueFrom)...)
			}
		}
	}
	for _, c := range pod.InitContainers {
		container("initContainers", c)
	}
	for _, c := range pod.Containers {
		container("containers", c)
	}
	for _, c := range pod.EphemeralContainers {
		container("ephemeralContainers", corev1.Container(c.EphemeralContainerCommon))
	}
	return out
}

// sources returns the projections of a volume.
func sources(v corev1.Volume) []corev1.VolumeProjection {
	if v.Projected == nil {
		return nil
	}
	return v.Projected.Sources
}

// referred returns the objects that the pointers of a struct refer to, such as the source of a
// volume or of a variable. For an unknown type, such as the volume of a new driver, it follows
// the pointers in turn, since drivers refer to Secrets in a common form.
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

// target returns the target of a reference; false when its type is unknown.
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
	case *corev1.LocalObjectReference: // drivers use it only for Secrets
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

// madeFrom returns the data source of an ephemeral claim.
func madeFrom(v *corev1.EphemeralVolumeSource) []Read {
	if v == nil || v.VolumeClaimTemplate == nil {
		return nil
	}
	var out []Read
	if s := v.VolumeClaimTemplate.Spec.DataSource; s != nil {
		out = append(out, Read{Group: text(s.APIGroup), Kind: s.Kind, Name: s.Name})
	}
	if s := v.VolumeClaimTemplate.Spec.DataSourceRef; s != nil {
		out = append(out, Read{Group: text(s.APIGroup), Kind: s.Kind, Name: s.Name, Namespace: text(s.Namespace)})
	}
	return out
}

// text returns the text, which is empty when there is none.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
