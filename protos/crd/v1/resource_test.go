package v1_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// The status names the Secrets with outputs, and no Secret that the operator did not name.
func TestTheStatusNamesSecretsOfTheOperatorOnly(t *testing.T) {
	for _, name := range []string{"sb-db", strings.Repeat("long.", 50) + "abc"} {
		r := &crdv1.Resource{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if got := r.OutputsSecret(); got != name {
			t.Errorf("without a record: %s", got)
		}
		given := crdv1.OutputsName(name, [8]byte{1, 0xab})
		if len(given) > crdv1.MaxObjectName || !strings.HasSuffix(given, "-01ab000000000000") {
			t.Errorf("a name is given: %s", given)
		}
		for recorded, want := range map[string]string{
			given: given, name: name, "": name, "admin-token": name, given + "0": name, given[:len(given)-1]: name,
			strings.TrimSuffix(given, "01ab000000000000") + "01AB000000000000": name, crdv1.OutputsName("other", [8]byte{}): name,
		} {
			r.Status.Outputs = &crdv1.ResourceOutputs{SecretName: recorded}
			if got := r.OutputsSecret(); got != want {
				t.Errorf("%q is recorded: %s", recorded, got)
			}
		}
	}
}
