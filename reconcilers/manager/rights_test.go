package manager_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/conformance/crd"
)

// TestTheRightsOfTheChartAreEnough lives through a sandbox with the rights that
// are made from the markers in the code, and with those on the ConfigMap that
// the chart has to give by hand.
func TestTheRightsOfTheChartAreEnough(t *testing.T) {
	const ns = "rights"
	c := newCluster(t, ns)
	c.grant(c.operator())
	c.manage(manager.Config{REST: c.As("manager-of-rights")})

	base := c.baseline(ns, "a", withSidecar)
	c.pod(base, "a-h-1", corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: true})
	s, _, _ := c.ready("rights", "rights-key", ns, "a")
	var position corev1.ConfigMap
	c.Eventually("the position of the log is saved", func() error {
		return c.Client.Get(c.Context(), client.ObjectKey{Namespace: c.operator(), Name: publish.EpochConfigMap}, &position)
	})
	if position.Data["epoch"] == "" {
		t.Error("the ConfigMap that the chart makes is empty")
	}
	c.remove(s)
	c.Gone(s)
	c.nothingLeft(ns, "rights-key")

	job := &crdv1.Job{}
	c.Make(job, `{metadata: {name: rights}, spec: {runnerGroup: {namespace: ci, name: runners}, content: {}, canceled: false}}`)
	c.Condition(job, crdv1.ConditionAccepted, "Unknown", "NotSupportedYet")
	c.remove(job)

	w := c.external(ns, "outside", "")
	c.reports(w, "10.1.2.3", true, 0, 0)
	c.leads(ns, "outside", "10.1.2.3", true)
	c.reports(w, "10.1.2.3", false, 0, time.Hour)
	c.Gone(w)
	c.nothingLeads(ns, "outside")
}

// grant gives the manager's rights to the user manager-of-rights.
func (c *cluster) grant(ns string) {
	c.Helper()
	root, err := crd.Root()
	c.Must(err)
	written, err := os.ReadFile(filepath.Join(root, "charts/operator/files/manager-rules.yaml"))
	c.Must(err)
	var rules []rbacv1.PolicyRule
	c.Must(yaml.UnmarshalStrict(written, &rules))
	c.Grant("manager-of-rights", "", rules...)
	c.Grant("manager-of-rights", ns, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"configmaps"},
		ResourceNames: []string{publish.EpochConfigMap}, Verbs: []string{"get", "patch"},
	})
	c.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: publish.EpochConfigMap, Namespace: ns}})
}
