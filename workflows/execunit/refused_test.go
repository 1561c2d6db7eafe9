package execunit_test

import (
	"strings"
	"testing"

	"switchyard.dev/workflows/execunit"
)

func TestARefusedPodNamesWhatToChange(t *testing.T) {
	for words, says := range map[string]string{
		`pods "x" is forbidden: failed quota: limits: must specify limits.cpu for: signadot-execunit-input-manager,signadot-execunit-output-manager`: "ioInit.resources and ioSidecar.resources of the chart set their resources",
		`pods "x" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=1, limited: pods=1`:                                              "raise that quota, or delete objects that it counts",
		`pods "x" is forbidden: maximum memory usage per Container is 128Mi, but limit is 256Mi`:                                                     "change that LimitRange",
		`pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot`:                                                              "or the Pod Security level of the namespace",
		`pods is forbidden: User "m" cannot create resource "pods" in API group "" in the namespace "n"`:                                             "allowedNamespaces of the chart",
		`pods "x" is forbidden: error looking up service account runners/maker: serviceaccount "maker" not found`:                                    "create that service account, or name another one in the pod template",
		"admission webhook \"a.b\" denied the request: no.  Ask ops.":                                                                                "change the pod template, or the policy that this message names",
	} {
		got := execunit.Refused(execunit.OwnerOf("drop"), "runners", words)
		if !strings.HasPrefix(got, `The API server refuses the pod of step "drop" in namespace runners (`) || !strings.Contains(got, says) || !strings.HasSuffix(got, "; the step then starts by itself.") {
			t.Errorf("%s", got)
		}
		if strings.Contains(strings.TrimSuffix(got, "."), ". ") {
			t.Errorf("more than one sentence: %s", got)
		}
	}
}
