package main

import (
	"bytes"
	"errors"
	"strings"

	"sigs.k8s.io/yaml"
)

// chartMetadata gives every CRD of the chart the labels and annotations that
// the user asks all objects to carry, and keeps it, with its objects, when the release
// goes, unless the user asks otherwise; values of an older release (helm upgrade
// --reuse-values) do not ask.
const chartMetadata = `  {{- with .Values.commonLabels }}
  labels:
    {{- range $key, $value := . }}
    {{ quote $key }}: {{ quote $value }}
    {{- end }}
  {{- end }}
  {{- $keep := ne (printf "%v" .Values.uninstall.keep) "false" }}
  {{- if or .Values.commonAnnotations $keep }}
  annotations:
    {{- if $keep }}
    helm.sh/resource-policy: keep
    {{- end }}
    {{- range $key, $value := .Values.commonAnnotations }}
    {{ quote $key }}: {{ quote $value }}
    {{- end }}
  {{- end }}
`

// chartHeader begins every CRD file. It is a template comment, so it does not
// reach the cluster.
const chartHeader = "{{- /* Generated from protos/crd/v1 by tools/gen. Do not edit. */ -}}\n"

// chartCRD turns a generated CustomResourceDefinition into a template of the
// chart. Three things happen: descriptions inside embedded pod templates go
// (they are Kubernetes' own documentation, 400 KB in each copy, and would take
// the objects beyond what kubectl and the release record can hold); braces of
// the schema are kept from the template engine; and the user's common labels
// and annotations are put in.
func chartCRD(generated []byte) ([]byte, error) {
	var crd map[string]any
	if err := yaml.Unmarshal(generated, &crd); err != nil {
		return nil, err
	}
	trimPodTemplates(crd)
	plain, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	name := []byte("\nmetadata:\n")
	before, after, found := bytes.Cut([]byte(escapeBraces(string(plain))), name)
	if !found {
		return nil, errors.New("the document has no metadata")
	}
	return bytes.Join([][]byte{[]byte(chartHeader), before, name, []byte(chartMetadata), after}, nil), nil
}

// escapeBraces makes text pass through the template engine unchanged.
func escapeBraces(text string) string {
	return strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
}

// trimPodTemplates removes the descriptions below every property called
// podTemplate; the property's own description stays.
func trimPodTemplates(schema any) {
	switch node := schema.(type) {
	case map[string]any:
		for key, value := range node {
			if template, ok := value.(map[string]any); ok && key == "podTemplate" {
				own := template["description"]
				trimDescriptions(template)
				if own != nil {
					template["description"] = own
				}
				continue
			}
			trimPodTemplates(value)
		}
	case []any:
		for _, item := range node {
			trimPodTemplates(item)
		}
	}
}

// trimDescriptions removes every description text below a schema node. A
// property that is itself called description is a map and stays.
func trimDescriptions(schema any) {
	switch node := schema.(type) {
	case map[string]any:
		if _, text := node["description"].(string); text {
			delete(node, "description")
		}
		for _, value := range node {
			trimDescriptions(value)
		}
	case []any:
		for _, item := range node {
			trimDescriptions(item)
		}
	}
}
