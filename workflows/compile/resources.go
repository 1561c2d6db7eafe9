package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// resources compiles the resources with the plugins that they name.
func (c *compilation) resources() {
	c.outputs = map[string][]string{}
	versions := map[string]string{}
	seen := map[string]int{}
	for i, r := range c.spec().Resources {
		at := fmt.Sprintf("spec.resources[%d]", i)
		if other, taken := seen[r.Name]; taken {
			c.problems.Add(at+".name", "is %q, which spec.resources[%d] already has", r.Name, other)
		}
		seen[r.Name] = i
		c.resourceName(at+".name", r.Name)
		plugin, name, ok := c.plugin(at+".plugin", r)
		if !ok {
			continue
		}
		if problems := Plugin(plugin); len(problems) > 0 {
			c.problems.Add(at+".plugin", "is %s, which is wrong itself: its %s", name, problems[0].Error())
			continue
		}
		c.outputs[r.Name] = outputKeys(plugin.Spec.Create)
		c.parameters(at+".params", r, plugin)
		versions[r.Name] = name.Defaulted().Bare + "@" + name.Defaulted().Version
		c.object.Spec.ManagedResources = append(c.object.Spec.ManagedResources, crdv1.SandboxResource{
			Name: r.Name, PluginName: name.String(),
			OLM: lifecycle(plugin, identity{sandbox: c.Sandbox.Name, key: c.object.Spec.ID, resource: r.Name, params: r.Params}),
		})
	}
	if len(versions) > 0 {
		c.object.Annotations[crdv1.AnnotationPlugins] = written(versions)
	}
}

// maxResourceName is the maximum length of the name of a resource.
const maxResourceName = 63

// resourceName checks the name of a resource, which is used in variables of patches.
func (c *compilation) resourceName(at, name string) {
	if name == "" {
		c.problems.Add(at, "is missing")
	} else if len(name) > maxResourceName || !unitName.MatchString(name) {
		c.problems.Add(at, "is %q; a name has at most %d letters, digits and -, begins with a letter and does not end with -", name, maxResourceName)
	}
}

// plugin finds the plugin of a resource: the version that it names, else its present one, else
// the highest.
func (c *compilation) plugin(at string, r spec.Resource) (spec.Plugin, spec.PluginName, bool) {
	if r.Plugin == "" {
		c.problems.Add(at, "is missing")
		return spec.Plugin{}, spec.PluginName{}, false
	}
	wanted, err := spec.ParsePluginName(r.Plugin)
	if err != nil {
		c.problems.Add(at, "%v", err)
		return spec.Plugin{}, wanted, false
	}
	pinned, err := spec.ParsePluginName(c.Pinned[r.Name])
	keeps := err == nil && wanted.Version == "" && pinned.Bare == wanted.Bare
	if keeps {
		wanted = pinned.Defaulted()
	}
	found := map[spec.PluginName]spec.Plugin{}
	var bare []string
	for _, p := range c.Plugins {
		if name, err := spec.ParsePluginName(p.Name); err == nil {
			found[name.Defaulted()] = p
			bare = append(bare, name.Bare)
		}
	}
	var versions []spec.PluginName
	for name := range found {
		if name.Bare == wanted.Bare {
			versions = append(versions, name)
		}
	}
	spec.NewestFirst(versions)
	switch p, ok := found[wanted.Defaulted()]; {
	case len(versions) == 0:
		slices.Sort(bare)
		c.problems.Add(at, "is %q, and there is no such plugin%s", r.Plugin, specfile.Suggest(wanted.Bare, slices.Compact(bare)))
		return spec.Plugin{}, wanted, false
	case keeps && ok && versions[0] != wanted:
		c.notes.Add(at, "is %q without a version, so the resource keeps version %s; the newest is %s: write %s to use it", r.Plugin, wanted.Version, versions[0].Version, versions[0])
		return p, wanted, true
	case wanted.Version == "":
		return found[versions[0]], versions[0], true
	case !ok:
		names := lists.Map(versions, func(v spec.PluginName) string { return v.Version })
		c.problems.Add(at, "is %q, and the plugin has no such version; it has %s", r.Plugin, strings.Join(names, ", "))
		return spec.Plugin{}, wanted, false
	default:
		return p, wanted, true
	}
}

// parameters checks that a resource has the parameters that the plugin's steps read.
func (c *compilation) parameters(at string, r spec.Resource, p spec.Plugin) {
	read := map[string]bool{}
	for _, step := range slices.Concat(p.Spec.Create, p.Spec.Delete) {
		for _, in := range step.Inputs {
			if _, given := r.Params[in.Name]; in.ValueFromSandbox && !given && !read[in.Name] {
				c.problems.Add(at, "has no %s, which step %s of plugin %s reads", in.Name, step.Name, p.Name)
			}
			read[in.Name] = read[in.Name] || in.ValueFromSandbox
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		if !read[name] {
			c.notes.Add(at, "has %s, which no step of plugin %s reads%s", name, p.Name, specfile.Suggest(name, slices.Sorted(maps.Keys(read))))
		}
	}
}

// outputKeys returns the keys of outputs of steps.
func outputKeys(steps []spec.Step) []string {
	var out []string
	for _, s := range steps {
		for _, o := range s.Outputs {
			out = append(out, outputKey(s.Name, o.Name))
		}
	}
	return out
}

// outputKey returns the key of an output of a step.
func outputKey(step, output string) string { return step + "." + output }
