package admission_test

import (
	"maps"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/admission"
	"switchyard.dev/reconcilers/manager"
)

// named returns annotations that name an author.
func named(annotations map[string]string, author crdv1.Author) map[string]string {
	all := map[string]string{crdv1.AnnotationAuthor: author.String()}
	maps.Copy(all, annotations)
	return all
}

// link gives the agent the right to write the operator's kinds, and the group of the linked user that
// user's rights.
func (c *cluster) link() {
	c.Helper()
	c.Grant(linkAgent, "", rbacv1.PolicyRule{Verbs: []string{"create", "update", "patch"}, APIGroups: []string{crdv1.Group}, Resources: []string{"*"}})
	group := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: linkedAs.Groups[1]}}
	for _, r := range linked().rights {
		meta := metav1.ObjectMeta{GenerateName: "linked-", Namespace: r.namespace}
		if r.namespace == "" {
			role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{r.rule}}
			c.Create(role)
			c.Create(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: group, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}})
			continue
		}
		role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{r.rule}}
		c.Create(role)
		c.Create(&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: group, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}})
	}
}

// reservesNames has users that the API server authenticates under names of a control plane's users.
func (c *cluster) reservesNames(t *testing.T) {
	c = c.in(t)
	for what, as := range map[string][]string{
		"a user":           {linkedAs.User, "system:authenticated"},
		"a user's group":   {"ada", "system:authenticated", linkedAs.Groups[0]},
		"an administrator": {linkedAs.User, "system:authenticated", "system:masters"},
	} {
		c.Grant(as[0], "", rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{crdv1.Group}, Resources: []string{"*"}})
		o, is := sandboxOf("", "", "").object(t, "reserved").(client.Object)
		if !is {
			t.Fatal("a sandbox is no object")
		}
		err := c.tries(func() error {
			return c.ClientWith(c.As(as[0], as[1:]...), manager.Scheme).Create(t.Context(), o.DeepCopyObject().(client.Object), client.DryRunAll)
		})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "reserved for users of a control plane") {
			t.Errorf("%s with such a name: %v", what, err)
		}
	}
}

// smartTests has runner groups and Jobs of Smart Tests, which only a control plane itself writes.
func (c *cluster) smartTests(t *testing.T) {
	c = c.in(t)
	for what, as := range map[string]struct {
		sender []string
		author crdv1.Author
		ok     bool
	}{
		"the control plane itself":    {[]string{linkAgent, "system:authenticated"}, crdv1.Author{User: "switchyard:controlplane:acme"}, true},
		"a user of the control plane": {[]string{linkAgent, "system:authenticated"}, linkedAs, false},
		"the agent without a user":    {[]string{linkAgent, "system:authenticated"}, crdv1.Author{}, false},
		"an administrator":            {[]string{"root", "system:authenticated", "system:masters"}, crdv1.Author{}, false},
	} {
		j := &crdv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "of-smart-tests"}}
		if as.author.User != "" {
			j.Annotations = named(nil, as.author)
		}
		j.Spec.RunnerGroup, j.Spec.Content.Command = crdv1.NamespacedName{Namespace: crdv1.SmartTestsNamespace, Name: "any"}, []string{"x"}
		err := c.tries(func() error {
			return c.ClientWith(c.As(as.sender[0], as.sender[1:]...), manager.Scheme).Create(t.Context(), j.DeepCopy(), client.DryRunAll)
		})
		if (err == nil) != as.ok || err != nil && !strings.Contains(err.Error(), "only a control plane writes it") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestNamesOfAControlPlaneAreReserved(t *testing.T) {
	d := admission.Delegates{{Account: linkAgent, Prefix: crdv1.ControlPlanePrefix}}
	for what, c := range map[string]struct {
		sender authenticationv1.UserInfo
		author crdv1.Author
		ok     bool
	}{
		"the agent for a user":           {authenticationv1.UserInfo{Username: linkAgent}, linkedAs, true},
		"the agent for another user":     {authenticationv1.UserInfo{Username: linkAgent}, crdv1.Author{User: "ada"}, false},
		"the agent for another group":    {authenticationv1.UserInfo{Username: linkAgent}, crdv1.Author{User: linkedAs.User, Groups: []string{"system:masters"}}, false},
		"a user with such a name":        {authenticationv1.UserInfo{Username: linkedAs.User}, crdv1.Author{}, false},
		"a user with such a name, named": {authenticationv1.UserInfo{Username: linkedAs.User}, linkedAs, false},
		"a user with such a group":       {authenticationv1.UserInfo{Username: "ada", Groups: linkedAs.Groups}, crdv1.Author{}, false},
		"a user with a name alike":       {authenticationv1.UserInfo{Username: "x-" + linkedAs.User}, crdv1.Author{}, true},
	} {
		var annotations map[string]string
		if c.author.User != "" {
			annotations = named(nil, c.author)
		}
		if _, _, err := d.AuthorOf(c.sender, annotations, nil); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}
