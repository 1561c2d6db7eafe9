// Package manifest reads the objects that a dry run is about from a file.
package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	yamlstream "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// mostObjects bounds how many objects one dry run is about.
const mostObjects = 100

// Objects returns the objects of the operator's kinds in a file, in order, and a sentence about each
// other object.
func Objects(text []byte) (objects []client.Object, passed []string, err error) {
	all, err := documents(text)
	if err != nil {
		return nil, nil, err
	}
	for _, u := range all {
		if u.GroupVersionKind().Group == crdv1.GroupVersion().Group {
			objects = append(objects, u)
			continue
		}
		passed = append(passed, fmt.Sprintf("%s %s of the file was passed over: a dry run is about objects of %s, in the cluster as it is",
			u.GetKind(), u.GetName(), crdv1.Group))
	}
	return objects, passed, nil
}

// documents reads objects in YAML or JSON, one in each document, or many in a List.
func documents(text []byte) (all []*unstructured.Unstructured, err error) {
	add := func(u *unstructured.Unstructured) error {
		if _, published := u.Object["name"].(string); published && u.GetName() == "" {
			return errors.New("the file is a specification and not an object of the cluster: use the output of switchyard sandbox render")
		}
		if u.GetKind() == "" || u.GetAPIVersion() == "" {
			return errors.New("the file contains a document that is not a Kubernetes object: apiVersion or kind is missing")
		}
		if all = append(all, u); len(all) > mostObjects {
			return fmt.Errorf("the file holds more than %d objects: a dry run is about so many at most", mostObjects)
		}
		return nil
	}
	for in := yamlstream.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		u := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.UnmarshalStrict(document, &u.Object)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("the file does not read as objects: %w", err)
		case len(u.Object) == 0:
			continue // Nothing but comments.
		case u.IsList():
			err = u.EachListItem(func(o runtime.Object) error { return add(o.(*unstructured.Unstructured)) })
		default:
			err = add(u)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the file holds no object")
	}
	return all, nil
}
