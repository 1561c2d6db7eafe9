// Package state describes the content of a cluster and of the routing log, so that two runs can
// be compared.
package state

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/table"
)

// State is the content by name: objects, rules of the routing table, and keys of the log with a
// statement. It is without values that differ from run to run: UIDs, versions, times and
// addresses, which are replaced by the names of their objects.
type State map[string]string

// Kinds returns the kinds of a State.
func Kinds() []schema.GroupVersionKind {
	out := []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Version: "v1", Kind: "Service"},
		{Version: "v1", Kind: "Endpoints"},
		{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
	}
	for _, kind := range crdv1.Kinds() {
		out = append(out, crdv1.GroupVersion().WithKind(kind.Name))
	}
	return out
}

// List lists every object of some kinds.
func List(ctx context.Context, c client.Reader, kinds ...schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		out = append(out, list.Items...)
	}
	return out, nil
}

// Of returns the State of objects, which it changes, and of a log.
func Of(ctx context.Context, objects []unstructured.Unstructured, log eventbus.Log) (State, error) {
	s, err := Routes(ctx, log)
	if err != nil {
		return nil, err
	}
	names := renaming(objects)
	for _, o := range objects {
		clean(o.Object, "")
		conditions(o.Object)
		text, err := json.MarshalIndent(o.Object, "", " ")
		if err != nil {
			return nil, err
		}
		s[Name(&o)] = names.Replace(string(text))
	}
	return s, nil
}

// Name returns the kind of an object, its namespace and its name.
func Name(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

// renaming replaces the UIDs and addresses of objects by their names.
func renaming(objects []unstructured.Unstructured) *strings.Replacer {
	var pairs []string
	for _, o := range objects {
		if uid := string(o.GetUID()); uid != "" {
			pairs = append(pairs, uid, "the UID of "+Name(&o))
		}
		if ip, _, _ := unstructured.NestedString(o.Object, "spec", "clusterIP"); ip != "" && ip != "None" {
			pairs = append(pairs, `"`+ip+`"`, `"the address of `+Name(&o)+`"`)
		}
	}
	return strings.NewReplacer(pairs...)
}

// differs are fields that differ from run to run, wherever they stand. Annotations
// among them are made of UIDs and generations.
var differs = map[string]bool{
	"resourceVersion": true, "creationTimestamp": true, "managedFields": true, "selfLink": true, "generation": true,
	"lastTransitionTime": true, "lastUpdateTime": true, "lastProbeTime": true, "lastCheckTime": true, "lastConnectedTime": true,
	"seenTime": true, "since": true, "nodePort": true, "signadot.com/desired": true, "signadot.com/on-behalf-of": true,
}

// clean removes what differs. Whether a status speaks of the present generation stays.
func clean(value any, within string) {
	switch v := value.(type) {
	case map[string]any:
		if within == "" {
			current(v)
		}
		for key, item := range v {
			_, number := item.(int64)
			pod := within == ".status.pods[]" && key == "uid"                 // of a capture, which the rest of the cluster creates
			if differs[key] || pod || number && key == "observedGeneration" { // It counts generations of another object.
				delete(v, key)
				continue
			}
			clean(item, within+"."+key)
		}
	case []any:
		for _, item := range v {
			clean(item, within+"[]")
		}
	}
}

// current replaces observedGeneration by whether it is the present one.
func current(o map[string]any) {
	generation, _, _ := unstructured.NestedInt64(o, "metadata", "generation")
	say := func(m map[string]any) {
		if observed, ok := m["observedGeneration"].(int64); ok {
			m["observedGeneration"] = observed == generation
		}
	}
	status, _ := o["status"].(map[string]any)
	say(status)
	list, _ := status["conditions"].([]any)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok {
			say(c)
		}
	}
	if observed, ok := status["baseline"].(map[string]any); ok {
		delete(observed, "generation")
	}
}

// conditions removes positions on the log from conditions.
func conditions(o map[string]any) {
	list, _, _ := unstructured.NestedSlice(o, "status", "conditions")
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == crdv1.ConditionPublished && c["status"] == "True" {
			delete(c, "message")
		}
	}
	if len(list) > 0 {
		_ = unstructured.SetNestedSlice(o, list, "status", "conditions")
	}
}

// Routes returns the rules of the routing table, and the keys of the log with a statement.
func Routes(ctx context.Context, log eventbus.Log) (State, error) {
	folded, live, err := fold(ctx, log)
	if err != nil {
		return nil, err
	}
	s := State{}
	for _, key := range live {
		s["fact "+key] = "stated"
	}
	for rule := range folded.All() {
		s[fmt.Sprintf("rule %v %s", rule.Baseline, rule.RoutingKey)] = textOf(rule)
	}
	return s, nil
}

// fold folds the log.
func fold(ctx context.Context, log eventbus.Log) (table.Table, []string, error) {
	var folded table.Table
	tip, err := log.Tip(ctx)
	if err != nil {
		return folded, nil, nil // It has not begun.
	}
	follower, err := log.Follow(ctx)
	if err != nil {
		return folded, nil, err
	}
	defer follower.Close()
	live := map[string]bool{}
	for folded.Pos().Seq < tip.Seq {
		events, err := follower.Next(ctx)
		if err != nil {
			return folded, nil, err
		}
		folded = folded.Apply(events...)
		for _, e := range events {
			live[string(e.Fact.Key)] = !e.Fact.Tombstone()
		}
	}
	maps.DeleteFunc(live, func(key string, stands bool) bool {
		return !stands || !strings.HasPrefix(key, "key/") && !strings.HasPrefix(key, "workload/")
	})
	return folded, slices.Sorted(maps.Keys(live)), nil
}

// textOf returns a rule as text without addresses.
func textOf(r *table.Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "to %s, by %s %s/%s, ready %t", r.Sandbox, r.Member.Kind, r.Member.Namespace, r.Member.Name, r.Ready)
	for _, m := range r.Mappings {
		fmt.Fprintf(&b, "\n port %d:", m.WorkloadPort)
		for _, d := range m.Destinations {
			fmt.Fprintf(&b, " %s:%d", d.Host, d.Port)
		}
	}
	return b.String()
}

// Differences returns how another State differs from this one, which should be; nothing
// when it does not.
func (want State) Differences(have State) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		switch text, ok := have[key]; {
		case !ok:
			out = append(out, "missing: "+key)
		case text != want[key]:
			out = append(out, fmt.Sprintf("%s differs:%s", key, lines(want[key], text)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if _, ok := want[key]; !ok {
			out = append(out, "left over: "+key)
		}
	}
	return out
}

// lines returns which lines differ.
func lines(want, have string) string {
	var out strings.Builder
	count := map[string]int{}
	for _, line := range strings.Split(want, "\n") {
		count[line]++
	}
	for _, line := range strings.Split(have, "\n") {
		if count[line]--; count[line] < 0 {
			fmt.Fprintf(&out, "\n    + %s", strings.TrimSpace(line))
		}
	}
	for _, line := range strings.Split(want, "\n") {
		if count[line] > 0 {
			count[line]--
			fmt.Fprintf(&out, "\n    - %s", strings.TrimSpace(line))
		}
	}
	return out.String()
}
