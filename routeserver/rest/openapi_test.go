package rest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/protos"
	"switchyard.dev/routeserver/published"
)

// schema is a part of an OpenAPI document.
type schema struct {
	Ref        string            `json:"$ref"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
}

type document struct {
	Paths map[string]struct {
		Get struct {
			Parameters []struct {
				Name string `json:"name"`
			} `json:"parameters"`
		} `json:"get"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

// differences returns the fields of an answer's JSON that the schema does not describe, and those
// that it describes and the answer lacks.
func (d document) differences(at string, s schema, value any) (found []string) {
	if s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			found = append(found, d.differences(at+"[]", *s.Items, item)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			property, is := s.Properties[name]
			if !is {
				found = append(found, at+"."+name+" is not described")
				continue
			}
			found = append(found, d.differences(at+"."+name, property, value[name])...)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if _, is := value[name]; !is {
				found = append(found, at+"."+name+" is not sent")
			}
		}
	}
	return found
}

func TestTheOpenAPIDocumentDescribesThePublishedAPI(t *testing.T) {
	var d document
	if err := json.Unmarshal(protos.RoutesOpenAPI, &d); err != nil {
		t.Fatal(err)
	}
	var described []string
	for _, p := range d.Paths[rulesPath].Get.Parameters {
		described = append(described, p.Name)
	}
	slices.Sort(described)
	if known := slices.Sorted(maps.Keys(parameters(&published.Filter{}))); !slices.Equal(described, known) {
		t.Errorf("the document has parameters %q, the server reads %q", described, known)
	}
	answer, err := json.Marshal(map[string]any{"routingRules": []rule{{Mappings: []mapping{{Destinations: []location{{}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(answer, &value); err != nil {
		t.Fatal(err)
	}
	for _, difference := range d.differences("", d.Components.Schemas["WorkloadRoutingRules"], value) {
		t.Error(difference)
	}
}
