package fields

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Field is one field of a kind.
type Field struct {
	// Path begins with spec or status; a list is followed by [], a map by {}.
	Path string
	// Ignored is the reason why the field is accepted without effect; empty when it has one.
	Ignored string
}

// Kinds returns the kinds with a controller in this version, in the order of a report.
func Kinds() []string { return crdv1.Names(crdv1.SupportedKinds()) }

// ignored are the fields that are accepted and change nothing, with the reason.
func ignored() map[string]string {
	const revision = "the control plane's own count"
	return map[string]string{
		"SignadotSandbox spec.clusterName":                   "the control plane's own name of the cluster",
		"SignadotSandbox spec.sdRevision":                    revision,
		"SignadotRouteGroup spec.sdRevision":                 revision,
		"SignadotSandbox spec.disableSandboxTrafficManager":  "deprecated",
		"ForkedWorkload spec.disableSandboxTrafficManager":   "deprecated",
		"SignadotSandbox spec.customization.images[]":        "deprecated",
		"SignadotExternalWorkload spec.routingKey":           "deprecated, the annotation counts",
		"SignadotExternalWorkload spec.workloadID":           "deprecated",
		"SignadotExternalWorkload status.tunnel.info.labels": "for the client's own use",
		"Resource spec.pluginName":                           "for users: the executed steps are in spec.olm",
	}
}

// empties are the fields of a status that are in the schema and stay empty: what only
// a part of the operator can write that this version has not got, and the Service that
// was made for a virtual workload, for which none ever is.
func empties(kind, path string) bool {
	return strings.Contains(path, ".istio[]") || kind == crdv1.KindVirtualWorkload && path == "status.routingConfig.services[].to"
}

// Of returns the fields of a kind, sorted. What holds other fields is not one itself.
// A document of free form the units of a workflow, which are handed on as they
// are, and a pod template are one field each.
func Of(kind string) []Field {
	reasons := ignored()
	paths := map[string]bool{}
	called, _ := crdv1.KindCalled(kind)
	object := reflect.TypeOf(called.New()).Elem()
	for _, top := range []string{"Spec", "Status"} {
		part, _ := object.FieldByName(top)
		walk(part.Type, strings.ToLower(top), paths)
	}
	var out []Field
	for path := range paths {
		why := ""
		for prefix, reason := range reasons {
			if full := kind + " " + path; full == prefix || strings.HasPrefix(full, prefix+".") {
				why = reason
			}
		}
		if !empties(kind, path) {
			out = append(out, Field{Path: path, Ignored: why})
		}
	}
	slices.SortFunc(out, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// walk notes the fields below a type.
func walk(t reflect.Type, path string, paths map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer:
		walk(t.Elem(), path, paths)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 { // Bytes are a string in a document.
			paths[path] = true
			return
		}
		walk(t.Elem(), path+"[]", paths)
	case reflect.Map:
		walk(t.Elem(), path+"{}", paths)
	case reflect.Struct:
		if whole(t) {
			paths[path] = true
			return
		}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" { // Embedded.
				walk(f.Type, path, paths)
				continue
			}
			walk(f.Type, path+"."+name, paths)
		}
	default:
		paths[path] = true
	}
}

// whole reports whether a struct is one value.
func whole(t reflect.Type) bool {
	switch reflect.Zero(t).Interface().(type) {
	case runtime.RawExtension, metav1.Time, crdv1.OLM, corev1.PodTemplateSpec:
		return true
	}
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}
