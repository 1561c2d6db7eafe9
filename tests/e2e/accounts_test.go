package e2e

import (
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/tools/demo"
)

// An attacker that runs code in a program of the operator has its service account: with it no token of
// another account is obtained, and nothing is written in kube-system.
func TestNoProgramOfTheOperatorGetsAnotherAccount(t *testing.T) {
	for _, account := range []string{"io-context-server", "signadot-agent", "tunnel-api", "signadot-controller-manager"} {
		for _, namespace := range []string{"signadot", "signadot-values", "kube-system", "hotrod"} {
			manifest := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata":
				{"namespace": %q, "name": "stolen", "annotations": {"kubernetes.io/service-account.name": "default"}}}`, namespace)
			_, err := demo.Kubectl(t.Context(), manifest, "create", "-f", "-", "--as=system:serviceaccount:signadot:"+account)
			switch {
			case err == nil:
				t.Errorf("%s creates the token of an account of namespace %s", account, namespace)
				if _, err := demo.Kubectl(t.Context(), "", "delete", "secret", "stolen", "-n", namespace); err != nil {
					t.Error(err)
				}
			case !strings.Contains(err.Error(), "forbidden") && !strings.Contains(err.Error(), "must not write"):
				t.Errorf("%s in namespace %s: %v", account, namespace, err)
			}
		}
	}
}
