package table_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/controlplane-link/kubeapi/table"
)

// never are subresources and resources that no row may have for requests through the link.
var never = []string{"secrets", "nodes", "proxy", "exec", "attach", "portforward", "ephemeralcontainers", "token", "serviceaccounts", "impersonate"}

func parse(t *testing.T, method, path string) (table.Request, error) {
	t.Helper()
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return table.Request{}, err
	}
	return table.Parse(method, u)
}

func TestRequests(t *testing.T) {
	all := table.Policy{Operator: "signadot", PodLogs: true}
	narrow := table.Policy{Operator: "signadot", Namespaces: []string{"shop"}}
	for request, want := range map[string]struct {
		policy  table.Policy
		allowed bool
		object  string
	}{
		"GET /apis/signadot.com/v1/signadotsandboxes":              {all, true, "signadot.com/signadotsandboxes"},
		"GET /apis/signadot.com/v1/signadotsandboxes?watch=1":      {narrow, true, "signadot.com/signadotsandboxes"},
		"PATCH /apis/signadot.com/v1/signadotsandboxes/a":          {narrow, true, "signadot.com/signadotsandboxes/a"},
		"DELETE /apis/signadot.com/v1/signadotsandboxes/a":         {all, true, "signadot.com/signadotsandboxes/a"},
		"DELETE /apis/signadot.com/v1/signadotsandboxes":           {all, false, "signadot.com/signadotsandboxes"},
		"PUT /apis/signadot.com/v1/signadotsandboxes/a/status":     {all, false, "signadot.com/signadotsandboxes/a/status"},
		"GET /api/v1/namespaces":                                   {narrow, true, "namespaces"},
		"GET /api/v1/namespaces/shop":                              {narrow, true, "namespaces/shop"},
		"DELETE /api/v1/namespaces/shop":                           {all, false, "namespaces/shop"},
		"PUT /api/v1/namespaces/shop/finalize":                     {all, false, "shop/finalize"},
		"GET /api/v1/namespaces/shop/pods":                         {narrow, true, "shop/pods"},
		"GET /api/v1/namespaces/bank/pods":                         {narrow, false, "bank/pods"},
		"GET /api/v1/pods":                                         {narrow, false, "pods"},
		"HEAD /api/v1/pods":                                        {all, true, "pods"},
		"GET /api/v1/namespaces/shop/pods/a/log":                   {all, true, "shop/pods/a/log"},
		"GET /api/v1/namespaces/shop/pods/b/log":                   {narrow, false, "shop/pods/b/log"},
		"GET /api/v1/namespaces/shop/pods/a/exec":                  {all, false, "shop/pods/a/exec"},
		"POST /api/v1/namespaces/shop/pods/a/exec":                 {all, false, "shop/pods/a/exec"},
		"POST /api/v1/namespaces/shop/pods/a/attach":               {all, false, "shop/pods/a/attach"},
		"POST /api/v1/namespaces/shop/pods/a/portforward":          {all, false, "shop/pods/a/portforward"},
		"PATCH /api/v1/namespaces/shop/pods/a/ephemeralcontainers": {all, false, "shop/pods/a/ephemeralcontainers"},
		"GET /api/v1/namespaces/shop/pods/a/proxy/x":               {all, false, "shop/pods/a/proxy/x"},
		"GET /api/v1/namespaces/shop/services/a/proxy/x":           {all, false, "shop/services/a/proxy/x"},
		"GET /api/v1/nodes":                                        {all, false, "nodes"},
		"GET /api/v1/nodes/a/proxy/x":                              {all, false, "nodes/a/proxy/x"},
		"GET /api/v1/namespaces/shop/secrets":                      {all, false, "shop/secrets"},
		"GET /api/v1/secrets":                                      {all, false, "secrets"},
		"POST /api/v1/namespaces/shop/serviceaccounts/a/token":     {all, false, "shop/serviceaccounts/a/token"},
		"GET /apis/discovery.k8s.io/v1/endpointslices":             {all, false, "discovery.k8s.io/endpointslices"},
		"POST /apis/apps/v1/namespaces/shop/deployments":           {all, false, "apps/shop/deployments"},
		"GET /apis/apps/v1/namespaces/shop/deployments/a/scale":    {all, false, "apps/shop/deployments/a/scale"},
		"GET /apis/apps/v1/namespaces/shop/deployments/a":          {narrow, true, "apps/shop/deployments/a"},
		"GET /apis/signadot.com/v1":                                {all, true, ""},
		"GET /openapi/v3/apis/apps/v1":                             {all, true, ""},
		"POST /version":                                            {all, false, ""},
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews":  {all, false, "authorization.k8s.io/subjectaccessreviews"},
	} {
		method, path, _ := strings.Cut(request, " ")
		r, err := parse(t, method, path)
		if err != nil || want.policy.Allows(r) != want.allowed || r.Object() != want.object {
			t.Errorf("%s: %+v, %v", request, r, err)
		}
	}
	for _, request := range []string{
		"GET /api/v1/namespaces/shop/pods/", "GET //api/v1/pods", "GET /api/v1/../v1/secrets", "GET /api/v1/namespaces/shop%2Fpods", "GET /api/v1/pods/./a",
		"GET /api/v1/watch/pods", "GET /api/v1/proxy/nodes/a", "GET /metrics", "GET /logs/x", "GET /healthz", "GET /", "CONNECT /api/v1/pods/a", "OPTIONS /api/v1/pods",
	} {
		method, path, _ := strings.Cut(request, " ")
		if r, err := parse(t, method, path); err == nil {
			t.Errorf("%s: %+v", request, r)
		}
	}
}

// TestNoRowGivesMoreThanItMay checks the table itself: requests through the link never have these.
func TestNoRowGivesMoreThanItMay(t *testing.T) {
	for _, row := range table.Rows {
		if row.AgentOnly {
			continue
		}
		for _, resource := range row.Resources {
			for part := range strings.SplitSeq(resource, "/") {
				if slices.Contains(never, part) || part == "*" {
					t.Errorf("a row has %s", resource)
				}
			}
		}
		for _, v := range row.Verbs {
			reads := v == "get" || v == "list" || v == "watch"
			if v == "*" || v == "impersonate" || v == "escalate" || v == "bind" || v == "deletecollection" || !reads && row.Group != "signadot.com" {
				t.Errorf("a row has verb %s on %v", v, row.Resources)
			}
		}
	}
}

// TestRBACGivesWhatTheAllowListDoes compares both for random requests: the RBAC rules give every
// request that passes, and beyond those only what rows for the agent alone have.
func TestRBACGivesWhatTheAllowListDoes(t *testing.T) {
	var resources, groups []string
	for _, row := range table.Rows {
		resources = append(resources, row.Resources...)
		groups = append(groups, row.Group)
	}
	resources = append(resources, "secrets", "pods/exec")
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	rapid.Check(t, func(t *rapid.T) {
		logs := rapid.Bool().Draw(t, "logs")
		resource, sub, _ := strings.Cut(rapid.SampledFrom(resources).Draw(t, "resource"), "/")
		r := table.Request{Verb: rapid.SampledFrom(verbs).Draw(t, "verb"), Group: rapid.SampledFrom(groups).Draw(t, "group"), Resource: resource, Subresource: sub,
			Namespace: rapid.SampledFrom([]string{"shop", "signadot"}).Draw(t, "namespace"), Name: rapid.SampledFrom([]string{"a", "signadot-authority", "controlplane-keys"}).Draw(t, "name")}
		whole := resource
		if sub != "" {
			whole += "/" + sub
		}
		given := false
		for _, scope := range []table.Scope{table.Cluster, table.Namespaces, table.Operator} {
			for _, rule := range rules(scope, logs) {
				if scope == table.Operator && r.Namespace != "signadot" || len(rule.ResourceNames) > 0 && !slices.Contains(rule.ResourceNames, r.Name) {
					continue
				}
				given = given || slices.Contains(rule.APIGroups, r.Group) && slices.Contains(rule.Resources, whole) && slices.Contains(rule.Verbs, r.Verb)
			}
		}
		agent := slices.ContainsFunc(table.Rows, func(row table.Row) bool {
			return row.AgentOnly && row.Group == r.Group && slices.Contains(row.Resources, whole) && slices.Contains(row.Verbs, r.Verb)
		})
		passes := table.Policy{Operator: "signadot", PodLogs: logs}.Allows(r)
		if passes && !given || given && !passes && !agent {
			t.Fatalf("%+v: RBAC %t, allow-list %t", r, given, passes)
		}
	})
}

// TestVerbOfAWatch has the values that the API server takes for true and for false.
func TestVerbOfAWatch(t *testing.T) {
	for query, verb := range map[string]string{
		"": "list", "?watch": "watch", "?watch=": "watch", "?watch=1": "watch", "?watch=no": "watch", "?watch=0": "list", "?watch=False": "list", "?watch=0&watch=1": "list", "?watch=1&watch=0": "watch",
	} {
		if r, err := parse(t, "GET", "/api/v1/pods"+query); err != nil || r.Verb != verb {
			t.Errorf("%q is a %s, %v", query, r.Verb, err)
		}
	}
}
