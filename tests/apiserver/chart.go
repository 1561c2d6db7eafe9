package apiserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/conformance/crd"
)

// FromChart reads the only object of a kind that the chart renders with the values of one of
// the golden files in tests/chart, such as "default".
func FromChart(values, kind string, o any) error {
	root, err := crd.Root()
	if err != nil {
		return err
	}
	rendered, err := os.ReadFile(filepath.Join(root, "tests/chart/testdata", values+".out.yaml"))
	if err != nil {
		return err
	}
	for _, document := range bytes.Split(rendered, []byte("\n---\n")) {
		if bytes.Contains(document, []byte("\nkind: "+kind+"\n")) {
			return yaml.UnmarshalStrict(document, o)
		}
	}
	return fmt.Errorf("the chart has no %s", kind)
}
