package kubeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"

	"sigs.k8s.io/yaml"

	"switchyard.dev/controlplane-link/kubeapi/table"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// errForm is the error of a body in which the author cannot be named.
var errForm = errors.New("the body's form is not supported for objects of " + crdv1.Group + ": use JSON, a merge patch or an apply patch")

// authored returns the body of a write, as JSON, with its author. Bodies of other groups, and
// patches without a specification, are returned as they are: the author is the user that last changed
// the specification.
func authored(r table.Request, contentType string, body []byte, author crdv1.Author) ([]byte, error) {
	if r.Group != crdv1.Group || r.Verb == "delete" {
		return body, nil
	}
	form, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, errForm
	}
	switch form {
	case "application/json", "application/merge-patch+json":
	case "application/apply-patch+yaml", "application/yaml":
		if body, err = yaml.YAMLToJSONStrict(body); err != nil {
			return nil, fmt.Errorf("the body is not YAML: %w", err)
		}
	default:
		return nil, errForm
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	object := map[string]any{}
	if err := decoder.Decode(&object); err != nil {
		return nil, fmt.Errorf("the body is not an object of JSON: %w", err)
	}
	if decoder.More() {
		return nil, errors.New("the body has more than one object")
	}
	if _, has := object["spec"]; r.Verb == "patch" && !has {
		return body, nil
	}
	annotations, err := within(object, "metadata", "annotations")
	if err != nil {
		return nil, err
	}
	annotations[crdv1.AnnotationAuthor] = author.String()
	return json.Marshal(object)
}

// within returns the map at a path, and creates it.
func within(object map[string]any, path ...string) (map[string]any, error) {
	for _, key := range path {
		next, is := object[key].(map[string]any)
		if !is && object[key] != nil {
			return nil, fmt.Errorf("%s is not an object", key)
		}
		if !is {
			next = map[string]any{}
			object[key] = next
		}
		object = next
	}
	return object, nil
}
