package chart

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// TestRightsOfTheControlPlanesUsers binds ClusterRoles to groups, and none by default.
func TestRightsOfTheControlPlanesUsers(t *testing.T) {
	const bindings = `
controlPlane:
  roleBindings:
    - {organisation: acme, role: dev, clusterRole: edit, namespaces: [shop, pay]}
    - {organisation: acme, clusterRole: view, namespaces: [shop]}
`
	groups := func(values string) map[string]string {
		out := map[string]string{}
		for _, o := range mustRender(t, values) {
			if o.GetKind() != "RoleBinding" || !strings.HasPrefix(o.GetName(), "signadot-controlplane-") {
				continue
			}
			b := as[rbacv1.RoleBinding](t, o)
			if b.RoleRef.Kind != "ClusterRole" || b.RoleRef.APIGroup != rbacv1.GroupName || len(b.Subjects) != 1 || b.Subjects[0].Kind != rbacv1.GroupKind || b.Subjects[0].APIGroup != rbacv1.GroupName {
				t.Errorf("%+v", b)
			}
			out[b.Namespace+" "+b.Subjects[0].Name] = b.RoleRef.Name
		}
		return out
	}
	got := groups(bindings)
	for key, role := range map[string]string{"shop switchyard:controlplane:acme:dev": "edit", "pay switchyard:controlplane:acme:dev": "edit", "shop switchyard:controlplane:acme": "view"} {
		if got[key] != role {
			t.Errorf("%s has %q", key, got[key])
		}
	}
	if len(got) != 3 || len(groups("")) != 0 || len(groups("disableAgent: true"+bindings)) != 0 {
		t.Errorf("the bindings are %v, by default %v, and without the agent %v", got, groups(""), groups("disableAgent: true"+bindings))
	}
	for _, wrong := range []string{
		"{organisation: acme, clusterRole: edit}", "{organisation: 'a:b', clusterRole: edit, namespaces: [shop]}", "{organisation: '', clusterRole: edit, namespaces: [shop]}",
		"{organisation: acme, role: '*', clusterRole: edit, namespaces: [shop]}", "{organisation: acme, clusterRole: edit, namespaces: []}", "{organisation: acme, clusterRole: edit, namespaces: ['*']}",
		"{clusterRole: edit, namespaces: [shop]}", "{organisation: acme, namespaces: [shop]}",
	} {
		if _, err := render(t, "controlPlane: {roleBindings: ["+wrong+"]}"); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
