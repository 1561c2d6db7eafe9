package specfile

import (
	"cmp"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Kinds of specifications, as commands name them.
const (
	Sandbox        = "sandbox"
	ResourcePlugin = "resource plugin"
	RouteGroup     = "route group"
	Job            = "job"
	RunnerGroup    = "job runner group"
	smartTest      = "smart test"
)

// kinds are the accepted values of kind, in lower case and without "signadot".
var kinds = map[string]string{
	"sandbox": Sandbox, "resourceplugin": ResourcePlugin, "plugin": ResourcePlugin, "routegroup": RouteGroup,
	"job": Job, "jobrunnergroup": RunnerGroup, "runnergroup": RunnerGroup, "test": smartTest, "smarttest": smartTest,
}

// marks are fields of spec that only one kind has; the first one found decides.
var marks = []struct{ field, kind string }{
	{"forks", Sandbox}, {"local", Sandbox}, {"virtual", Sandbox},
	{"create", ResourcePlugin}, {"delete", ResourcePlugin},
	{"match", RouteGroup},
	{"runnerGroup", Job}, {"namePrefix", Job}, {"uploadArtifact", Job}, {"routingContext", Job},
	{"scaling", RunnerGroup}, {"jobTimeout", RunnerGroup}, {"podTemplate", RunnerGroup},
	{"script", smartTest},
}

// remedies are the remedies for a file of another kind.
var remedies = map[string]string{
	Sandbox:        "use switchyard sandbox",
	ResourcePlugin: "use switchyard resourceplugin",
	RouteGroup:     "use switchyard routegroup",
	Job:            "use switchyard job",
	RunnerGroup:    "use switchyard jobrunnergroup",
	smartTest:      "use switchyard test",
}

// Check returns an error if the file describes another kind of object than wanted. A file without
// a kind, and without a field that only one kind has, passes. The error is Problems.
func (f *File) Check(wanted string) error {
	kind, line := f.kind()
	if kind == "" || wanted == "" || kind == wanted {
		return f.placed()
	}
	text := fmt.Sprintf("describes a %s, not a %s; %s", kind, wanted, cmp.Or(remedies[kind], "apply an object of the cluster with kubectl"))
	return Problems{{File: f.Name, Line: line, Text: text}}
}

// kind returns the kind that the file names or implies; empty when it does neither.
func (f *File) kind() (kind string, line int) {
	if named, line := child(f.root, "kind"); named != nil && named.Kind == yaml.ScalarNode && named.Value != "" {
		if kind := kinds[strings.TrimPrefix(strings.ToLower(named.Value), "signadot")]; kind != "" {
			return kind, line
		}
		return named.Value, line
	}
	spec, _ := child(f.root, "spec")
	if spec == nil {
		return "", 0
	}
	for _, m := range marks {
		if _, line := child(spec, m.field); line > 0 {
			return m.kind, line
		}
	}
	return "", 0
}

// placed returns an error if the name is in metadata, as in objects of the cluster.
func (f *File) placed() error {
	if keyed(f.root, "name") != nil {
		return nil
	}
	metadata, _ := child(f.root, "metadata")
	if metadata == nil {
		return nil
	}
	name, line := child(metadata, "name")
	if name == nil {
		return nil
	}
	return Problems{{File: f.Name, Line: line, Text: fmt.Sprintf(
		"has its name in metadata; write \"name: %s\" at the top. If it is an object of the cluster, apply it with kubectl", name.Value)}}
}
