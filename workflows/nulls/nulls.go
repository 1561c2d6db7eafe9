// Package nulls writes sandboxes without null, which kubectl apply removes from a file. It is
// pure.
package nulls

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Without returns a sandbox with patches of the same meaning without null, which kubectl apply
// removes from a file: a variable is deleted, and added again with its new value. left are the
// fields that still have null, because a patch of the specification itself has it.
func Without(s *crdv1.SignadotSandbox) (out *crdv1.SignadotSandbox, left []string, err error) {
	out = s.DeepCopy()
	if out.Spec.Customization == nil {
		return out, nil, nil
	}
	for i := range out.Spec.Customization.Patches {
		p := &out.Spec.Customization.Patches[i].Patch
		if p.Strategic != nil {
			var patch any
			if err := json.Unmarshal(p.Strategic.Raw, &patch); err != nil {
				return nil, nil, fmt.Errorf("patch %d: %w", i+1, err)
			}
			if p.Strategic.Raw, err = json.Marshal(replaced(patch)); err != nil {
				return nil, nil, err
			}
		}
		for form, raw := range map[string]*runtime.RawExtension{"strategic": p.Strategic, "merge": p.Merge} {
			var patch any
			if raw != nil && json.Unmarshal(raw.Raw, &patch) == nil {
				left = append(left, places(patch, fmt.Sprintf("spec.customization.patches[%d].%s", i, form))...)
			}
		}
	}
	slices.Sort(left)
	return out, left, nil
}

// replaced returns a strategic patch without null in its variables.
func replaced(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			value[key] = replaced(v)
			if env, is := v.([]any); is && key == "env" {
				value[key] = variables(env)
			}
		}
	case []any:
		for i, v := range value {
			value[i] = replaced(v)
		}
	}
	return value
}

// variables returns a list of variables without null.
func variables(env []any) (out []any) {
	for _, e := range env {
		if item, is := e.(map[string]any); is && item["name"] != nil && len(places(item, "")) > 0 {
			out = append(out, map[string]any{"name": item["name"], "$patch": "delete"})
			e = stripped(item)
		}
		out = append(out, e)
	}
	return out
}

// stripped returns an object without its nulls.
func stripped(object map[string]any) map[string]any {
	out := map[string]any{}
	for key, v := range object {
		if inner, is := v.(map[string]any); is {
			v = stripped(inner)
		}
		if v != nil {
			out[key] = v
		}
	}
	return out
}

// places returns the paths of nulls in a value.
func places(value any, path string) (out []string) {
	switch value := value.(type) {
	case nil:
		return []string{path}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			out = append(out, places(value[key], path+"."+key)...)
		}
	case []any:
		for i, v := range value {
			out = append(out, places(v, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return out
}
