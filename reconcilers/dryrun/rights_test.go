package dryrun_test

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/dryrun"
)

// user returns a client of a user with only the granted rights; of the administrator for "". It has the
// scheme of the program.
func (c *cluster) user(name string) client.Client {
	c.Helper()
	return c.ClientWith(c.As(name), dryrun.Scheme)
}

// grant lets a user get and list: namespaced resources in the namespace of the
// test, others everywhere.
func (c *cluster) grant(user, group string, namespaced bool, resources ...string) {
	c.Helper()
	namespace := ""
	if namespaced {
		namespace = c.ns
	}
	c.Grant(user, namespace, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list"}})
}

func TestARightToReadIsEnoughAndOneThatLacksIsNamed(t *testing.T) {
	c := start(t, "dry-rights")
	c.baseline("a")
	s := c.sandbox("dry-rights", "dry-rights", "a")
	user := c.user("dry-reader")
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
	c.Eventually("the right is known", func() error { return user.List(t.Context(), &crdv1.RoutingConfigList{}) })
	lacks("deployments")
	c.grant("dry-reader", "", true, "services", "pods")
	c.grant("dry-reader", "apps", true, "deployments")
	c.grant("dry-reader", "policy", true, "poddisruptionbudgets")
	var mine dryrun.Plan
	c.Eventually("the rights are known", func() (err error) {
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
