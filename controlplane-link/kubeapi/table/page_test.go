package table_test

import (
	"cmp"
	"fmt"
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
	golden.Compare(t, page, before+begins+"\n"+rows())
}

// rows returns the table as Markdown.
func rows() string {
	var b strings.Builder
	b.WriteString("| resources | group | verbs | where | through the link | with | for |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	where := map[table.Scope]string{table.Cluster: "the cluster", table.Namespaces: "the cluster, or `allowedNamespaces`", table.Operator: "namespace `signadot`"}
	for _, r := range table.Rows {
		link, with := "yes", ""
		if r.AgentOnly {
			link = "no"
		}
		what := strings.Join(r.Resources, ", ")
		if len(r.Names) > 0 {
			what += " `" + strings.Join(r.Names, "`, `") + "`"
		}
		if r.PodLogs {
			with = "`controlPlane.podLogAccess.enabled`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", what, cmp.Or(r.Group, "core"), strings.Join(r.Verbs, ", "), where[r.Scope], link, with, r.Why)
	}
	return b.String()
}

// rules returns the RBAC rules of a scope.
func rules(scope table.Scope, logs bool) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, r := range table.Rows {
		if r.Scope == scope && (logs || !r.PodLogs) {
			out = append(out, rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: r.Resources, ResourceNames: r.Names, Verbs: r.Verbs})
		}
	}
	return out
}

// TestTheChartHasTheRules compares the agent's rights in the chart.
func TestTheChartHasTheRules(t *testing.T) {
	namespaces := rules(table.Namespaces, false)
	logs := rules(table.Namespaces, true)
	text, err := yaml.Marshal(map[string][]rbacv1.PolicyRule{
		"cluster": rules(table.Cluster, false), "namespaces": namespaces, "podLogs": without(logs, namespaces), "operator": rules(table.Operator, false),
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "../../../charts/operator/files/agent-rules.yaml", "# Generated from controlplane-link/kubeapi/table by its tests (-update). Do not edit.\n"+string(text))
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
