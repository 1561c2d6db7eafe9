package compile

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
)

// own returns the variables and files that a workload on a workstation adds to its baseline.
func (c *compilation) own(number int, l spec.Local) (out crdv1.LocalWorkload) {
	at := fmt.Sprintf("spec.local[%d]", number)
	for _, t := range c.containers(at, spec.Customizations{Env: l.Env}) {
		one := crdv1.LocalContainer{Name: t.name}
		for _, item := range t.env {
			one.Env = append(one.Env, item.(map[string]any))
		}
		out.Containers = append(out.Containers, one)
	}
	var places []string // without a file: empty
	for i, f := range l.Files {
		at := fmt.Sprintf("%s.files[%d]", at, i)
		place := c.place(at+".path", f.Path)
		taken := slices.IndexFunc(places, func(other string) bool { return within(place, other) || within(other, place) })
		if place != "" && taken >= 0 {
			c.problems.Add(at+".path", "is %q, which is where spec.local[%d].files[%d] is, or within it, or around it; move one of them", f.Path, number, taken)
		}
		places = append(places, place)
		out.Files = append(out.Files, c.file(at, f))
	}
	return out
}

// within reports whether a path is a folder, or in it. No path is in an empty one.
func within(p, folder string) bool {
	return folder != "" && (p == folder || strings.HasPrefix(p, folder+"/"))
}

// place returns the path of a file in the container; empty if it is invalid.
func (c *compilation) place(at, p string) string {
	place := path.Clean("/" + p)
	switch {
	case p == "":
		c.problems.Add(at, "is missing")
	case place == "/" || strings.HasSuffix(p, "/") || strings.ContainsRune(p, 0):
		c.problems.Add(at, "is %q, which is no path of a file", p)
	case slices.Contains(strings.Split(p, "/"), ".."):
		c.problems.Add(at, "is %q; a path has no ..", p)
	default:
		return place
	}
	return ""
}

// file returns a file for a workload on a workstation.
func (c *compilation) file(at string, f spec.FileOp) crdv1.LocalFile {
	out := crdv1.LocalFile{Path: f.Path}
	switch {
	case f.Value != nil && f.ValueFrom != nil:
		c.problems.Add(at, "has both value and valueFrom; remove one of them")
	case f.Value != nil:
		out.Value = escape(*f.Value)
	case f.ValueFrom != nil:
		item := map[string]any{}
		c.from(at+".valueFrom", "resource, configMap and secret",
			spec.EnvSource{Resource: f.ValueFrom.Resource, ConfigMap: f.ValueFrom.ConfigMap, Secret: f.ValueFrom.Secret}, item)
		_ = json.Unmarshal([]byte(written(item["valueFrom"])), &out.ValueFrom) // Without null fields.
	default:
		c.problems.Add(at, "has neither value nor valueFrom; give one of them")
	}
	return out
}
