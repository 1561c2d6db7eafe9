package agent_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

// TestRequestsNeedTheUsersRight has users with the right to one verb each. The agent has all of them.
func TestRequestsNeedTheUsersRight(t *testing.T) {
	s := newSite(t)
	one := sandboxes + "/" + s.namespace
	s.Create(&crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Spec: crdv1.SignadotSandboxSpec{ID: s.namespace}})
	label := `{"metadata": {"labels": {"a": "b"}}}`
	requests := []struct{ verb, method, path, body, form string }{
		{"get", "GET", one, "", ""},
		{"list", "GET", sandboxes, "", ""},
		{"watch", "GET", sandboxes + "?watch=1&timeoutSeconds=1", "", ""},
		{"create", "POST", sandboxes + "?dryRun=All", sandbox(s.namespace+"-new", ""), "application/json"},
		{"patch", "PATCH", one, label, "application/merge-patch+json"},
		{"delete", "DELETE", one + "?dryRun=All", "", ""},
	}
	for _, user := range requests {
		name := user.verb + "-" + s.namespace
		s.Grant("switchyard:controlplane:acme:"+name, "", rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, Verbs: []string{user.verb}})
		for _, r := range requests {
			code, text := s.call(t, &linkv1.Caller{Name: name}, r.method, r.path, r.body, "Content-Type", r.form)
			switch {
			case r.verb == user.verb && code >= 300:
				t.Errorf("a user that may %s: %d, %s", user.verb, code, text)
			case r.verb != user.verb && (code != http.StatusForbidden || !strings.Contains(text, "may not "+r.verb+" signadot.com/signadotsandboxes") || !strings.Contains(text, "groups switchyard:controlplane:acme")):
				t.Errorf("a user that may %s, and not %s: %d, %s", user.verb, r.verb, code, text)
			}
		}
	}
	apply := "apiVersion: signadot.com/v1\nkind: SignadotSandbox\nmetadata: {name: " + s.namespace + "-applied}\nspec: {id: " + s.namespace + "-applied}\n"
	if code, text := s.call(t, &linkv1.Caller{Name: "patch-" + s.namespace}, "PATCH", one+"-applied?fieldManager=x", apply, "Content-Type", "application/apply-patch+yaml"); code != http.StatusForbidden || !strings.Contains(text, "may not create") {
		t.Errorf("a user that may patch, and not create, applies a new object: %d, %s", code, text)
	}
	for _, r := range requests {
		if code, text := s.call(t, &linkv1.Caller{}, r.method, r.path, r.body, "Content-Type", r.form); code >= 300 {
			t.Errorf("the control plane itself, %s: %d, %s", r.verb, code, text)
		}
	}
	if !strings.Contains(s.log.String(), `"verb":"delete","object":"signadot.com/signadotsandboxes/`+s.namespace) {
		t.Error("a refused deletion is not in the log")
	}
}

// TestRightsOfGroupsInANamespace binds a role of the organisation in one namespace.
func TestRightsOfGroupsInANamespace(t *testing.T) {
	s := newSite(t)
	eve := &linkv1.Caller{Name: "eve", Roles: []string{"ops-" + s.namespace}}
	pods := func(namespace string) (int, string) {
		return s.call(t, eve, "GET", "/api/v1/namespaces/"+namespace+"/pods", "")
	}
	if code, text := pods(s.namespace); code != http.StatusForbidden {
		t.Errorf("without a right: %d, %s", code, text)
	}
	ops := metav1.ObjectMeta{Namespace: s.namespace, Name: "ops"}
	s.Create(&rbacv1.Role{ObjectMeta: ops, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "namespaces"}, Verbs: []string{"get", "list"}}}})
	s.Create(&rbacv1.RoleBinding{ObjectMeta: ops, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "ops"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "switchyard:controlplane:acme:ops-" + s.namespace}}})
	s.Eventually("the right of the group", func() error {
		if code, text := pods(s.namespace); code != http.StatusOK {
			return fmt.Errorf("%d, %s", code, text)
		}
		return nil
	})
	if code, text := s.call(t, eve, "GET", "/api/v1/namespaces/"+s.namespace, ""); code != http.StatusOK {
		t.Errorf("the namespace itself: %d, %s", code, text)
	}
	if code, text := pods(s.operator); code != http.StatusForbidden {
		t.Errorf("in another namespace: %d, %s", code, text)
	}
	if code, text := s.call(t, eve, "GET", "/api/v1/pods", ""); code != http.StatusForbidden {
		t.Errorf("in all namespaces: %d, %s", code, text)
	}
	if code, text := s.call(t, eve, "GET", "/version", ""); code != http.StatusOK {
		t.Errorf("discovery: %d, %s", code, text)
	}
}
