package compile

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// Operations on a variable of the environment.
const (
	operationUpsert = "upsert"
	operationDelete = "delete"
)

// sources are the fields from which Kubernetes takes the value of a variable. All but one of them
// are null in a patch, so that none of the baseline's remains.
var sources = []string{"secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef", "fileKeyRef"}

// variable returns the item of a strategic patch for one variable of a container.
func (c *compilation) variable(path string, v spec.EnvVar) map[string]any {
	if v.Name == "" {
		c.problems.Add(path+".name", "is missing")
	} else if why := validation.IsRelaxedEnvVarName(v.Name); len(why) > 0 {
		c.problems.Add(path+".name", "is %q, which is not a valid name", v.Name)
	}
	out := map[string]any{"name": escape(v.Name)}
	switch v.Operation {
	case "", operationUpsert:
	case operationDelete:
		if v.Value != nil || v.ValueFrom != nil {
			c.problems.Add(path, "is deleted and has a value; remove one of them")
		}
		out["$patch"] = "delete"
		return out
	default:
		c.problems.Add(path+".operation", "is %q%s", v.Operation, specfile.Suggest(v.Operation, []string{operationUpsert, operationDelete}))
	}
	if v.Value != nil && v.ValueFrom != nil {
		c.problems.Add(path, "has both value and valueFrom; remove one of them")
	}
	out["value"], out["valueFrom"] = "", nil
	switch {
	case v.ValueFrom != nil:
		c.from(path+".valueFrom", "fork, resource, configMap and secret", *v.ValueFrom, out)
	case v.Value != nil:
		out["value"] = escape(*v.Value)
	}
	return out
}

// from writes the source of a value into the item of a patch. kinds lists the allowed fields, for
// messages.
func (c *compilation) from(path, kinds string, s spec.EnvSource, out map[string]any) {
	given := 0
	for _, is := range []bool{s.Fork != nil, s.Resource != nil, s.ConfigMap != nil, s.Secret != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		c.problems.Add(path, "has %d of %s; give exactly one", given, kinds)
		return
	}
	refer := func(source, name, key string, optional *bool) {
		ref := map[string]any{"name": name, "key": escape(key), "optional": nil}
		if optional != nil {
			ref["optional"] = *optional
		}
		value := map[string]any{}
		for _, other := range sources {
			value[other] = nil
		}
		value[source] = ref
		out["value"], out["valueFrom"] = nil, value
	}
	switch {
	case s.Fork != nil:
		out["value"] = c.expression(path+".fork", *s.Fork)
	case s.Resource != nil:
		key := c.output(path+".resource", *s.Resource)
		refer("secretKeyRef", "{{ .resources."+s.Resource.Name+".objectName }}", key, nil)
	case s.ConfigMap != nil:
		c.held(path+".configMap", *s.ConfigMap)
		refer("configMapKeyRef", escape(s.ConfigMap.Name), s.ConfigMap.Key, s.ConfigMap.Optional)
	case s.Secret != nil:
		c.held(path+".secret", *s.Secret)
		refer("secretKeyRef", escape(s.Secret.Name), s.Secret.Key, s.Secret.Optional)
	}
}

// held checks the name and key of a value in an object.
func (c *compilation) held(path string, s spec.MapSource) {
	if len(validation.IsDNS1123Subdomain(s.Name)) > 0 {
		c.problems.Add(path+".name", "is %q, which is not a valid name", s.Name)
	}
	if len(validation.IsConfigMapKey(s.Key)) > 0 {
		c.problems.Add(path+".key", "is %q; a key has letters, digits, -, _ and .", s.Key)
	}
}

// output returns the key of an output in the Secret of a resource.
func (c *compilation) output(path string, s spec.ResourceSource) string {
	outputs, known := c.outputs[s.Name]
	if !known {
		var names []string
		for _, r := range c.spec().Resources {
			if r.Name == s.Name && s.Name != "" {
				return s.OutputKey // The problem of the resource is reported at the resource.
			}
			names = append(names, r.Name)
		}
		c.problems.Add(path+".name", "is %q, which spec.resources does not have%s", s.Name, specfile.Suggest(s.Name, names))
		return s.OutputKey
	}
	var meant []string
	for _, key := range outputs {
		if key == s.OutputKey {
			return key
		}
		if strings.HasSuffix(key, "."+s.OutputKey) {
			meant = append(meant, key)
		}
	}
	if len(meant) == 1 { // as in files for older plugins
		return meant[0]
	}
	c.problems.Add(path+".outputKey", "is %q, which no create step of the plugin has as an output%s", s.OutputKey, specfile.Suggest(s.OutputKey, outputs))
	return s.OutputKey
}

// expressions are the allowed expressions about a fork, and what each becomes in a patch.
var expressions = map[string]string{".Service.Host": "host", ".Service.Port": "port"}

// expression converts a text about another fork for a patch.
func (c *compilation) expression(path string, s spec.ForkSource) string {
	target := c.baseline(path+".forkOf", s.ForkOf)
	var forks []string
	found := false
	for _, f := range c.spec().Forks {
		w := f.ForkOf
		if w.Kind == kindArgoRollout {
			w.Kind = kindRollout
		}
		forks = append(forks, w.Kind+"/"+w.Namespace+"/"+w.Name)
		found = found || forks[len(forks)-1] == described(target)
	}
	if !found {
		c.problems.Add(path+".forkOf", "is %s, which the sandbox does not fork%s", described(target), specfile.Suggest(described(target), forks))
	}
	if s.Expression == "" {
		c.problems.Add(path+".expression", "is missing, such as {{.Service.Host}}:{{.Service.Port}}")
	}
	var out strings.Builder
	for rest := s.Expression; ; {
		before, after, more := strings.Cut(rest, "{{")
		out.WriteString(before)
		if !more {
			return out.String()
		}
		name, left, closed := strings.Cut(after, "}}")
		part, known := expressions[strings.TrimSpace(name)]
		if !closed || !known {
			c.problems.Add(path+".expression", "has %q; it may have {{.Service.Host}} and {{.Service.Port}}", "{{"+name)
			return ""
		}
		out.WriteString(fmt.Sprintf("{{ .forks.%s.service.%s }}", described(target), part))
		rest = left
	}
}
