package main

import (
	"strings"
	"testing"
)

func TestTheClientOfAControlPlaneComesFromItsDefinition(t *testing.T) {
	root := tree(t, map[string]string{controlPlaneDefinition: `openapi: 3.0.3
info: {title: things, version: v2}
paths:
  /things/{name}:
    put:
      operationId: applyThing
      parameters: [{name: name, in: path, required: true, schema: {type: string}}]
      requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/Thing"}}}}
      responses: {"200": {description: Success, content: {application/json: {schema: {$ref: "#/components/schemas/Thing"}}}}}
components:
  schemas:
    Thing:
      type: object
      required: [status]
      properties: {status: {type: string, readOnly: true}, ttl: {type: string}, names: {type: array, items: {type: string}}}
`})
	link(t, root+"/"+toolDir)
	files, err := controlPlane(root)
	if err != nil {
		t.Fatal(err)
	}
	code := string(files[controlPlaneCode])
	for _, line := range []string{"package controlplanev2", "ApplyThingWithResponse(", "Status string", "TTL    *string", "Names  []string"} {
		if !strings.Contains(code, line) {
			t.Errorf("no %q in\n%s", line, code)
		}
	}
	if !strings.Contains(string(files[controlPlaneDocument]), `"operationId":"applyThing"`) {
		t.Errorf("the document is\n%s", files[controlPlaneDocument])
	}
}

func TestABrokenDefinitionOfAControlPlaneIsNamed(t *testing.T) {
	root := tree(t, map[string]string{controlPlaneDefinition: "openapi: 3.0.3\nopenapi: 3.0.3\n"})
	if _, err := controlPlane(root); err == nil || !strings.Contains(err.Error(), controlPlaneDefinition) {
		t.Errorf("the error is %v, want one that names %s", err, controlPlaneDefinition)
	}
}
