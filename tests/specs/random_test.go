package specs

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// right are values that fit a field, by its name; nothing else is said of what fits.
var right = map[string][]string{
	"Kind": {"Deployment", "Rollout"}, "Namespace": {"shop", "pay"}, "Container": {"", "main"}, "Operation": {"", "upsert", "delete"},
	"Type": {"strategic", "merge", "json"}, "Value": {"spec: {replicas: 1}", "[{op: remove, path: /spec/replicas}]", "v"},
	"Expression": {"{{.Service.Host}}:{{.Service.Port}}"}, "OutputKey": {"a.b", "c.d"}, "Plugin": {"a", "b@1.0.0"}, "ToLocal": {"localhost:80"},
	"Duration": {"2d"}, "OffsetFrom": {"", "updatedAt"}, "Protocol": {"http"}, "Host": {"a.shop.svc"}, "Target": {"http://a.shop.svc:80"},
	"Script": {"#!/bin/sh"}, "Image": {"image:1"}, "ValueFromPath": {"/tmp/a"}, "Path": {"/tmp/b"}, "Env": {"A", "B"}, "Workload": {"*", "a"},
	"Forward": {"a", "b"}, "PodTemplateOverlay": {
		"", "spec: {serviceAccountName: a}", "metadata: {labels: {a: b}, annotations: {c: d}}",
		"spec: {containers: [{name: main, ports: [{containerPort: 80}], env: [{name: A, value: b}]}], volumes: [{name: v, emptyDir: {}}]}",
	},
}

// wrong are values that fit hardly anywhere.
var wrong = []string{
	"", " ", "a b", "-a", "a-", "A", "1", "ü", "{{", "{{ .x }}", "}}", "@{x}", "\x00", "a/b", "a.b", "latest", "a@x", strings.Repeat("x", 31), strings.Repeat("y", 300),
	"null", "[]", "[1]", "[null]", "{}", "{a: 1e999}", "{a: .nan}", "a: b: c", "- {", "{a: {a: {a: [null, {}]}}}", "!!binary x", "{? [a] : b}", "<<: {a: b}",
	"spec: {containers: [{name: main}, {name: main}]}", "spec: {containers: null}", "spec: {containers: [{name: x}]}", "spec: {volumes: [{emptyDir: {}}]}",
	"spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}}", "spec: {restartPolicy: Always}", "metadata: {name: x}",
	"spec: {containers: [{name: main, ports: [{containerPort: 80}, {containerPort: 80}]}]}", "spec: {containers: [{name: main, resources: {limits: {cpu: x}}}]}",
	"spec: {hostAliases: [{ip: a}, {ip: a}]}", "spec: {topologySpreadConstraints: [{}]}", "spec: {containers: [{name: main, $patch: delete}]}", "spec: {$patch: replace}",
	"spec: {volumes: [{name: a, projected: {}}, {name: b, csi: {driver: x}}]}", "spec: {imagePullSecrets: [{}, {}]}", "metadata: {creationTimestamp: x}",
	"spec: {containers: [{name: main, livenessProbe: {httpGet: {port: x}}, lifecycle: {stopSignal: x}}]}", "metadata: {finalizers: [a], ownerReferences: [{}]}",
	"spec: {containers: [{name: main, env: [{name: A}, {name: A}], volumeMounts: [{mountPath: /a}, {mountPath: /a}]}]}", "spec: {ephemeralContainers: [{name: x}]}",
	"spec: {resourceClaims: [{name: a}, {name: a}], schedulingGates: [{name: a}, {name: a}], readinessGates: [{}], tolerations: [{tolerationSeconds: 1}]}",
}

// fill gives a value random content that often fits.
func fill(t *rapid.T, v reflect.Value, name string) {
	// rapid draws small numbers more often than others, so it is one in the middle that fails.
	often := func() bool {
		return rapid.IntRange(0, 99).Draw(t, "luck") != 57 && (name != "PodTemplateOverlay" || rapid.Bool().Draw(t, "luck"))
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, name+" is there") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), name)
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 2).Draw(t, name)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i), name)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{}))
		for range rapid.IntRange(0, 2).Draw(t, name) {
			v.SetMapIndex(reflect.ValueOf(text(t, "Name", often())), reflect.ValueOf(text(t, "Any", often())))
		}
	case reflect.String:
		v.SetString(text(t, name, often()))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Int32:
		v.SetInt(80)
		if !often() {
			v.SetInt(int64(rapid.Int32().Draw(t, name)))
		}
	}
}

// text returns a text for a field, which fits it as far as anybody can say.
func text(t *rapid.T, name string, fits bool) string {
	if !fits {
		return rapid.SampledFrom(wrong).Draw(t, name)
	}
	if all := right[name]; all != nil {
		return rapid.SampledFrom(all).Draw(t, name)
	}
	return rapid.StringMatching(`[a-d][a-z]{0,2}`).Draw(t, name)
}

// mend takes out of a sandbox and its plugins what contradicts itself, which random fields
// mostly do: names that are given twice, and several sources of one value.
func mend(in *compile.Input) {
	s := &in.Sandbox.Spec
	for i := range s.Forks {
		f := &s.Forks[i]
		f.Name, f.ForkOf.Name, f.ForkOf.Namespace = "", fmt.Sprintf("f%d", i), "shop"
		f.Customizations.Images = f.Customizations.Images[:min(1, len(f.Customizations.Images))]
		for j := range f.Customizations.Env {
			e := &f.Customizations.Env[j]
			e.Name = fmt.Sprintf("V%d", j)
			mendSource(e, s)
		}
		if p := f.Customizations.Patch; p != nil && p.Value == "v" || p != nil && (p.Type == "json") != strings.HasPrefix(p.Value, "[") {
			f.Customizations.Patch = nil
		}
		for j := range f.Endpoints {
			f.Endpoints[j].Name = fmt.Sprintf("fork-%d-%d", i, j)
		}
	}
	for i := range s.Local {
		s.Local[i].Name, s.Local[i].From.Name = fmt.Sprintf("l%d", i), fmt.Sprintf("l%d", i)
	}
	for i := range s.Virtual {
		s.Virtual[i].Name, s.Virtual[i].Workload.Name = fmt.Sprintf("v%d", i), fmt.Sprintf("v%d", i)
	}
	for i := range s.Endpoints {
		s.Endpoints[i].Name = fmt.Sprintf("host-%d", i)
	}
	if s.DefaultRouteGroup != nil {
		for i := range s.DefaultRouteGroup.Endpoints {
			s.DefaultRouteGroup.Endpoints[i].Name = fmt.Sprintf("e-%d", i)
		}
	}
	if s.Routing != nil {
		for i := range s.Routing.Forwards {
			s.Routing.Forwards[i].Name = fmt.Sprintf("w%d", i)
		}
	}
	for i := range s.Middleware {
		for j := range s.Middleware[i].Args {
			s.Middleware[i].Args[j].ValueFrom = nil
		}
	}
	for i := range s.Resources {
		s.Resources[i].Name, s.Resources[i].Params = fmt.Sprintf("r%d", i), map[string]string{"a": "1", "b": "2"}
	}
	for i := range in.Plugins {
		p := &in.Plugins[i].Spec
		mendSteps(p.Create, "create")
		mendSteps(p.Delete, "delete")
		if len(p.Create) == 0 {
			p.Create = []spec.Step{{Name: "make", Script: "#!/bin/sh"}}
		}
	}
}

func mendSource(e *spec.EnvVar, s *spec.SandboxSpec) {
	if e.Operation == "delete" {
		e.Value, e.ValueFrom = nil, nil
	}
	if e.ValueFrom == nil {
		return
	}
	e.Value = nil
	switch from := e.ValueFrom; {
	case from.Secret != nil:
		*from = spec.EnvSource{Secret: from.Secret}
	case from.Fork != nil:
		from.Fork.ForkOf = s.Forks[0].ForkOf
		*from = spec.EnvSource{Fork: from.Fork}
	default:
		*from = spec.EnvSource{ConfigMap: &spec.MapSource{Name: "m", Key: "k"}}
	}
}

func mendSteps(steps []spec.Step, prefix string) {
	for i := range steps {
		steps[i].Name = fmt.Sprintf("%s-%d", prefix, i)
		for j := range steps[i].Inputs {
			in := &steps[i].Inputs[j]
			in.Name, in.ValueFromSandbox, in.ValueFromStep = []string{"a", "b"}[j], true, nil
			if in.As != nil {
				in.As.Env = fmt.Sprintf("E%d", j)
			}
		}
		for j := range steps[i].Outputs {
			steps[i].Outputs[j].Name = fmt.Sprintf("o%d", j)
		}
	}
}

// TestCompiledSandboxesAreAccepted asks an API server about random sandboxes: it takes each, or the
// compiler said in a line why there is none.
func TestCompiledSandboxesAreAccepted(t *testing.T) {
	w := world.Shared(t)
	taken, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		in := compile.Input{}
		fill(t, reflect.ValueOf(&in.Sandbox).Elem(), "Sandbox")
		for _, name := range []string{"a", "b@1.0.0"} {
			p := spec.Plugin{}
			fill(t, reflect.ValueOf(&p).Elem(), "Plugin")
			p.Name = name
			in.Plugins = append(in.Plugins, p)
		}
		if rapid.IntRange(0, 9).Draw(t, "contradicts itself") > 0 {
			mend(&in)
		}
		out, err := compile.Sandbox(in)
		var problems specfile.Problems
		if errors.As(err, &problems) {
			for _, p := range problems {
				if p.Text == "" || strings.Contains(p.Error(), "\n") && !strings.Contains(p.Text, "cannot be merged") {
					t.Fatalf("what is wrong is no line: %q", p.Error())
				}
			}
			refused++
			return
		}
		taken++
		if err := w.Client.Create(w.Context(), out.Sandbox.DeepCopy(), client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			object, _ := yaml.Marshal(out.Sandbox)
			t.Fatalf("the API server refuses what was compiled: %v\n%s", err, object)
		}
	})
	t.Logf("%d were taken, %d had a line that says why not", taken, refused)
}
