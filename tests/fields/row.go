package fields

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EnvFolder is the environment variable with the directory for the results of rows.
const EnvFolder = "SWITCHYARD_FIELDS"

// Shown is what a row shows of a field.
type Shown struct {
	Kind, Path string
	// Row is the name of the test and of the row.
	Row string
	// Differs reports whether the decision comes out differently without the field, or
	// with another value; always true of a field of the status.
	Differs bool
}

// Row determines which fields of the object's kind a row of a decision table shows. decide returns
// the decision about an object in the world of the row, and the object with the resulting status;
// both can be anything that encoding/json can encode. It must not modify its argument, nor panic.
func Row[T client.Object](t testing.TB, kind string, object T, decide func(T) (decision any, after client.Object)) {
	t.Helper()
	folder := os.Getenv(EnvFolder)
	if folder == "" {
		return
	}
	_, status, err := decided(object, decide, nil)
	if err != nil {
		t.Fatal(err)
	}
	document, err := asDocument(object)
	if err != nil {
		t.Fatal(err)
	}
	var all []Shown
	for _, f := range Of(kind) {
		path := strings.Split(strings.NewReplacer("[]", ".[]", "{}", ".{}").Replace(f.Path), ".")
		if path[0] == "status" {
			if set(status, path) {
				all = append(all, Shown{kind, f.Path, t.Name(), true})
			}
			if !found(document, path) {
				continue // As in the spec: a status that a row begins with may count.
			}
		}
		outcome, _, err := decided(object, decide, path)
		if err != nil {
			t.Fatal(err)
		}
		changes, differs := false, false
		for _, change := range []func(any) (any, bool){without, other} {
			changed, ok := altered(document, path, change)
			if !ok {
				continue
			}
			changes = true
			o, ok := reflect.New(reflect.TypeOf(object).Elem()).Interface().(T)
			if !ok || json.Unmarshal(changed, o) != nil {
				continue // The API server would not take it.
			}
			now, _, err := decided(o, decide, path)
			if err != nil {
				t.Fatal(err)
			}
			differs = differs || now != outcome
		}
		if changes && (path[0] == "spec" || differs) {
			all = append(all, Shown{kind, f.Path, t.Name(), differs})
		}
	}
	if err := note(folder, all); err != nil {
		t.Fatal(err)
	}
}

// decided returns the decision and the resulting status as text, and the resulting object as a document. Where path is
// that of a field of the status, both are without it: a value that is only kept has no effect.
func decided[T client.Object](o T, decide func(T) (any, client.Object), path []string) (outcome string, after any, err error) {
	decision, concluded := decide(o)
	document, err := asDocument(concluded)
	if err != nil {
		return "", nil, err
	}
	if len(path) > 0 && path[0] == "status" {
		alter(document, path, without)
	}
	parts := []any{decision, document["status"]}
	text, err := json.Marshal(parts)
	if err != nil {
		return "", nil, fmt.Errorf("write what was decided: %w", err)
	}
	return string(text), document, nil
}

// asDocument returns an object as a JSON document.
func asDocument(o any) (map[string]any, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write %T: %w", o, err)
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("read %T: %w", o, err)
	}
	return document, nil
}

// found reports whether a document has a field at the path.
func found(value any, path []string) bool {
	return holds(value, path, func(v any) bool { return v != nil })
}

// set reports whether a document has a field at the path with another value than that of a type that
// nothing was written to: a number that is always in the document is not shown by its zero.
func set(value any, path []string) bool {
	return holds(value, path, func(v any) bool { return v != nil && !reflect.ValueOf(v).IsZero() })
}

// holds reports whether is is true of a value at the path of a document.
func holds(value any, path []string, is func(any) bool) bool {
	if len(path) == 0 {
		return is(value)
	}
	switch v := value.(type) {
	case map[string]any:
		if path[0] != "{}" {
			return holds(v[path[0]], path[1:], is)
		}
		for _, item := range v {
			if holds(item, path[1:], is) {
				return true
			}
		}
	case []any:
		for _, item := range v {
			if path[0] == "[]" && holds(item, path[1:], is) {
				return true
			}
		}
	}
	return false
}

// altered returns the document, written, with a change at each place of the path;
// false when it has none.
func altered(document map[string]any, path []string, change func(any) (any, bool)) ([]byte, bool) {
	if !found(document, path) {
		return nil, false
	}
	copied, err := asDocument(document)
	if err != nil {
		return nil, false
	}
	alter(copied, path, change)
	text, err := json.Marshal(copied)
	return text, err == nil
}

// alter changes each place of the path below a value.
func alter(value any, path []string, change func(any) (any, bool)) {
	each := func(key string, item any, set func(any), remove func()) {
		if path[0] != key || item == nil {
			return
		}
		if len(path) > 1 {
			alter(item, path[1:], change)
			return
		}
		if to, keep := change(item); keep {
			set(to)
		} else {
			remove()
		}
	}
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			at := key
			if path[0] == "{}" {
				at = "{}"
			}
			each(at, item, func(to any) { v[key] = to }, func() { delete(v, key) })
		}
	case []any:
		for i, item := range v {
			each("[]", item, func(to any) { v[i] = to }, func() { v[i] = nil })
		}
	}
}

// without leaves a field out.
func without(any) (any, bool) { return nil, false }

// other sets a field to another value of its type.
func other(value any) (any, bool) {
	switch v := value.(type) {
	case string:
		return v + "x", true
	case float64:
		return v + 1, true
	case bool:
		return !v, true
	}
	return value, true
}

// note appends to the file of this process.
func note(folder string, all []Shown) (err error) {
	file, err := os.OpenFile(filepath.Join(folder, fmt.Sprintf("%d.jsonl", os.Getpid())), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("note what rows show: %w", err)
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	for _, s := range all {
		if err := json.NewEncoder(file).Encode(s); err != nil {
			return fmt.Errorf("note what rows show: %w", err)
		}
	}
	return nil
}
