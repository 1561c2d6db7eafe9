// Package crd renders the chart's CustomResourceDefinitions without Helm, for
// every test that needs them in an API server; its own tests compare them with
// the published schemas (testdata/published.txt) and check in a real API server
// that objects written for those schemas are kept whole.
//
// The CRDs stand in the chart as templates, because they carry the user's
// common labels and annotations. They use nothing of Helm but .Values and
// quote, so Go's own template engine renders them.
package crd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"text/template"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Render returns the chart's CRDs, sorted by file name. root is the root folder
// of the repository; values are the chart's values, and nil means none.
func Render(root string, values map[string]any) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	paths, err := filepath.Glob(filepath.Join(root, "charts/operator/templates/crds/*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no CRDs below %s: write them with `go run -C tools/gen .`", root)
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, path := range paths {
		crd, err := renderFile(path, values)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, crd)
	}
	return out, nil
}

// Root finds the root folder of the repository, upwards from the working
// directory, which in a test is the folder of its package.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module switchyard.dev\n")) {
			return dir, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside the repository: no go.mod of module switchyard.dev in any folder above")
		}
	}
}

// renderFile renders one template and reads the CRD in it, refusing fields
// that CRDs do not have.
func renderFile(path string, values map[string]any) (*apiextensionsv1.CustomResourceDefinition, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	parsed, err := template.New(filepath.Base(path)).Funcs(functions()).Parse(string(text))
	if err != nil {
		return nil, err
	}
	all := map[string]any{"uninstall": map[string]any{"keep": true}} // As in values.yaml.
	maps.Copy(all, values)
	var rendered bytes.Buffer
	if err := parsed.Execute(&rendered, map[string]any{"Values": all}); err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, yaml.UnmarshalStrict(rendered.Bytes(), crd)
}

// functions are those of Helm's that the templates use.
func functions() template.FuncMap {
	return template.FuncMap{
		"quote": func(value any) string { return strconv.Quote(fmt.Sprint(value)) },
	}
}
