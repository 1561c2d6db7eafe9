package badobjects

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// copied returns a copy of a document.
func copied(d document) document {
	text, _ := json.Marshal(d) // It was read from JSON.
	var out document
	_ = json.Unmarshal(text, &out)
	return out
}

// damage is one way in which an object is made wrong.
type damage struct {
	// what describes the damage.
	what string
	// object is the object with it.
	object document
}

// damages returns the object with each of its parts removed, nulled, and replaced by something of
// another type. Its kind, namespace and name stay.
func damages(object document) []damage {
	var out []damage
	each(object, nil, func(path []any) {
		if len(path) == 1 && (path[0] == "apiVersion" || path[0] == "kind" || path[0] == "metadata") ||
			len(path) == 2 && path[0] == "metadata" && (path[1] == "name" || path[1] == "namespace" || path[1] == "uid") {
			return // Without these it is another object, or none that an API server can hold.
		}
		for what, to := range map[string]any{
			"null": nil, "a huge negative number": -1e18, "a list of null": []any{nil}, "an empty object": map[string]any{},
			"text that is no name": "../\x00é",
		} {
			damaged := copied(object)
			set(damaged, path, to)
			out = append(out, damage{fmt.Sprintf("%v is %s", path, what), damaged})
		}
		damaged := copied(object)
		remove(damaged, path)
		out = append(out, damage{fmt.Sprintf("%v is left out", path), damaged})
	})
	return out
}

// each calls f with the path of each part of a value.
func each(value any, path []any, f func(path []any)) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := append(slices.Clone(path), key)
			f(at)
			each(v[key], at, f)
		}
	case []any:
		for i := range v {
			at := append(slices.Clone(path), i)
			f(at)
			each(v[i], at, f)
		}
	}
}

// set puts a value at a path.
func set(value any, path []any, to any) {
	switch v := value.(type) {
	case map[string]any:
		key, _ := path[0].(string)
		if len(path) == 1 {
			v[key] = to
			return
		}
		set(v[key], path[1:], to)
	case []any:
		i, _ := path[0].(int)
		if len(path) == 1 {
			v[i] = to
			return
		}
		set(v[i], path[1:], to)
	}
}

// remove takes the key of an object away; an item of a list becomes null.
func remove(value any, path []any) {
	if len(path) > 1 {
		switch v := value.(type) {
		case map[string]any:
			key, _ := path[0].(string)
			remove(v[key], path[1:])
		case []any:
			i, _ := path[0].(int)
			remove(v[i], path[1:])
		}
		return
	}
	if m, ok := value.(map[string]any); ok {
		key, _ := path[0].(string)
		delete(m, key)
		return
	}
	set(value, path, nil)
}
