package kubeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"

	"sigs.k8s.io/yaml"

	"switchyard.dev/controlplane-link/kubeapi/table"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// errForm is the error of a body in which the author cannot be named.
var errForm = errors.New("the body's form is not supported for objects of " + crdv1.Group + ": use JSON, a merge patch or an apply patch")

const applyPatch = "application/apply-patch+yaml"

// authored returns the body of a write, as JSON, with its author. Bodies of other groups are
// returned as they are. Merge patches of none of the specification, owners and annotations that count
// as specification get no author: it is the user that last changed these. The webhooks would check
// such a change, without an author of its own, as one of the former author.
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
	case applyPatch, "application/yaml":
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
	if r.Verb == "patch" && form != applyPatch { // an apply patch removes the fields that it lacks
		if claims, err := claims(object); err != nil {
			return nil, err
		} else if !claims {
			return json.Marshal(object) // not the body: a key could be in it twice
		}
	}
	annotations, err := within(object, "metadata", "annotations")
	if err != nil {
		return nil, err
	}
	annotations[crdv1.AnnotationAuthor] = author.String()
	return json.Marshal(object)
}

// claims reports whether a merge patch changes what makes its user the author, or is checked as a
// change by the author.
func claims(patch map[string]any) (bool, error) {
	metadata, is := patch["metadata"].(map[string]any)
	if _, has := patch["metadata"]; has && !is {
		return false, errors.New("metadata is not an object")
	}
	annotations, is := metadata["annotations"].(map[string]any)
	if _, has := metadata["annotations"]; has && !is {
		return false, errors.New("annotations is not an object: delete annotations one by one")
	}
	if _, has := patch["spec"]; has || metadata["ownerReferences"] != nil {
		return true, nil
	}
	counted := append(crdv1.SpecificationAnnotations(), crdv1.AnnotationAuthor)
	return slices.ContainsFunc(counted, func(key string) bool { _, has := annotations[key]; return has }), nil
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
