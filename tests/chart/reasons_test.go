package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/golden"
)

// allRights are values with which the service accounts have all rights that the chart can grant.
const allRights = `
istio: {enabled: true, gatewayAPI: {enabled: true}}
sandboxes: {externalWorkloads: {writeEndpoints: true}}
routeServer: {anonymous: namespace}
controlPlane: {podLogAccess: {enabled: true}}
`

// limitable is the mark of the ClusterRoles that allowedNamespaces limits to its namespaces.
const limitable = "-namespaced"

// granted is the right of a service account on one resource.
type granted struct {
	account string
	// resource has its group before a slash and, in brackets, the names to which the right is limited.
	// scope is where the right holds.
	resource, scope string
}

// written returns how testdata/reasons.yaml may write the resource, the most exact first.
func (g granted) written() []string {
	resource, _, _ := strings.Cut(g.resource, " ")
	return []string{g.resource, resource + " in " + strings.Trim(g.scope, "`"), resource}
}

// row is one row of the page: rights of an account for one reason.
type row struct{ account, scope, verbs, why string }

// reason is why an account has the rights on some resources.
type reason struct {
	Why       string   `json:"why"`
	Resources []string `json:"resources"`
}

// grantedRights returns the verbs of each right of each service account of the chart.
func grantedRights(t *testing.T, all objects) map[granted][]string {
	t.Helper()
	out := map[granted][]string{}
	for _, o := range append(all.kind("ClusterRoleBinding"), all.kind("RoleBinding")...) {
		binding := as[rbacv1.RoleBinding](t, o)
		scope, in := "cluster", ""
		if o.GetKind() == "RoleBinding" {
			scope, in = o.GetNamespace(), o.GetNamespace()
		} else if strings.HasSuffix(binding.RoleRef.Name, limitable) {
			scope = "`allowedNamespaces`"
		}
		role := all.find(binding.RoleRef.Kind, in, binding.RoleRef.Name)
		if role == nil {
			t.Fatalf("%s: there is no %s %s", title(o), binding.RoleRef.Kind, binding.RoleRef.Name)
		}
		for _, rule := range as[rbacv1.ClusterRole](t, role).Rules {
			for _, resource := range resourcesOf(rule) {
				for _, subject := range binding.Subjects {
					right := granted{subject.Name, resource, scope}
					out[right] = slices.Compact(slices.Sorted(slices.Values(append(out[right], rule.Verbs...))))
				}
			}
		}
	}
	return out
}

// resourcesOf returns the resources of a rule as granted has them.
func resourcesOf(rule rbacv1.PolicyRule) []string {
	var out []string
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			if group != "" {
				resource = group + "/" + resource
			}
			if len(rule.ResourceNames) > 0 {
				resource += " [" + strings.Join(slices.Sorted(slices.Values(rule.ResourceNames)), ", ") + "]"
			}
			out = append(out, resource)
		}
	}
	return out
}

// TestEveryRightHasAReason writes the page of rights. A right without a reason in testdata/reasons.yaml
// fails the test, as does a reason without a right.
func TestEveryRightHasAReason(t *testing.T) {
	why := readReasons(t)
	rights := grantedRights(t, mustRender(t, allRights))
	rows, used := map[row][]string{}, map[[2]string]bool{}
	for right, verbs := range rights {
		has := func(as string) bool { return why[[2]string{right.account, as}] != "" }
		i := slices.IndexFunc(right.written(), has)
		if i < 0 {
			t.Errorf("testdata/reasons.yaml has no reason why %s has %v on %s in %s", right.account, verbs, right.resource, right.scope)
			continue
		}
		key := [2]string{right.account, right.written()[i]}
		used[key] = true
		r := row{right.account, right.scope, strings.Join(verbs, ", "), why[key]}
		rows[r] = append(rows[r], right.resource)
	}
	for key := range why {
		if !used[key] {
			t.Errorf("testdata/reasons.yaml has a reason for %s of %s, which has no such right", key[1], key[0])
		}
	}
	golden.Compare(t, filepath.Join(chartDir, "rights.md"), rightsIntroduction+tables(rows))
}

// readReasons returns the reasons of testdata/reasons.yaml by account and resource.
func readReasons(t *testing.T) map[[2]string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "reasons.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var reasons map[string][]reason
	if err := yaml.UnmarshalStrict(text, &reasons); err != nil {
		t.Fatal(err)
	}
	out := map[[2]string]string{}
	for account, of := range reasons {
		for _, r := range of {
			for _, resource := range r.Resources {
				out[[2]string{account, resource}] = r.Why
			}
		}
	}
	return out
}

// tables returns a table for each account.
func tables(rows map[row][]string) string {
	var page strings.Builder
	account := ""
	for _, r := range slices.SortedFunc(maps.Keys(rows), func(a, b row) int {
		return slices.Compare([]string{a.account, a.scope, a.why, a.verbs}, []string{b.account, b.scope, b.why, b.verbs})
	}) {
		if r.account != account {
			account = r.account
			fmt.Fprintf(&page, "\n## %s\n\n| where | why | resources | verbs |\n| --- | --- | --- | --- |\n", account)
		}
		resources := slices.Sorted(slices.Values(rows[r]))
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", r.scope, r.why, strings.Join(resources, "<br>"), r.verbs)
	}
	return page.String()
}

const rightsIntroduction = `# Rights of the service accounts, with reasons

Generated from the rendered chart and ` + "`tests/chart/testdata/reasons.yaml`" + ` by
` + "`go test ./tests/chart -run EveryRightHasAReason -update`" + `. Do not edit.

These are all rights that the chart can grant: with Istio, the Gateway API, ` + "`writeEndpoints`" + `,
` + "`controlPlane.podLogAccess`" + ` and ` + "`routeServer.anonymous: namespace`" + `. ` + "`where`" + ` is the cluster, one namespace, or the namespaces of the value
` + "`allowedNamespaces`" + ` (all by default). Names in brackets limit a right to these objects. The account
` + "`signadot-drain`" + ` exists only while ` + "`helm uninstall`" + ` runs its Job.
[Permissions](permissions.md) describes what admission policies deny beyond that. Which requests of a control plane the
agent forwards is on [its page](../../controlplane-link/README.md#kubernetes-api).
`
