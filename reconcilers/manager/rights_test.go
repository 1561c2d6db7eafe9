package manager_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
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
	c := world(t, ns)
	c.grant(c.operator())
	config := manager.Config{REST: c.user("manager-of-rights")}
	c.manage(config)

	base := c.baseline(ns, "a", withSidecar)
	c.pod(base, "a-h-1", corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: true})
	s := c.sandbox("rights", forkOf("rights-key", ns, "a"))
	_, fork := c.fork(ns)
	c.available(fork)
	c.condition(s, crdv1.ConditionReady, "True", "Ready")
	var position corev1.ConfigMap
	c.eventually("the position of the log is saved", func() error {
		return c.client.Get(c.ctx, client.ObjectKey{Namespace: c.operator(), Name: publish.EpochConfigMap}, &position)
	})
	if position.Data["epoch"] == "" {
		t.Error("the ConfigMap that the chart makes is empty")
	}
	c.remove(s)
	c.gone(s)
	c.nothingLeft(ns, "rights-key")

	job := &crdv1.Job{}
	c.create(job, `{metadata: {name: rights}, spec: {runnerGroup: {namespace: ci, name: runners}, content: {}, canceled: false}}`)
	c.condition(job, crdv1.ConditionAccepted, "Unknown", "NotSupportedYet")
	c.remove(job)

	w := c.external(ns, "outside", "")
	c.reports(w, "10.1.2.3", true, 0, 0)
	c.leads(ns, "outside", "10.1.2.3", true)
	c.reports(w, "10.1.2.3", false, 0, time.Hour)
	c.gone(w)
	c.nothingLeads(ns, "outside")
}

// user returns a way to the API server as a user without any rights but those
// that are granted.
func (c *cluster) user(name string) *rest.Config {
	c.t.Helper()
	user, err := environment.AddUser(envtest.User{Name: name}, rest.CopyConfig(server))
	if err != nil {
		c.t.Fatal(err)
	}
	return user.Config()
}

// grant gives the manager's rights to the user manager-of-rights.
func (c *cluster) grant(ns string) {
	c.t.Helper()
	root, err := crd.Root()
	if err != nil {
		c.t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(root, "charts/operator/files/manager-rules.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	if err := yaml.UnmarshalStrict(written, &rules); err != nil {
		c.t.Fatal(err)
	}
	meta := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "manager-of-rights", Namespace: namespace}
	}
	to := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "manager-of-rights"}}
	position := rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"configmaps"},
		ResourceNames: []string{publish.EpochConfigMap}, Verbs: []string{"get", "patch"},
	}
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta(""), Rules: rules},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta(""), Subjects: to, RoleRef: roleRef("ClusterRole")},
		&rbacv1.Role{ObjectMeta: meta(ns), Rules: []rbacv1.PolicyRule{position}},
		&rbacv1.RoleBinding{ObjectMeta: meta(ns), Subjects: to, RoleRef: roleRef("Role")},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: publish.EpochConfigMap, Namespace: ns}},
	} {
		if err := c.admin().Create(c.ctx, o); err != nil {
			c.t.Fatal(err)
		}
	}
}

func roleRef(kind string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "manager-of-rights"}
}

// admin may do everything and knows the kinds of rights as well.
func (c *cluster) admin() client.Client {
	c.t.Helper()
	scheme, err := manager.Scheme()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := rbacv1.AddToScheme(scheme); err != nil {
		c.t.Fatal(err)
	}
	admin, err := client.New(server, client.Options{Scheme: scheme})
	if err != nil {
		c.t.Fatal(err)
	}
	return admin
}
