package dryrun_test

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/dryrun"
)

// as returns a client of a user who has no rights but those that are granted.
func (c *cluster) as(user string) client.Client {
	c.t.Helper()
	access := rest.CopyConfig(server)
	access.Impersonate = rest.ImpersonationConfig{UserName: user}
	scheme, err := dryrun.Scheme()
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// grant lets a user get and list: namespaced resources in the namespace of the
// test, others everywhere.
func (c *cluster) grant(user, group string, namespaced bool, resources ...string) {
	c.t.Helper()
	scheme, err := dryrun.Scheme()
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
	rules := []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list"}}}
	to := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	name := user + "-" + resources[0]
	var role, binding client.Object
	if namespaced {
		role, binding = &rbacv1.Role{Rules: rules}, &rbacv1.RoleBinding{
			Subjects: to, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}
	} else {
		role, binding = &rbacv1.ClusterRole{Rules: rules}, &rbacv1.ClusterRoleBinding{
			Subjects: to, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}}
	}
	for _, o := range []client.Object{role, binding} {
		o.SetName(name)
		if namespaced {
			o.SetNamespace(c.ns)
		}
		if err := admin.Create(c.t.Context(), o); err != nil {
			c.t.Fatal(err)
		}
	}
}

func TestARightToReadIsEnoughAndOneThatLacksIsNamed(t *testing.T) {
	c := start(t, "dry-rights")
	c.baseline("a")
	s := c.sandbox("dry-rights", "dry-rights", "a")
	user := c.as("dry-reader")
	config := dryrun.Config{Reader: user}
	lacks := func(what string) {
		t.Helper()
		_, err := dryrun.Apply(t.Context(), config, s)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), what) {
			t.Errorf("without the right to read %s: %v", what, err)
		}
	}
	lacks("signadotsandboxes")
	c.grant("dry-reader", crdv1.GroupVersion().Group, false, "signadotsandboxes", "signadotroutegroups", "forkedworkloads",
		"signadotexternalworkloads", "virtualworkloads", "resources", "routingconfigs")
	c.eventually("the right is known", func() error { return user.List(t.Context(), &crdv1.RoutingConfigList{}) })
	lacks("deployments")
	c.grant("dry-reader", "", true, "services", "pods")
	c.grant("dry-reader", "apps", true, "deployments")
	c.grant("dry-reader", "policy", true, "poddisruptionbudgets")
	var mine dryrun.Plan
	c.eventually("the rights are known", func() (err error) {
		mine, err = dryrun.Apply(t.Context(), config, s)
		return err
	})
	admins, err := dryrun.Apply(t.Context(), c.config(), s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(after(nil, admins.Statements), after(nil, mine.Statements)); diff != "" || len(mine.Statements) != 2 {
		t.Errorf("the plans differ: %s", diff)
	}
	if err := user.Create(t.Context(), s.DeepCopy()); !apierrors.IsForbidden(err) {
		t.Errorf("the user may write: %v", err)
	}
}
