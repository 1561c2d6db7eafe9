package table_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"switchyard.dev/controlplane-link/kubeapi/table"
	"switchyard.dev/tests/golden"
)

// TestThePageHasTheTable compares the table of the agent's guide.
func TestThePageHasTheTable(t *testing.T) {
	const page = "../../README.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begins = "table -update -->\n"
	before, _, is := strings.Cut(string(text), begins)
	if !is {
		t.Fatal("the page has no place for the table")
	}
	golden.Compare(t, page, before+begins+"\n"+table.Page())
}

// TestTheChartHasTheRules compares the agent's rights in the chart.
func TestTheChartHasTheRules(t *testing.T) {
	namespaces := table.Rules(table.Namespaces, nil)
	logs := table.Rules(table.Namespaces, table.Options{table.PodLogs})
	rules, err := yaml.Marshal(map[string][]rbacv1.PolicyRule{
		"cluster": table.Rules(table.Cluster, nil), "namespaces": namespaces, "podLogs": without(logs, namespaces), "operator": table.Rules(table.Operator, nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "../../../charts/operator/files/agent-rules.yaml", "# Generated from controlplane-link/kubeapi/table by its tests (-update). Do not edit.\n"+string(rules))
}

// without returns the rules of all that are not in some.
func without(all, some []rbacv1.PolicyRule) (out []rbacv1.PolicyRule) {
	for _, r := range all {
		if !slices.ContainsFunc(some, func(s rbacv1.PolicyRule) bool { return reflect.DeepEqual(r, s) }) {
			out = append(out, r)
		}
	}
	return out
}
