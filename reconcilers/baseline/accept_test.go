package baseline_test

import (
	"strings"
	"testing"

	"switchyard.dev/reconcilers/baseline"
)

func TestWorkloadsOfTheOperatorAndTheClusterAreNotForked(t *testing.T) {
	for name, c := range map[string]struct {
		namespace, operator string
		want                bool
	}{
		"one of users":                            {"shop", "signadot", true},
		"the operator's own":                      {"signadot", "signadot", false},
		"the operator's own, which is called so":  {"ops", "ops", false},
		"one called signadot beside the operator": {"signadot", "ops", true},
		"the cluster's own":                       {"kube-system", "signadot", false},
		"that of the nodes' leases":               {"kube-node-lease", "", false},
		"that which everybody reads":              {"kube-public", "", false},
		"where it is not known who the operator":  {"shop", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := baseline.AcceptNamespace("patches[0].target", c.namespace, c.operator)
			if f.IsTrue() != c.want {
				t.Errorf("it is %+v", f)
			}
			if !c.want && (f.Reason != baseline.ReasonNamespaceNotAllowed || !strings.Contains(f.Message, "patches[0].target is in namespace "+c.namespace)) {
				t.Errorf("it says %+v", f)
			}
		})
	}
}
