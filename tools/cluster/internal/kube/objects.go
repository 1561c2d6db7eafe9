package kube

import (
	"bytes"
	"context"
	_ "embed" // the objects
	"fmt"
	"text/template"

	"sigs.k8s.io/yaml"

	"switchyard.dev/tools/cluster/internal/layout"
)

// Object is one object to be applied.
type Object struct {
	// Path is its place in the API.
	Path string `json:"path"`
	// Body is the object itself.
	Body object `json:"body"`
}

type object = map[string]any

//go:embed objects.yaml
var objects string

// Objects returns the objects of objects.yaml, which a cluster needs beyond those that the API
// server creates. It is pure.
func Objects(n layout.Node) ([]Object, error) {
	type volume struct{ Name, Dir string }
	var volumes []volume
	for i := range n.Volumes {
		volumes = append(volumes, volume{VolumeName(i), VolumeDir(n, VolumeName(i))})
	}
	of := map[string]any{"Node": n, "StorageClass": StorageClassName, "Volumes": volumes}
	var text bytes.Buffer
	var all []Object
	t, err := template.New("objects.yaml").Parse(objects)
	if err == nil {
		err = t.Execute(&text, of)
	}
	if err == nil {
		err = yaml.UnmarshalStrict(text.Bytes(), &all)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the objects of a cluster: %w", err)
	}
	return all, nil
}

// StorageClassName is the name of the default storage class.
const StorageClassName = "node"

// VolumeName is the name of a local volume and of its directory.
func VolumeName(i int) string { return fmt.Sprintf("%s-%02d", StorageClassName, i) }

// VolumeDir is the directory of the local volume with the given name.
func VolumeDir(n layout.Node, name string) string { return n.Dir("volumes", name) }

// ApplyAll applies the objects one after the other.
func (c *Client) ApplyAll(ctx context.Context, objects []Object) error {
	for _, o := range objects {
		if err := c.Apply(ctx, o.Path, o.Body); err != nil {
			return err
		}
	}
	return nil
}
