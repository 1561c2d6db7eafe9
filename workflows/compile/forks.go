package compile

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// Kinds of workloads, as files write them.
const (
	kindDeployment  = "Deployment"
	kindRollout     = "Rollout"
	kindArgoRollout = "ArgoRollout"
)

// workload is a workload of a sandbox.
type workload struct {
	// path is the field that declares it.
	path string
	// name is its name in the sandbox.
	name string
	// baseline is the workload that it replaces; nil when there is none.
	baseline *crdv1.ObjectRef
}

// baseline returns the workload of the cluster that a field names.
func (c *compilation) baseline(path string, w spec.Workload) crdv1.ObjectRef {
	ref := crdv1.ObjectRef{Namespace: w.Namespace, Name: w.Name}
	switch w.Kind {
	case kindDeployment:
		ref.APIVersion, ref.Kind = "apps/v1", kindDeployment
	case kindRollout, kindArgoRollout:
		ref.APIVersion, ref.Kind = "argoproj.io/v1alpha1", kindRollout
	case "":
		c.problems.Add(path+".kind", "is missing; use %s or %s", kindDeployment, kindRollout)
	default:
		c.problems.Add(path+".kind", "is %q, which cannot be in a sandbox%s", w.Kind,
			specfile.Suggest(w.Kind, []string{kindDeployment, kindRollout}))
	}
	for _, part := range []struct {
		name, value string
		check       func(string) []string
	}{{"namespace", w.Namespace, validation.IsDNS1123Label}, {"name", w.Name, validation.IsDNS1123Subdomain}} {
		if part.value == "" {
			c.problems.Add(path+"."+part.name, "is missing")
		} else if len(part.check(part.value)) > 0 {
			c.problems.Add(path+"."+part.name, "is %q, which is not a valid name", part.value)
		}
	}
	return ref
}

// member adds a workload to the sandbox, unless its name or its baseline is taken. given reports
// whether the file gives the name.
func (c *compilation) member(w workload, given bool) {
	for _, other := range c.members {
		if given && other.name == w.name {
			c.problems.Add(w.path+".name", "is %q, which %s already has", w.name, other.path)
		}
		if w.baseline != nil && other.baseline != nil && *w.baseline == *other.baseline {
			c.problems.Add(w.path, "has the baseline %s, which %s already has; a sandbox can have a workload once", described(*w.baseline), other.path)
		}
	}
	c.members = append(c.members, w)
}

// described names a workload for messages, and in variables of patches.
func described(ref crdv1.ObjectRef) string { return ref.Kind + "/" + ref.Namespace + "/" + ref.Name }

// forks compiles the workloads that are forked.
func (c *compilation) forks() {
	var patches []crdv1.TargetedPatch
	for i, f := range c.spec().Forks {
		path := fmt.Sprintf("spec.forks[%d]", i)
		target := c.baseline(path+".forkOf", f.ForkOf)
		w := workload{path: path, name: f.Name, baseline: &target}
		if f.Name == "" {
			w.name = f.ForkOf.Name
		}
		c.member(w, f.Name != "")
		changes := c.customized(path+".customizations", f.Customizations)
		if len(changes) == 0 {
			changes = []crdv1.Patch{{}} // a copy
		}
		for _, p := range changes {
			patches = append(patches, crdv1.TargetedPatch{Patch: p, Target: target})
		}
	}
	if len(patches) > 0 {
		c.object.Spec.Customization = &crdv1.SandboxCustomization{Patches: patches}
	}
}

// customized returns the patches of a fork: one for images and environment, then the patch of the
// file.
func (c *compilation) customized(path string, from spec.Customizations) []crdv1.Patch {
	var out []crdv1.Patch
	containers := c.containers(path, from)
	if len(containers) > 0 {
		list := lists.Map(containers, func(one *container) any { return one.fields() })
		out = append(out, crdv1.Patch{Template: true, Strategic: raw(map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": list}}},
		})})
	}
	if from.Patch != nil {
		out = append(out, c.patch(path+".patch", *from.Patch))
	}
	return out
}

// container is the part of a patch for one container.
type container struct {
	name, image string
	env         []any
	set         map[string]string // The path at which a variable is set.
}

// fields returns the item for the patch.
func (t *container) fields() map[string]any {
	out := map[string]any{"name": t.name}
	if t.image != "" {
		out["image"] = t.image
	}
	if len(t.env) > 0 {
		out["env"] = t.env
	}
	return out
}

// mainContainer represents the main container, which is meant where a file names none.
const mainContainer = "{{ .baseline.container }}"

// containers returns the images and the environment for each container, in the order in which the
// file names them.
func (c *compilation) containers(path string, from spec.Customizations) []*container {
	var out []*container
	named := func(path, name string) *container {
		if name == "" {
			name = mainContainer
		} else if len(validation.IsDNS1123Label(name)) > 0 {
			c.problems.Add(path+".container", "is %q, which is not a valid name", name)
			name = escape(name)
		}
		for _, t := range out {
			if t.name == name {
				return t
			}
		}
		out = append(out, &container{name: name, set: map[string]string{}})
		return out[len(out)-1]
	}
	for i, image := range from.Images {
		at := fmt.Sprintf("%s.images[%d]", path, i)
		t := named(at, image.Container)
		switch {
		case image.Image == "":
			c.problems.Add(at+".image", "is missing")
		case strings.ContainsAny(image.Image, " \t\r\n"):
			c.problems.Add(at+".image", "is %q; an image has no spaces", image.Image)
		case t.image != "":
			c.problems.Add(at, "gives its container a second image; give it one")
		}
		t.image = escape(image.Image)
	}
	for i, v := range from.Env {
		at := fmt.Sprintf("%s.env[%d]", path, i)
		t := named(at, v.Container)
		if before, set := t.set[v.Name]; set {
			c.problems.Add(at, "sets %s, which %s already does for this container", v.Name, before)
		}
		t.set[v.Name] = at
		t.env = append(t.env, c.variable(at, v))
	}
	return out
}

// patchTypes are the types of patches.
var patchTypes = []string{"strategic", "merge", "json"}

// patch returns the patch of a file. Its content is applied to the baseline when the fork is
// created, and is not checked here.
func (c *compilation) patch(path string, p spec.Patch) crdv1.Patch {
	var content json.RawMessage
	if found := specfile.DecodeText(path+".value", p.Value, &content); len(found) > 0 {
		c.problems = append(c.problems, found...)
		return crdv1.Patch{}
	}
	var object map[string]json.RawMessage
	var operations []map[string]json.RawMessage
	isObject := json.Unmarshal(content, &object) == nil && object != nil
	switch p.Type {
	case "strategic", "merge":
		if !isObject {
			c.problems.Add(path+".value", "must be an object such as {spec: …}; it is a patch of the whole workload")
		}
		form := &runtime.RawExtension{Raw: content}
		if p.Type == "merge" {
			return crdv1.Patch{Merge: form}
		}
		return crdv1.Patch{Strategic: form}
	case "json":
		if json.Unmarshal(content, &operations) != nil || len(operations) == 0 {
			c.problems.Add(path+".value", "must be a list of operations, such as [{op: remove, path: /spec/replicas}]")
		}
		var out crdv1.Patch
		for i, o := range operations {
			if o == nil {
				c.problems.Add(path+".value", "has null as operation %d; an operation is an object with op and path", i)
			}
			out.JSON = append(out.JSON, *raw(o))
		}
		return out
	case "":
		c.problems.Add(path+".type", "is missing; use %s", strings.Join(patchTypes, " or "))
	default:
		c.problems.Add(path+".type", "is %q%s", p.Type, specfile.Suggest(p.Type, patchTypes))
	}
	return crdv1.Patch{}
}

// raw returns a value as free-form content.
func raw(value any) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(written(value))} }
