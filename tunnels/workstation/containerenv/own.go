package containerenv

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// fromSandbox is the source of variables and files that the sandbox adds.
const fromSandbox = "the sandbox's local"

// Customize adds the variables and files of the sandbox to those of the baseline. Variables are
// merged as in a fork, by a patch of its containers. The error names those that are invalid.
func (in *Input) Customize(changes crdv1.LocalWorkload) (err error) {
	defer func() { // The library assumes input that an API server has validated.
		if r := recover(); r != nil {
			err = fmt.Errorf("its env cannot be worked out: %v", r)
		}
	}()
	in.files, in.own = changes.Files, map[string]bool{}
	for _, c := range changes.Containers {
		if !slices.ContainsFunc(in.Template.Spec.Containers, func(one corev1.Container) bool { return one.Name == c.Name }) {
			return fmt.Errorf("its env is for container %q, which the baseline does not have; it has %s", c.Name, strings.Join(names(in.Template), ", "))
		}
		for _, e := range c.Env {
			name, _ := e["name"].(string)
			in.own[c.Name+"/"+name] = true
		}
	}
	if len(changes.Containers) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": changes.Containers}})
	if err != nil {
		return err
	}
	document, err := json.Marshal(in.Template)
	if err != nil {
		return err
	}
	if document, err = strategicpatch.StrategicMergePatch(document, patch, corev1.PodTemplateSpec{}); err != nil {
		return fmt.Errorf("its env is no patch of a container: %w", err)
	}
	var template corev1.PodTemplateSpec
	if err := json.Unmarshal(document, &template); err != nil {
		return fmt.Errorf("its env makes no container: %w", err)
	}
	in.Template = template
	return nil
}

func names(t corev1.PodTemplateSpec) []string {
	return lists.Map(t.Spec.Containers, func(o corev1.Container) string { return o.Name })
}

// ownFiles adds the files of the sandbox, which replace those of volumes.
func (r *resolution) ownFiles() {
	for _, f := range r.in.files {
		at := path.Clean("/" + f.Path)
		value, source, ok := f.Value, fromSandbox, true
		mode := uint32(defaultMode)
		switch from := f.ValueFrom; {
		case from == nil:
		case from.ConfigMapKeyRef != nil:
			ref := from.ConfigMapKeyRef
			value, source, ok = r.key("ConfigMap", ref.Name, ref.Key, "file "+at, is(ref.Optional))
		case from.SecretKeyRef != nil:
			ref := from.SecretKeyRef
			value, source, ok = r.key("Secret", ref.Name, ref.Key, "file "+at, is(ref.Optional))
			mode = 0o600
		default:
			r.note("File %s is left out: where its content is from is not known to this version.", at)
			continue
		}
		if !ok {
			continue
		}
		if other := r.around(at); at == "/" || other != "" {
			r.problem("file %s cannot be where %s is: give it another path", at, cmp.Or(other, "the root"))
			continue
		}
		r.mounts = append(r.mounts, at)
		r.put(at, File{Data: []byte(value), Mode: mode, Source: source})
	}
}

// around returns the path of a file that conflicts with a file at a path; empty: none does.
func (r *resolution) around(at string) string {
	return lists.First(slices.Sorted(maps.Keys(r.files)), func(p string) bool {
		return strings.HasPrefix(p, strings.TrimSuffix(at, "/")+"/") || !r.files[p].Folder && strings.HasPrefix(at, p+"/")
	})
}
