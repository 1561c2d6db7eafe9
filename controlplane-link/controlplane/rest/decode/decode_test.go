package decode

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNullIsUnsetAndItemsAreNot(t *testing.T) {
	body := Tree{"a": nil, "b": Tree{"c": nil, "d": []any{Tree{"e": nil}}}}
	if p := clean(0, body); p != nil {
		t.Fatal(p)
	}
	if diff := cmp.Diff(Tree{"b": Tree{"d": []any{Tree{}}}}, body); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for want, body := range map[string]Tree{
		"spec.forks[1] is null; remove it from the list": {"spec": Tree{"forks": []any{Tree{}, nil}}},
		"spec.description has a NUL character":           {"spec": Tree{"description": "a\x00"}},
		"spec.labels.a\x00 has a NUL character":          {"spec": Tree{"labels": Tree{"a\x00": "b"}}},
	} {
		if p := clean(0, body); p == nil || p.Path+" "+p.Text != "."+want {
			t.Errorf("%v, want %s", p, want)
		}
	}
}

// Names of any length in any depth take no memory beside the body itself.
func TestDeepBodies(t *testing.T) {
	const levels = 10_000
	var into struct {
		A any `json:"a"`
	}
	name := strings.Repeat("n", 200)
	text := `{"a":` + strings.Repeat(`{"`+name+`":`, levels-1) + "1" + strings.Repeat("}", levels)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Object([]byte(text), &into)
	runtime.ReadMemStats(&after)
	if err == nil || err.Error() != "the body is nested deeper than 64 levels" {
		t.Errorf("%.300v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("a body of %d bytes takes %d bytes", len(text), used)
	}
	for depth, fits := range map[int]bool{64: true, 65: false} {
		text := `{"a":` + strings.Repeat(`[`, depth-1) + strings.Repeat("]", depth-1) + "}"
		if _, err := Object([]byte(text), &into); (err == nil) != fits {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

func TestBodiesThatAreNoObject(t *testing.T) {
	var into struct {
		Name string `json:"name"`
	}
	for body, want := range map[string]string{
		"":                "the body is empty; it must be JSON",
		"{":               "the body is not JSON: unexpected EOF",
		"[]":              "the body must be a JSON object",
		"null":            "the body must be a JSON object",
		`{"name":"a"} {}`: "the body has more than one JSON value",
		`{"name":{}}`:     "name must be text, not an object",
	} {
		if _, err := Object([]byte(body), &into); err == nil || err.Error() != want {
			t.Errorf("%.20q: %v, want %s", body, err, want)
		}
	}
	if _, err := Object([]byte(`{"name":"a","status":{"ready":1},"x":null}`), &into); err != nil || into.Name != "a" {
		t.Errorf("%+v, %v", into, err)
	}
}
