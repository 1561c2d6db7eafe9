package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/wait"
)

// What the API server warns of, such as a policy of the cluster, is for who writes.
func TestWarningsOfTheClusterAreShown(t *testing.T) {
	d := newDesk(t, "specs-warned")
	d.Make(&admissionv1.ValidatingAdmissionPolicy{}, `
metadata: {name: specs-warned}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: specs-warned}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "false", message: plugins are reviewed on Fridays}]
`)
	d.Make(&admissionv1.ValidatingAdmissionPolicyBinding{}, `
metadata: {name: specs-warned}
spec: {policyName: specs-warned, validationActions: [Warn]}
`)
	version := 0
	wait.Eventually(t, 30*time.Second, "the policy is in force, and its warning shown", func() error {
		version++
		file := d.write("db.yaml", strings.ReplaceAll(databasePlugin, "VERSION", fmt.Sprintf("1.0.%d", version)))
		code, _, errs := ask(t, append([]string{"resourceplugin", "apply", "-f", file}, d.args...)...)
		if code != exit.OK || !strings.Contains(errs, "Warning: ") || !strings.Contains(errs, "plugins are reviewed on Fridays") {
			return fmt.Errorf("exit code %d: %s", code, errs)
		}
		return nil
	})
}
