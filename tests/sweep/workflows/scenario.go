package workflows

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/sweep/workflows/ledger"
)

// name is that of the Resource.
const name = "five"

// unit is a unit of the Resource: the outputs that it reads as variables, and the outputs that it
// produces.
type unit struct {
	name  string
	reads []string
	gives []string
}

// There are five units: b and c run concurrently once a has ended, and d after both; e deletes what
// they have created.
var (
	creates = []unit{
		{"a", nil, []string{"host", "port"}},
		{"b", []string{"a.host"}, []string{"url"}},
		{"c", []string{"a.port"}, []string{"key"}},
		{"d", []string{"b.url", "c.key"}, nil},
	}
	deletes = []unit{{"e", []string{"a.host", "b.url"}, nil}}
)

// pause is how long a script takes at least, in seconds.
const pause = "0.1"

// script is what a unit runs: its outputs, and its side effect in the ledger.
func (u unit) script() string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\nset -eu\n")
	for _, output := range u.gives {
		// The inputs are part of the output.
		value := u.name + "-" + output
		for _, key := range u.reads {
			value += "-of-$" + variable(key)
		}
		fmt.Fprintf(&b, "printf %%s \"%s\" >/tmp/%s\n", value, output)
	}
	insert := `-c "INSERT INTO ledger (pod, entry) VALUES ('$POD', '%s')"`
	fmt.Fprintf(&b, "psql -qX "+insert+` -c "DO 'BEGIN PERFORM pg_sleep(%s); END'" `+insert+"\n", ledger.Begun, pause, ledger.Done)
	return b.String()
}

// variable returns the name of the variable that has the value of a key.
func variable(key string) string { return strings.ToUpper(strings.ReplaceAll(key, ".", "_")) }

// spec returns the unit as an API object.
func (u unit) spec(env map[string]string) crdv1.WorkUnit {
	var b strings.Builder
	fmt.Fprintf(&b, "{name: %s, type: ExecUnit, inputs: [", u.name)
	for _, key := range u.reads {
		fmt.Fprintf(&b, "{name: %s, iocontext: {key: %s}}, ", strings.ReplaceAll(key, ".", "-"), key)
	}
	b.WriteString("], outputs: [")
	for _, output := range u.gives {
		fmt.Fprintf(&b, "{name: %s}, ", output)
	}
	b.WriteString("], execUnitTemplate: {inputInjects: [")
	for _, key := range u.reads {
		fmt.Fprintf(&b, "{inputName: %s, dst: {env: %s}}, ", strings.ReplaceAll(key, ".", "-"), variable(key))
	}
	b.WriteString("], outputExports: [")
	for _, output := range u.gives {
		fmt.Fprintf(&b, "{outputName: %s, fromPath: /tmp/%s}, ", output, output)
	}
	fmt.Fprintf(&b, "], podTemplate: {spec: {containers: [{name: main, image: %s, env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}", imageMain)
	for _, key := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(&b, ", {name: %s, value: %q}", key, env[key])
	}
	b.WriteString("]}]}}}}")
	var out crdv1.WorkUnit
	if err := yaml.UnmarshalStrict([]byte(b.String()), &out); err != nil {
		panic(err) // It is written above.
	}
	out.ExecUnitTemplate.Script = u.script()
	return out
}

// asked returns the Resource; its scripts reach the ledger with env.
func asked(env map[string]string) *crdv1.Resource {
	r := &crdv1.Resource{}
	r.Name = name
	r.Spec = crdv1.ResourceSpec{Name: "db", PluginName: "sweep", OutputNamespaces: []string{outputNamespace}}
	env = maps.Clone(env)
	env["PATH"] = ledger.Programs + ":/usr/bin:/bin"
	for _, u := range creates {
		r.Spec.OLM.PreStart = append(r.Spec.OLM.PreStart, u.spec(env))
	}
	for _, u := range deletes {
		r.Spec.OLM.PostStop = append(r.Spec.OLM.PostStop, u.spec(env))
	}
	return r
}
