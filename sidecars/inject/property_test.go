package inject

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/sidecars/devmesh"
)

// The pods here are drawn as JSON and not as Go values, so that they hold what
// our Go types do not know: fields of an API newer than this program.

func anyPod() *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		hash := rapid.SampledFrom([]string{"7d9f", "x"}).Draw(t, "hash")
		metadata := withUnknown(t, "metadata", map[string]any{
			"labels": map[string]any{deploymentHash: hash, "app": "a"},
			"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet",
				"name": "customer-7d9f", "uid": "u", "controller": true}},
		})
		optional(t, metadata, "annotations", rapid.Custom(func(t *rapid.T) any {
			a := map[string]any{}
			optional(t, a, AnnotationInject, rapid.Just(any("true")))
			optional(t, a, AnnotationExcludePorts, rapid.SampledFrom([]any{"80", "8080,9090", "http"}))
			optional(t, a, AnnotationPlainPorts, rapid.SampledFrom([]any{"none", "3306", "mysql"}))
			optional(t, a, AnnotationEdge, rapid.SampledFrom([]any{"true", "false", "yes"}))
			optional(t, a, AnnotationLogLevel, rapid.SampledFrom([]any{"debug", "loud"}))
			optional(t, a, AnnotationProcessed, rapid.SampledFrom([]any{Injected, "earlier reason"}))
			optional(t, a, "a~b/c", rapid.Just(any("odd name")))
			return a
		}))
		podSpec := withUnknown(t, "spec", map[string]any{"containers": containers(1).Draw(t, "containers")})
		optional(t, podSpec, "initContainers", containers(0))
		optional(t, podSpec, "volumes", named([]any{"data", "tmp", "config", devmesh.RunVolume}))
		optional(t, podSpec, "imagePullSecrets", named([]any{"registry", "other"}))
		optional(t, podSpec, "serviceAccountName", rapid.Just(any("default")))
		optional(t, podSpec, "hostNetwork", rapid.SampledFrom([]any{true, false}))
		return withUnknown(t, "pod", map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": podSpec})
	})
}

// optional leaves a member out, sets it to null, or draws it.
func optional(t *rapid.T, object map[string]any, name string, value *rapid.Generator[any]) {
	switch rapid.SampledFrom([]string{"absent", "null", "set", "set", "set"}).Draw(t, name) {
	case "null":
		object[name] = nil
	case "set":
		object[name] = value.Draw(t, name)
	}
}

func withUnknown(t *rapid.T, where string, object map[string]any) map[string]any {
	if rapid.Bool().Draw(t, where+" has an unknown field") {
		object["fieldFromTheFuture"] = map[string]any{"nested": []any{1.5, "x", map[string]any{"deep": true}}}
	}
	return object
}

func containers(least int) *rapid.Generator[any] {
	names := rapid.SampledFrom([]any{"app", "log", "proxy", "cache", devmesh.ContainerName, devmesh.InitContainerName})
	return rapid.Custom(func(t *rapid.T) any {
		list := []any{}
		for _, name := range rapid.SliceOfNDistinct(names, least, 3, rapid.ID[any]).Draw(t, "names") {
			c := withUnknown(t, "container", map[string]any{"name": name, "image": "i"})
			optional(t, c, "ports", rapid.Custom(func(t *rapid.T) any {
				port := rapid.SampledFrom([]int{80, 8080, 9090, 15021}).Draw(t, "port")
				return []any{map[string]any{"containerPort": port, "name": "db", "protocolFromTheFuture": "QUIC"}}
			}))
			optional(t, c, "restartPolicy", rapid.Just(any("Always")))
			for _, name := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
				optional(t, c, name, anyProbe())
			}
			list = append(list, c)
		}
		return list
	})
}

func anyProbe() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		probe := withUnknown(t, "probe", map[string]any{"periodSeconds": 7})
		optional(t, probe, "tcpSocket", rapid.Custom(func(t *rapid.T) any {
			action := withUnknown(t, "tcpSocket", map[string]any{
				"port": rapid.SampledFrom([]any{8080, 9090, "db", "8080", "nobody", 0}).Draw(t, "port")})
			optional(t, action, "host", rapid.SampledFrom([]any{"", "10.0.0.1"}))
			return action
		}))
		optional(t, probe, "exec", rapid.Just(any(map[string]any{"command": []any{"true"}})))
		return probe
	})
}

func named(names []any) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		list := []any{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, len(names), rapid.ID[any]).Draw(t, "names") {
			list = append(list, withUnknown(t, "item", map[string]any{"name": name}))
		}
		return list
	})
}

// Except for the action of a probe; see TestTCPProbes.
func TestInjectingOnlyAddsAndTwiceIsOnce(t *testing.T) {
	injected, exchanged := 0, 0
	property := func(t *rapid.T) {
		raw, err := json.Marshal(anyPod().Draw(t, "pod"))
		if err != nil {
			t.Fatal(err)
		}
		cfg := testConfig()
		cfg.Sidecar.PullSecret = rapid.SampledFrom([]string{"", "registry"}).Draw(t, "secret")
		ns := Namespace{Name: "shop", Selected: rapid.Bool().Draw(t, "selected")}
		once, err := Inject(raw, ns, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if once.Inject {
			injected++
		}
		after := apply(t, raw, once.Patch)
		twice, err := Inject(after, ns, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if len(twice.Patch) != 0 {
			t.Fatalf("the second time changes %v", twice.Patch)
		}
		exchanged += askOfTheSidecar(decoded(t, raw), decoded(t, after))
		if lost := contained("", decoded(t, raw), decoded(t, after)); lost != "" {
			t.Fatalf("lost: %s\nbefore %s\nafter  %s", lost, raw, after)
		}
		for _, list := range []string{"containers", "volumes", "imagePullSecrets"} {
			unique(t, decoded(t, after), list)
		}
	}
	// Few of the pods that are drawn may have a sidecar: in a hundred there may be
	// none, in fifty times as many there are some.
	for round := 0; round < 50 && (injected == 0 || exchanged == 0); round++ {
		rapid.Check(t, property)
	}
	if injected == 0 || exchanged == 0 {
		t.Errorf("of the pods that were drawn %d got a sidecar, and %d of their probes became its own: the property was checked on refusals alone",
			injected, exchanged)
	}
}

func decoded(t *rapid.T, raw []byte) any {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// askOfTheSidecar counts the probes of an object that are the sidecar's in
// another and were not before.
func askOfTheSidecar(before, after any) int {
	count := func(v any) int {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // It was JSON before.
		}
		return bytes.Count(text, []byte(`"path":"`+devmesh.ProbePath))
	}
	return count(after) - count(before)
}

// exchange reports whether a member of a probe went for another that asks the same
// of the sidecar.
func exchange(name string, before any, probe map[string]any) bool {
	action, _ := before.(map[string]any)
	instead, _ := probe["httpGet"].(map[string]any)
	path, _ := instead["path"].(string)
	number, asked := strings.CutPrefix(path, devmesh.ProbePath)
	port, err := strconv.Atoi(number)
	_, unknown := action["fieldFromTheFuture"]
	host, _ := action["host"].(string)
	same := action["port"] == float64(port) || action["port"] == number || action["port"] == "db"
	return name == "tcpSocket" && probe[name] == nil && asked && err == nil && same && !unknown && host == "" &&
		instead["port"] == float64(devmesh.ReadinessPort) && probe["exec"] == nil
}

// contained returns what of an object is missing in another that should hold it
// all: an object may gain members, a list may gain items, null may get a value,
// the value of our own annotation may change, and the action of a probe may go
// for the sidecar's.
func contained(path string, before, after any) string {
	switch b := before.(type) {
	case nil:
		return ""
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok {
			return path
		}
		for name, value := range b {
			if name == AnnotationProcessed || exchange(name, value, a) {
				continue
			}
			if lost := contained(path+"/"+name, value, a[name]); lost != "" {
				return lost
			}
		}
		return ""
	case []any:
		a, ok := after.([]any)
		if !ok {
			return path
		}
		for i, item := range b {
			for len(a) > 0 && contained("", item, a[0]) != "" {
				a = a[1:]
			}
			if len(a) == 0 {
				return fmt.Sprintf("%s/%d", path, i)
			}
			a = a[1:]
		}
		return ""
	default:
		if !reflect.DeepEqual(before, after) {
			return path
		}
		return ""
	}
}

func unique(t *rapid.T, pod any, list string) {
	items, _ := pod.(map[string]any)["spec"].(map[string]any)[list].([]any)
	seen := map[any]bool{}
	for _, item := range items {
		name := item.(map[string]any)["name"]
		if seen[name] {
			t.Fatalf("%q stands twice in %s", name, list)
		}
		seen[name] = true
	}
}
