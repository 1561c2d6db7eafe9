package containerenv

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/protos/crd/variable"
	"switchyard.dev/protos/crd/variable/unsafeenv"
)

// environment computes the variables in the order that a kubelet uses: whole objects first, then
// variables one by one, which may refer to those before them; the last of a name wins.
func (r *resolution) environment() {
	for _, from := range r.container.EnvFrom {
		r.whole(from)
	}
	for _, e := range r.container.Env {
		value, source, ok := r.value(e)
		r.seen[e.Name] = true
		if ok {
			r.env[e.Name] = Var{e.Name, value, source}
		}
	}
	for name, value := range map[string]string{variable.EnvSandboxName: r.in.Sandbox, variable.EnvRoutingKey: r.in.RoutingKey} {
		if value != "" {
			r.env[name] = Var{name, value, "the sandbox"}
		}
	}
	for _, e := range r.in.Extra {
		r.extra(e)
	}
}

// whole adds the variables of a whole object.
func (r *resolution) whole(from corev1.EnvFromSource) {
	kind, name, optional := "ConfigMap", "", false
	switch {
	case from.ConfigMapRef != nil:
		name, optional = from.ConfigMapRef.Name, is(from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		kind, name, optional = "Secret", from.SecretRef.Name, is(from.SecretRef.Optional)
	default:
		return
	}
	data, ok := r.data(kind, name)
	if !ok {
		r.lacks(kind, name, "the environment", optional)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		variable := from.Prefix + key
		if strings.Contains(variable, "=") || variable == "" {
			r.note("Key %q of %s %s is no name of a variable, and has none.", key, kind, name)
			continue
		}
		r.env[variable] = Var{variable, string(data[key]), kind + " " + name}
	}
}

// lacks reports an object that is missing: as a problem where it is required, and as a note where
// it is optional and could not be read, since it may exist in the pod.
func (r *resolution) lacks(kind, name, what string, optional bool) {
	switch why := r.in.Unread[kind+"/"+name]; {
	case !optional:
		r.missing(kind, name, what)
	case why != "":
		r.note("%s %s was not read, and is left out of %s: %s.", kind, name, what, strings.TrimSuffix(why, "."))
	}
}

// value returns the value of a variable and its source; false if it has none.
func (r *resolution) value(e corev1.EnvVar) (value, source string, ok bool) {
	from := e.ValueFrom
	switch {
	case from == nil:
		source = "the container"
		if r.in.own[r.container.Name+"/"+e.Name] {
			source = fromSandbox
		}
		return expand(e.Value, func(name string) (string, bool) {
			v, ok := r.env[name]
			if !ok {
				r.unresolved(e.Name, name)
			}
			return v.Value, ok
		}), source, true
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		return r.key("ConfigMap", ref.Name, ref.Key, "variable "+e.Name, is(ref.Optional))
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		return r.key("Secret", ref.Name, ref.Key, "variable "+e.Name, is(ref.Optional))
	case from.FieldRef != nil:
		text, known := r.field(from.FieldRef.FieldPath)
		if !known {
			r.note("Variable %s is left out: field %s of a pod is not known here.", e.Name, from.FieldRef.FieldPath)
		}
		return text, "field " + from.FieldRef.FieldPath, known
	case from.ResourceFieldRef != nil:
		text, known := r.amount(from.ResourceFieldRef)
		if !known {
			r.note("Variable %s is left out: %s is not known here.", e.Name, from.ResourceFieldRef.Resource)
		}
		return text, from.ResourceFieldRef.Resource, known
	}
	r.note("Variable %s is left out: where its value is from is not known to this version.", e.Name)
	return "", "", false
}

// unresolved adds a note about a reference to a variable without a value.
func (r *resolution) unresolved(variable, name string) {
	later := slices.ContainsFunc(r.container.Env, func(e corev1.EnvVar) bool { return e.Name == name })
	var note string
	switch {
	case len(validation.IsEnvVarName(name)) > 0: // $() and the like are no references.
		return
	case name == variable:
		note = fmt.Sprintf("Variable %s keeps $(%s) as written, as in a pod: a variable cannot refer to itself.", variable, name)
	case later && r.seen[name]:
		note = fmt.Sprintf("Variable %s keeps $(%s) as written: %s is left out here.", variable, name, name)
	case later:
		note = fmt.Sprintf("Variable %s keeps $(%s) as written, as in a pod: %s stands after it in the list. Place %s before %s.", variable, name, name, name, variable)
	default:
		note = fmt.Sprintf("Variable %s keeps $(%s) as written: no variable %s is known here. In a pod it may be one of a Service. Set %s with --env.", variable, name, name, variable)
	}
	if !slices.Contains(r.notes, note) {
		r.notes = append(r.notes, note)
	}
}

// key returns a key of an object, for a variable or a file.
func (r *resolution) key(kind, name, key, what string, optional bool) (value, source string, ok bool) {
	data, had := r.data(kind, name)
	if !had {
		r.lacks(kind, name, what, optional)
		return "", "", false
	}
	text, has := data[key]
	if !has && !optional {
		r.problem("%s needs key %q of %s %s/%s, which is not there", what, key, kind, r.in.Namespace, name)
	}
	if resource, is := r.in.OutputSecrets[name]; is && kind == "Secret" {
		return string(text), fmt.Sprintf("resource %s, output %s", resource, key), has
	}
	return string(text), fmt.Sprintf("%s %s, key %s", kind, name, key), has
}

// extra adds a variable that the user requested.
func (r *resolution) extra(e Extra) {
	if e.Resource == "" {
		r.env[e.Name] = Var{e.Name, e.Value, "the command line"}
		return
	}
	value, ok := r.in.Outputs[e.Resource][e.Output]
	if !ok {
		var has []string
		for name, outputs := range r.in.Outputs {
			for output := range outputs {
				has = append(has, name+"/"+output)
			}
		}
		slices.Sort(has)
		r.problem("variable %s needs output %s of resource %s, which is not there; there are: %s", e.Name, e.Output, e.Resource, cmp.Or(strings.Join(has, ", "), "none"))
		return
	}
	r.env[e.Name] = Var{e.Name, string(value), fmt.Sprintf("resource %s, output %s", e.Resource, e.Output)}
}

// withholds reports whether a variable runs code and the user has not allowed it.
func (r *resolution) withholds(v Var) bool {
	asked := slices.Contains(r.in.Allow, v.Name) || slices.ContainsFunc(r.in.Extra, func(e Extra) bool { return e.Name == v.Name })
	return !asked && unsafeenv.RunsCode(v.Name, v.Value)
}

// expand replaces $(NAME) by the variable of that name, and $$ by $. Unknown names stay.
func expand(text string, known func(string) (string, bool)) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		switch end := strings.IndexByte(text[i:], ')'); {
		case text[i+1] == '$':
			out.WriteByte('$')
			i++
		case text[i+1] == '(' && end > 0:
			name := text[i+2 : i+end]
			if value, ok := known(name); ok {
				out.WriteString(value)
			} else {
				out.WriteString(text[i : i+end+1])
			}
			i += end
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}

// field returns the value of a field of the pod in the downward API.
func (r *resolution) field(path string) (string, bool) {
	t := r.in.Template
	if name, ok := subscript(path, "metadata.labels"); ok {
		return t.Labels[name], true
	}
	if name, ok := subscript(path, "metadata.annotations"); ok {
		return t.Annotations[name], true
	}
	switch path {
	case "metadata.name":
		return r.in.Name, true
	case "metadata.namespace":
		return r.in.Namespace, true
	case "metadata.uid":
		return r.in.UID, true
	case "metadata.labels":
		return listed(t.Labels), true
	case "metadata.annotations":
		return listed(t.Annotations), true
	case "spec.nodeName":
		return r.in.Node, true
	case "spec.serviceAccountName":
		return serviceAccount(t), true
	case "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs":
		return "127.0.0.1", true
	}
	return "", false
}

// subscript returns the text in brackets after a field.
func subscript(path, field string) (string, bool) {
	rest, ok := strings.CutPrefix(path, field+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

// listed returns labels in the format of files of the downward API.
func listed(m map[string]string) string {
	return strings.Join(lists.Map(slices.Sorted(maps.Keys(m)), func(k string) string { return k + "=" + strconv.Quote(m[k]) }), "\n")
}

// amount returns the amount of a container's resource, in units of the divisor.
func (r *resolution) amount(ref *corev1.ResourceFieldSelector) (string, bool) {
	c := r.container
	if ref.ContainerName != "" {
		for i := range r.in.Template.Spec.Containers {
			if r.in.Template.Spec.Containers[i].Name == ref.ContainerName {
				c = &r.in.Template.Spec.Containers[i]
			}
		}
	}
	side, name, ok := strings.Cut(ref.Resource, ".")
	if !ok || side != "limits" && side != "requests" {
		return "", false
	}
	list := c.Resources.Limits
	if side == "requests" {
		list = c.Resources.Requests
	}
	quantity, has := list[corev1.ResourceName(name)]
	if !has && side == "requests" { // As the API server has it.
		quantity = c.Resources.Limits[corev1.ResourceName(name)]
	}
	if !has && side == "limits" {
		switch {
		case name == "cpu" && r.in.CPU > 0:
			quantity = *resource.NewMilliQuantity(r.in.CPU, resource.DecimalSI)
		case name == "memory" && r.in.Memory > 0:
			quantity = *resource.NewQuantity(r.in.Memory, resource.BinarySI)
		default:
			return "", false
		}
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == "cpu" {
		return ceiling(quantity.MilliValue(), divisor.MilliValue()), true
	}
	return ceiling(quantity.Value(), divisor.Value()), true
}

func ceiling(a, b int64) string {
	if b <= 0 {
		b = 1
	}
	n := a / b
	if a%b > 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}

func is(b *bool) bool { return b != nil && *b }
