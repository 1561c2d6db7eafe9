package main

import (
	"strings"
	"testing"
)

const generatedCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.com
spec:
  schema:
    description: 'Use {{ .name }} here.'
    properties:
      podTemplate:
        description: Our own words.
        properties:
          description:
            description: A property that is called description.
            type: string
          spec:
            description: Words of Kubernetes.
            type: object
      other:
        description: Kept.
`

func TestChartCRDTrimsPodTemplatesOnly(t *testing.T) {
	out, err := chartCRD([]byte(generatedCRD))
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	for _, kept := range []string{"Our own words.", "description: Kept.", "          description:\n            type: string"} {
		if !strings.Contains(text, kept) {
			t.Errorf("%q is lost in\n%s", kept, text)
		}
	}
	for _, removed := range []string{"Words of Kubernetes", "A property that is called"} {
		if strings.Contains(text, removed) {
			t.Errorf("%q is still there", removed)
		}
	}
}

func TestChartCRDKeepsBracesFromTheTemplateEngine(t *testing.T) {
	out, err := chartCRD([]byte(generatedCRD))
	if err != nil {
		t.Fatal(err)
	}
	if want := `Use {{ "{{" }} .name }} here.`; !strings.Contains(string(out), want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

func TestChartCRDCarriesCommonLabelsBeforeTheName(t *testing.T) {
	out, err := chartCRD([]byte(generatedCRD))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nmetadata:\n" + chartMetadata + "  name: things.example.com\n"; !strings.Contains(string(out), want) {
		t.Errorf("the metadata is not as expected in\n%s", out)
	}
	if _, err := chartCRD([]byte("kind: Something\n")); err == nil {
		t.Error("a document without metadata was taken for a CRD")
	}
}
