package crd_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"switchyard.dev/tests/conformance/crd"
)

// renderAll returns the chart's CRDs by kind.
func renderAll(t *testing.T, values map[string]any) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	root, err := crd.Root()
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := crd.Render(root, values)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, c := range rendered {
		out[c.Spec.Names.Kind] = c
	}
	return out
}

// node is one node of an OpenAPI schema. It is read from the written form, so
// that no key of a schema can be overlooked.
type node map[string]any

// generated returns the schema of a CRD's only version as a table.
func generated(t *testing.T, c *apiextensionsv1.CustomResourceDefinition) pathTable {
	t.Helper()
	written, err := json.Marshal(c.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	var root node
	if err := json.Unmarshal(written, &root); err != nil {
		t.Fatal(err)
	}
	out := pathTable{}
	out.flatten("", false, root)
	return out
}

// flatten puts a node and all below it into the table.
func (s pathTable) flatten(path string, required bool, n node) {
	facts := factsOf(n)
	if required {
		facts = append(facts, "required")
	}
	if strings.HasSuffix(path, ".podTemplate") {
		facts = slices.DeleteFunc(facts, func(fact string) bool { return fact == "object" })
		s.put(path, append(facts, podTemplate)...)
		return
	}
	s.put(path, facts...)
	if items, ok := n["items"].(map[string]any); ok {
		s.flatten(path+"[]", false, items)
	}
	if values, ok := n["additionalProperties"].(map[string]any); ok {
		s.flatten(path+"{}", false, values)
	}
	demanded, _ := n["required"].([]any)
	properties, _ := n["properties"].(map[string]any)
	for name, property := range properties {
		s.flatten(strings.TrimPrefix(path+"."+name, "."), slices.Contains(demanded, any(name)), property.(map[string]any))
	}
}

// factsOf returns what a node says about itself, in the words of the transcript.
// A key that the transcript has no word for is a fact too, so it is noticed.
func factsOf(n node) []string {
	var out []string
	for key, value := range n {
		switch key {
		case "description", "properties", "items", "additionalProperties", "required":
		case "type":
			out = append(out, fmt.Sprint(value))
		case "format", "pattern", "minLength", "maxLength", "minimum", "maximum":
			out = append(out, fmt.Sprintf("%s=%v", key, value))
		case "enum":
			out = append(out, "enum="+strings.Join(texts(value), "|"))
		case "default":
			text, _ := json.Marshal(value)
			out = append(out, "default="+string(text))
		case "x-kubernetes-preserve-unknown-fields":
			out = append(out, "preserveUnknown")
		case "x-kubernetes-validations":
			for _, rule := range value.([]any) {
				r := rule.(map[string]any)
				out = append(out, fmt.Sprintf("CEL %v msg=%q", r["rule"], r["message"]))
			}
		default:
			out = append(out, fmt.Sprintf("%s=%v", key, value))
		}
	}
	return out
}

// texts returns the items of a list as texts.
func texts(list any) []string {
	var out []string
	for _, item := range list.([]any) {
		out = append(out, fmt.Sprint(item))
	}
	return out
}
