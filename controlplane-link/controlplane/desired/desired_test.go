package desired_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/golden"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// Specifications as the store has them.
const (
	inShop = `{"cluster":"east","description":"of the checkout","labels":{"feature":"checkout"},"ttl":{"duration":"2d","offsetFrom":"updatedAt"},` +
		`"forks":[{"forkOf":{"kind":"Deployment","namespace":"shop","name":"cart"},"customizations":{"images":[{"image":"cart:2"}],` +
		`"env":[{"name":"DB","valueFrom":{"resource":{"name":"db","outputKey":"make.host"}}}]}}],` +
		`"local":[{"name":"web","from":{"kind":"Deployment","namespace":"shop","name":"web"},"mappings":[{"port":80,"toLocal":"localhost:8080"}]}],` +
		`"connection":{"devboxId":"dbx-1"},"localMachineID":"older","resources":[{"name":"db","plugin":"database","params":{"name":"cart"}}]}`
	matching = `{"cluster":"","description":"all of it","match":{"any":[{"label":{"key":"feature","value":"check*"}},{"label":{"key":"team","value":"a"}}]},` +
		`"endpoints":[{"name":"shop","target":"http://web.shop.svc:80","cluster":"west"},{"name":"web","target":"http://web.shop.svc:80","cluster":"east"}],"ttl":{"duration":"1d","offsetFrom":"noMatchedSandboxes"}}`
)

var applied = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// versions are two of a plugin, the newest first as the store lists them.
func versions() []model.Plugin {
	of := func(v, image string) model.Plugin {
		return model.Plugin{Name: spec.PluginName{Bare: "database", Version: v}, Spec: json.RawMessage(
			`{"runner":{"image":"` + image + `"},"create":[{"name":"make","script":"#!/bin/sh\n","inputs":[{"name":"name","valueFromSandbox":true}],"outputs":[{"name":"host","valueFromPath":"/host"}]}]}`)}
	}
	return []model.Plugin{of("2.0.0", "runner:2"), of("1.0.0", "runner:1")}
}

func row(name, cluster, text string) model.Sandbox {
	return model.Sandbox{Org: "shop", Name: name, Cluster: cluster, RoutingKey: "k7w2xq9m4zt1c", Generation: 41, Spec: json.RawMessage(text), CreatedAt: applied, UpdatedAt: applied}
}

func TestTheObjectOfASandbox(t *testing.T) {
	in := row("checkout", "east", inShop)
	in.Plugins = map[string]spec.PluginName{"db": {Bare: "database", Version: "1.0.0"}}
	o, err := desired.Sandbox(in, versions())
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "testdata/sandbox.yaml", o)
	if known := sandboxes.SandboxOf(o).Spec; string(known) != string(in.Spec) {
		t.Errorf("the specification that is read back: %s", known)
	}
	in.Spec = json.RawMessage(`{"cluster":"east","localMachineID":"older","virtual":[{"name":"v","workload":{"kind":"Deployment","namespace":"shop","name":"web"}}]}`)
	if o, err := desired.Sandbox(in, nil); err != nil || o.Annotations[crdv1.AnnotationMachine] != "older" {
		t.Errorf("the older form of a connection: %v, %v", o, err)
	}
}

func TestTheObjectOfAGroup(t *testing.T) {
	group := model.RouteGroup{Name: "all", RoutingKey: "r3n8vd5h2pk6y", Generation: 43, Spec: json.RawMessage(matching), CreatedAt: applied, UpdatedAt: applied}
	deleted := row("deleted", "east", inShop)
	deleted.DeletedAt = applied
	all := []model.Sandbox{
		row("second", "east", `{"labels":{"team":"a"}}`), row("checkout", "east", inShop), deleted,
		row("other", "east", `{"labels":{"team":"b"}}`), row("unlabelled", "east", `{}`), row("away", "west", `{"labels":{"feature":"checkin"}}`),
	}
	o, err := desired.Group(group, "east", all)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "testdata/group.yaml", o)
	for _, tt := range []struct {
		of, in string
		want   []string
	}{
		{"", "west", []string{"away"}}, {"", "north", nil}, {"west", "west", []string{"away"}}, {"east", "east", []string{"checkout", "second"}},
	} {
		group.Cluster = tt.of
		if o, err := desired.Group(group, tt.in, all); err != nil || !slices.Equal(o.Spec.SandboxNames, tt.want) || o.Spec.RoutingKey != group.RoutingKey {
			t.Errorf("of cluster %q in %s: %v, %v; want %v", tt.of, tt.in, o, err, tt.want)
		}
	}
	group.Cluster = "west"
	if o, err := desired.Group(group, "east", all); o != nil || err != nil {
		t.Errorf("in another cluster: %v, %v", o, err)
	}
}

// What REST accepted can be refused by a later version of the compiler, and a fault must not look like one
// of the store.
func TestFaultsAreThoseOfTheSpecification(t *testing.T) {
	for _, text := range []string{`{"cluster":"east"}`, `{"cluster":"east","forks":[{"forkOf":{"kind":"Pod","namespace":"shop","name":"cart"}}]}`, `{"resources":[{"name":"db","plugin":"none"}]}`} {
		var problems specfile.Problems
		if _, err := desired.Sandbox(row("checkout", "east", text), versions()); !errors.As(err, &problems) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := desired.Sandbox(row("checkout", "east", `[]`), nil); err == nil {
		t.Error("a list is no specification")
	}
	for _, text := range []string{`{}`, `{"match":{}}`, `[]`} {
		if _, err := desired.Group(model.RouteGroup{Name: "all", Spec: json.RawMessage(text)}, "east", nil); err == nil {
			t.Errorf("group %s has no fault", text)
		}
	}
}

// compare compares an object with a golden file.
func compare(t *testing.T, file string, o crdv1.Object) {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, file, string(text))
}
