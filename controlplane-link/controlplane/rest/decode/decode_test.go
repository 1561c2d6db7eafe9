package decode

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNullIsUnsetAndItemsAreNot(t *testing.T) {
	body := Tree{"a": nil, "b": Tree{"c": nil, "d": []any{Tree{"e": nil}}}}
	if err := clean("", body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Tree{"b": Tree{"d": []any{Tree{}}}}, body); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for want, body := range map[string]Tree{
		"spec.forks[1] is null; remove it from the list": {"spec": Tree{"forks": []any{Tree{}, nil}}},
		"spec.description has a NUL character":           {"spec": Tree{"description": "a\x00"}},
		"spec.labels.a\x00 has a NUL character":          {"spec": Tree{"labels": Tree{"a\x00": "b"}}},
	} {
		if err := clean("", body); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestBodiesThatAreNoObject(t *testing.T) {
	var into struct {
		Name string `json:"name"`
	}
	for body, want := range map[string]string{
		"":                             "the body is not JSON: EOF",
		"{":                            "the body is not JSON: unexpected EOF",
		"[]":                           "the body must be a JSON object",
		"null":                         "the body must be a JSON object",
		`{"name":"a"} {}`:              "the body has more than one JSON value",
		`{"name":{}}`:                  "name must be text, not an object",
		strings.Repeat(" ", MaxBody+1): "the body has more than 2097152 bytes",
	} {
		if _, err := Object([]byte(body), &into); err == nil || err.Error() != want {
			t.Errorf("%.20q: %v, want %s", body, err, want)
		}
	}
	if _, err := Object([]byte(`{"name":"a","status":{"ready":1},"x":null}`), &into); err != nil || into.Name != "a" {
		t.Errorf("%+v, %v", into, err)
	}
}
