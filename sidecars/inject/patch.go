package inject

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Operation is one step of a JSON patch (RFC 6902). Op is "add", or "remove" for
// the action of a probe that another takes the place of (ADR 0011).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Result is the answer about one pod.
type Result struct {
	Decision
	// Patch brings the pod into its new form; empty when nothing is to change.
	Patch []Operation
	// Warnings are for the user or controller that creates the pod.
	Warnings []string
}

// Inject decides about a pod that is being created in a namespace and returns the patch. raw is
// the pod's JSON as the API server sent it. cfg must have its defaults set. An error means that
// raw is not a pod.
func Inject(raw []byte, ns Namespace, cfg Config) (Result, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		return Result{}, fmt.Errorf("the object is not a pod: %w", err)
	}
	decision := Decide(&pod, ns, cfg)
	result := Result{Decision: decision}
	if !decision.Asked {
		return result, nil
	}
	p, err := newPatcher(raw)
	if err != nil {
		return Result{}, err
	}
	if decision.Inject {
		result.Warnings = putIn(p, &pod, decision, cfg)
	} else {
		p.annotate(AnnotationProcessed, decision.Reason)
	}
	result.Patch = p.operations
	return result, p.err
}

// patcher gathers changes to an object it knows only as JSON.
type patcher struct {
	object     map[string]any
	operations []Operation
	err        error
}

func newPatcher(raw []byte) (*patcher, error) {
	p := &patcher{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&p.object); err != nil {
		return nil, fmt.Errorf("the object is not JSON: %w", err)
	}
	return p, nil
}

// member returns the value of a member of one of the object's two halves,
// metadata and spec, or nil.
func (p *patcher) member(half, name string) any {
	parent, _ := p.object[half].(map[string]any)
	return parent[name]
}

// annotate adds an annotation, unless it is there with that value.
func (p *patcher) annotate(name, value string) { p.note("annotations", name, value) }

// label adds a label, unless it is there with that value.
func (p *patcher) label(name, value string) { p.note("labels", name, value) }

// note adds a member to one of the two maps of the metadata.
func (p *patcher) note(to, name, value string) {
	switch there := p.member("metadata", to).(type) {
	case map[string]any:
		if there[name] == value {
			return
		}
		there[name] = value
		p.add("/metadata/"+to+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), value)
	case nil:
		p.set("metadata", to, map[string]any{name: value})
	default:
		p.err = fmt.Errorf("metadata.%s is a %T, not an object", to, there)
	}
}

// prepend puts items in front of a list of the spec, in their order.
func (p *patcher) prepend(list string, items ...any) { p.insert(list, true, items) }

// append puts items behind a list of the spec, in their order.
func (p *patcher) append(list string, items ...any) { p.insert(list, false, items) }

func (p *patcher) insert(list string, first bool, items []any) {
	if len(items) == 0 {
		return
	}
	switch there := p.member("spec", list).(type) {
	case []any:
		for i, item := range items {
			at := "-"
			if first {
				at = strconv.Itoa(i)
			}
			p.add("/spec/"+list+"/"+at, item)
		}
	case nil:
		p.set("spec", list, items)
	default:
		p.err = fmt.Errorf("spec.%s is a %T, not a list", list, there)
	}
}

// set gives a member that is absent or null its first value.
func (p *patcher) set(half, name string, value any) {
	parent, ok := p.object[half].(map[string]any)
	if !ok {
		parent = map[string]any{}
		p.object[half] = parent
		p.add("/"+half, map[string]any{})
	}
	parent[name] = value
	p.add("/"+half+"/"+name, value)
}

func (p *patcher) add(path string, value any) {
	if held, ok := value.(map[string]any); ok {
		value = maps.Clone(held) // the tree goes on changing, the operation must not
	}
	p.operations = append(p.operations, Operation{Op: "add", Path: path, Value: value})
}
