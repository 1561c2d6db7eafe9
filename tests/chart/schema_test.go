package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// schema is values.schema.json, or a part of it.
type schema map[string]any

func readSchema(t *testing.T, chart string) schema {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(content, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// typeOf returns the type of the value at a path, as the page of values shows it: the JSON types,
// or the accepted values.
func (s schema) typeOf(t *testing.T, path string) string {
	t.Helper()
	part := s
	for name := range strings.SplitSeq(path, ".") {
		properties, _ := part["properties"].(map[string]any)
		next, is := properties[name].(map[string]any)
		if !is {
			t.Errorf("values.schema.json does not describe %s", path)
			return ""
		}
		if part = next; part["$ref"] != nil {
			definitions := s["definitions"].(map[string]any)
			part = definitions[strings.TrimPrefix(part["$ref"].(string), "#/definitions/")].(map[string]any)
		}
	}
	return part.describe()
}

// describe returns the types or the accepted values of a part.
func (s schema) describe() string {
	if values, is := s["enum"].([]any); is {
		return each(values, "`%v`")
	}
	types, is := s["type"].([]any)
	if !is {
		types = []any{s["type"]}
	}
	return each(types, "%v")
}

// each formats values in a row of alternatives.
func each(values []any, format string) string {
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprintf(format, v))
	}
	return strings.Join(out, ", ")
}
