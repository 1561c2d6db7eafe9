package fork

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/reconcilers/baseline"
)

// Writable returns a clone in the form for server-side apply. Kubernetes accepts lists with duplicate
// entries (a variable, or a port under two names) and uses one of them; server-side apply rejects them.
// Writable removes the entries that Kubernetes would ignore. Of a port with two names the second is lost,
// which Services (the function) takes into account. The clone is not changed. A clone that cannot be
// converted is returned as it is, so that the API server reports the reason.
func Writable(clone Object) Object {
	switch o := clone.(type) {
	case *appsv1.Deployment:
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return clone
		}
		once(fields)
		out := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, out); err != nil {
			return clone
		}
		return out
	case *unstructured.Unstructured:
		out := o.DeepCopy()
		once(out.Object)
		return out
	default:
		return clone
	}
}

// once removes duplicate list entries from the pod template of a workload.
func once(fields map[string]any) {
	pod := at(fields, "spec", "template", "spec")
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range objects(pod, list) {
			replace(c, "env", lastOf(objects(c, "env"), named))
			replace(c, "ports", firstOf(objects(c, "ports"), portOf))
		}
	}
	replace(pod, "imagePullSecrets", firstOf(objects(pod, "imagePullSecrets"), named))
	replace(pod, "hostAliases", mergeAliases(objects(pod, "hostAliases")))
}

// replace sets an existing list in fields to another one.
func replace(fields map[string]any, key string, list []map[string]any) {
	if _, ok := fields[key].([]any); !ok {
		return
	}
	out := make([]any, 0, len(list))
	for _, item := range list {
		out = append(out, item)
	}
	fields[key] = out
}

// named returns the name of an entry as its key, "" if it has none.
func named(o map[string]any) any {
	name, _ := o["name"].(string)
	return name
}

// portOf is the key of a port of a container.
func portOf(o map[string]any) any {
	protocol, _ := o["protocol"].(string)
	number, _ := o["containerPort"].(int64)
	return portKey{int32(number), baseline.ProtocolOf(corev1.Protocol(protocol))} // It was read as an int32 before.
}

// firstOf returns the list without entries that have the key of an earlier entry.
func firstOf(list []map[string]any, key func(map[string]any) any) []map[string]any {
	seen := map[any]bool{}
	return slices.DeleteFunc(list, func(item map[string]any) bool {
		k := key(item)
		was := seen[k]
		seen[k] = true
		return was
	})
}

// lastOf returns the list without entries that have the key of a later entry.
func lastOf(list []map[string]any, key func(map[string]any) any) []map[string]any {
	slices.Reverse(list)
	list = firstOf(list, key)
	slices.Reverse(list)
	return list
}

// mergeAliases merges entries of the same address.
func mergeAliases(aliases []map[string]any) []map[string]any {
	var out []map[string]any
	for _, a := range aliases {
		i := slices.IndexFunc(out, func(have map[string]any) bool { return have["ip"] == a["ip"] })
		if i < 0 {
			out = append(out, a)
			continue
		}
		have, _ := out[i]["hostnames"].([]any)
		more, _ := a["hostnames"].([]any)
		out[i]["hostnames"] = append(slices.Clip(have), more...)
	}
	return out
}
