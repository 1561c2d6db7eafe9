package apiserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/conformance/crd"
)

// FromChart reads the only object of a kind that the chart renders with the values of one of
// the golden files in tests/chart, such as "default".
func FromChart(values, kind string, o any) error {
	documents, err := rendered(values)
	if err != nil {
		return err
	}
	for _, document := range documents {
		if bytes.Contains(document, []byte("\nkind: "+kind+"\n")) {
			return yaml.UnmarshalStrict(document, o)
		}
	}
	return fmt.Errorf("the chart has no %s", kind)
}

// EachFromChart calls use with each object that the chart renders with such values, until one
// fails.
func EachFromChart(values string, use func(o *unstructured.Unstructured) error) error {
	documents, err := rendered(values)
	if err != nil {
		return err
	}
	for _, document := range documents {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return err
		}
		if err := use(o); err != nil {
			return err
		}
	}
	return nil
}

// AgentRules returns the rights of the agent in the chart, by their scope.
func AgentRules() (rules map[string][]rbacv1.PolicyRule, err error) {
	root, err := crd.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "charts/operator/files/agent-rules.yaml"))
	if err != nil {
		return nil, err
	}
	err = yaml.Unmarshal(text, &rules)
	return rules, err
}

func rendered(values string) ([][]byte, error) {
	root, err := crd.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "tests/chart/testdata", values+".out.yaml"))
	return bytes.Split(text, []byte("\n---\n")), err
}
