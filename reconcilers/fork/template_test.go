package fork_test

import (
	"strings"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork"
)

// resources are those of a sandbox.
func resources() map[string]crdv1.ResourceTemplateData {
	return map[string]crdv1.ResourceTemplateData{
		"db":     {Name: "db", ObjectName: "sb1-db-0000cccc", OutputKind: "ConfigMap"},
		"my.db":  {Name: "my.db", ObjectName: "sb1-my-db-0000dddd"},
		"quoted": {Name: `x","image":"evil`, ObjectName: "{{ .sandbox.name }}"},
	}
}

// environment is a patch that gives the container main a variable of the environment.
func environment(value string) crdv1.Patch {
	return crdv1.Patch{Template: true, Strategic: raw(`{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"X","value":` + value + `}]}]}}}}`)}
}

func TestVariablesThatAreSubstituted(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"the name of the sandbox", `"{{ .sandbox.name }}"`, "sb1"},
		{"the routing key", `"{{ .sandbox.routingKey }}"`, "key1"},
		{"the object of a resource", `"{{ .resources.db.objectName }}"`, "sb1-db-0000cccc"},
		{"the kind of its outputs", `"{{ .resources.db.outputKind }}"`, "ConfigMap"},
		{"the kind of outputs when none is said", `"{{.resources.my.db.outputKind}}"`, "Secret"},
		{"the name of a resource that has a dot", `"{{ .resources.my.db.name }}"`, "my.db"},
		{"spaces of all sorts around it", `"{{\t .sandbox.name\n}}"`, "sb1"},
		{"several in a text", `"{{.sandbox.name}}-{{ .sandbox.name }}/{{.sandbox.routingKey}}"`, "sb1-sb1/key1"},
		{"a text without any", `"plain"`, "plain"},
		{"JSON in a text, which ends with two braces", `"{\"a\":{\"b\":\"{{ .sandbox.name }}\"}}"`, `{"a":{"b":"sb1"}}`},
		{"a brace right after a variable", `"{{{ .sandbox.name }}}"`, ""},
		{"quoted braces for themselves", `"{{ \"{{\" }} .Values.x {{\"}}\"}}"`, "{{ .Values.x }}"},
		{"a value that would end its text", `"{{ .resources.quoted.name }}"`, `x","image":"evil`},
		{"a value that looks like a variable, which is not substituted again", `"{{ .resources.quoted.objectName }}"`, "{{ .sandbox.name }}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				p := refusal(t, fork.Plan{Patches: []crdv1.Patch{environment(tt.value)}, Resources: resources()})
				mustContain(t, p.Message, `"{ .sandbox.name"`)
				return
			}
			got := clone(t, fork.Plan{Patches: []crdv1.Patch{environment(tt.value)}, Resources: resources()}).Spec.Template.Spec.Containers[0]
			if got.Image != "customer:1" {
				t.Errorf("a value came out of its text: %+v", got)
			}
			value := ""
			for _, e := range got.Env {
				if e.Name == "X" {
					value = e.Value
				}
			}
			if value != tt.want {
				t.Errorf("%q, not %q", value, tt.want)
			}
		})
	}
}

func TestVariablesStandInEveryFormOfPatch(t *testing.T) {
	for name, text := range map[string]string{
		"strategic": `{template: true, strategic: {spec: {template: {spec: {containers: [{name: main, image: "x:{{ .sandbox.name }}"}]}}}}}`,
		"merge":     `{template: true, merge: {spec: {template: {spec: {containers: [{name: main, image: "x:{{ .sandbox.name }}"}]}}}}}`,
		"json":      `{template: true, json: [{op: replace, path: /spec/template/spec/containers/0/image, value: "x:{{ .sandbox.name }}"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			got := clone(t, fork.Plan{Patches: patches(t, "["+text+"]")})
			if image := got.Spec.Template.Spec.Containers[0].Image; image != "x:sb1" {
				t.Error(image)
			}
		})
	}
}

func TestNumbersOfATemplateStayWhatTheyAre(t *testing.T) {
	got := clone(t, fork.Plan{Patches: patches(t, `[{template: true, merge: {spec: {template: {spec: {activeDeadlineSeconds: 9007199254740993}}}}}]`)})
	if n := got.Spec.Template.Spec.ActiveDeadlineSeconds; n == nil || *n != 9007199254740993 {
		t.Errorf("%v", n)
	}
}

func TestWithoutTemplateBracesAreText(t *testing.T) {
	p := environment(`"{{ .sandbox.name }}"`)
	p.Template = false
	got := clone(t, fork.Plan{Patches: []crdv1.Patch{p}}).Spec.Template.Spec.Containers[0]
	if len(got.Env) != 4 || !strings.HasPrefix(got.Env[2].Value+got.Env[3].Value, "{{ .sandbox.name }}") {
		t.Errorf("%+v", got.Env)
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	const known = "known are: .resources.db.name, .resources.db.objectName"
	tests := []struct {
		name, patch string
		says        []string
	}{
		{"a name that is not known", `merge: {spec: {template: {spec: {hostname: "{{ .resources.db.objectNam }}"}}}}`,
			[]string{"spec.template.spec.hostname is wrong", `".resources.db.objectNam" is not known`, known, ".sandbox.name"}},
		{"a resource that the sandbox has not", `merge: {spec: {template: {spec: {hostname: "{{ .resources.queue.objectName }}"}}}}`,
			[]string{`".resources.queue.objectName" is not known`, known}},
		{"no name", `merge: {spec: {template: {spec: {hostname: "{{ }}"}}}}`, []string{"has no name", known}},
		{"a function", `merge: {spec: {template: {spec: {hostname: "{{ .sandbox.name | upper }}"}}}}`, []string{`".sandbox.name | upper" is not known`}},
		{"a comment", `merge: {spec: {template: {spec: {hostname: "{{/* x */}}"}}}}`, []string{"is not known"}},
		{"trimmed spaces", `merge: {spec: {template: {spec: {hostname: "{{- .sandbox.name -}}"}}}}`, []string{`"- .sandbox.name -" is not known`}},
		{"braces that are not closed", `merge: {spec: {template: {spec: {hostname: "a {{ .sandbox.name }"}}}}`,
			[]string{`"{{ .sandbox.name }"`, "not closed with }}", `{{ "{{" }}`}},
		{"braces in braces", `merge: {spec: {template: {spec: {hostname: "{{ .sandbox.{{ .sandbox.name }} }}"}}}}`, []string{"not closed"}},
		{"a quotation mark that is not closed", `merge: {spec: {template: {spec: {hostname: '{{ "x }}'}}}}`, []string{"quotation mark"}},
		{"more after a quoted text", `merge: {spec: {template: {spec: {hostname: '{{ "x" .sandbox.name }}'}}}}`, []string{"goes on after the quoted text"}},
		{"a place in a list", `strategic: {spec: {template: {spec: {containers: [{name: main, args: [a, "{{ x }}"]}]}}}}`,
			[]string{"spec.template.spec.containers[0].args[1] is wrong"}},
		{"a name of a field", `merge: {spec: {template: {metadata: {annotations: {"{{ .sandbox.name }}": x}}}}}`,
			[]string{"spec.template.metadata.annotations", "no variable may stand"}},
		{"a directive", `strategic: {spec: {template: {spec: {containers: [{name: cache, $patch: "{{ .sandbox.name }}"}]}}}}`,
			[]string{"$patch", "no variable may stand"}},
		{"the path of an operation", `json: [{op: remove, path: "/spec/{{ .sandbox.name }}"}]`, []string{"[0].path", "no variable may stand"}},
		{"an operation that is none", `json: ["{{ .sandbox.name }}"]`, []string{"[0] has", "no variable may stand"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := refusal(t, fork.Plan{
				Patches: patches(t, `[{merge: {spec: {replicas: 1}}}, {template: true, `+tt.patch+`}]`), Resources: resources(),
			})
			if p.Reason != fork.ReasonInvalidTemplate {
				t.Error(p.Reason, p.Message)
			}
			mustContain(t, p.Message, append(tt.says, "patch 2 of 2 for Deployment hotrod/customer")...)
		})
	}
	t.Run("the routing key of a fork that has none", func(t *testing.T) {
		id := identity()
		id.RoutingKey = ""
		_, p := cloneOf(baseline(t), fork.Plan{Identity: id, Patches: []crdv1.Patch{environment(`"{{ .sandbox.routingKey }}"`)}})
		if p == nil {
			t.Fatal("there should be a problem")
		}
		mustContain(t, p.Message, `".sandbox.routingKey" is not known; known are: .sandbox.name`)
	})
	t.Run("values that together are too large", func(t *testing.T) {
		big := map[string]crdv1.ResourceTemplateData{"r": {ObjectName: strings.Repeat("x", 1<<20)}}
		p := refusal(t, fork.Plan{Patches: []crdv1.Patch{environment(`"` + strings.Repeat("{{.resources.r.objectName}}", 4) + `"`)}, Resources: big})
		mustContain(t, p.Message, "bytes")
	})
}

// The main container is the one that kubectl would take, where nobody has to guess.
func TestTheMainContainerIsKnownWhereOneIsMeant(t *testing.T) {
	patch := crdv1.Patch{Template: true, Strategic: raw(`{"spec":{"template":{"spec":{"containers":[{"name":"{{ .baseline.container }}","image":"new:1"}]}}}}`)}
	for name, tt := range map[string]struct {
		annotation string
		alone      bool
		image      int // The container that gets the image.
	}{
		"the one that is annotated":           {"cache", false, 1},
		"the only one":                        {"", true, 0},
		"the only one, and another annotated": {"gone", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			live := baseline(t)
			live.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/default-container": tt.annotation}
			if tt.alone {
				live.Spec.Template.Spec.Containers = live.Spec.Template.Spec.Containers[:1]
			}
			got, p := cloneOf(live, fork.Plan{Identity: identity(), Patches: []crdv1.Patch{patch}})
			if p != nil {
				t.Fatal(p.Message)
			}
			for i, c := range got.Spec.Template.Spec.Containers {
				if (c.Image == "new:1") != (i == tt.image) || len(got.Spec.Template.Spec.Containers) != len(live.Spec.Template.Spec.Containers) {
					t.Errorf("container %s has %s", c.Name, c.Image)
				}
			}
		})
	}
	p := refusal(t, fork.Plan{Patches: []crdv1.Patch{patch}})
	mustContain(t, p.Message, "patch 1 of 1 for Deployment hotrod/customer (strategic) is for the main container, and the baseline has the containers main, cache",
		"name one of them in the patch, or in the annotation kubectl.kubernetes.io/default-container of the pod template")
}

// A container with such a variable is not created, and the container runtime names neither the step nor
// the output.
func TestAnOutputThatNoVariableCanHave(t *testing.T) {
	made := map[string]crdv1.ResourceTemplateData{"db": {Name: "db", ObjectName: "sb1-db", NotVariables: map[string]string{"make.dump": "has a NUL byte (byte 3)"}}}
	const spec = `strategic: {spec: {template: {spec: {containers: [{name: main, `
	for patch, says := range map[string]string{
		spec + `env: [{name: DUMP, valueFrom: {secretKeyRef: {name: "{{ .resources.db.objectName }}", key: make.dump}}}]}]}}}}`: `variable DUMP of container "main" has output dump of step make of resource "db", which has a NUL byte (byte 3)`,
		spec + `envFrom: [{secretRef: {name: "{{ .resources.db.objectName }}"}}]}]}}}}`:                                         `envFrom of container "main" has output dump of step make of resource "db", which has a NUL byte (byte 3)`,
		spec + `env: [{name: HOST, valueFrom: {secretKeyRef: {name: "{{ .resources.db.objectName }}", key: make.host}}}]}]}}}}`: "",
		spec + `env: [{name: HOST, valueFrom: {secretKeyRef: {name: other, key: make.dump}}}]}]}}}}`:                            "",
		`strategic: {spec: {template: {spec: {volumes: [{name: v, secret: {secretName: "{{ .resources.db.objectName }}"}}]}}}}`: "",
	} {
		_, p := cloneOf(baseline(t), fork.Plan{Identity: identity(), Patches: patches(t, `[{template: true, `+patch+`}]`), Resources: made, AuthorAsked: true})
		switch {
		case says == "" && p != nil:
			t.Errorf("%s: %s", patch, p.Message)
		case says != "" && (p == nil || p.Reason != fork.ReasonOutputNotVariable || !strings.HasPrefix(p.Message, says)):
			t.Errorf("%s: %v", patch, p)
		}
	}
}
