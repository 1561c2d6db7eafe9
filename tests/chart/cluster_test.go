package chart

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tools/wait"
)

func TestInARealAPIServer(t *testing.T) {
	server := startAPIServer(t, "shop", "pay", "asking", "declining", "disabled", "confined", "askingconfined", "restricted")
	t.Run("it takes every object", server.takesEveryObject)
	t.Run("it takes the control plane", server.takesTheControlPlane)
	t.Run("the webhook is asked about pods that ask and no others", server.asksTheWebhook)
	t.Run("all of an injected pod is restricted but what redirects", server.keepsInjectedPodsRestricted)
	t.Run("pods are created whatever the webhook does", server.createsPodsWhateverTheWebhookDoes)
	t.Run("service accounts may do their work and nothing else", server.limitsServiceAccounts)
	t.Run("the notes list the defaults that an earlier installation keeps", server.listsKeptDefaults)
	t.Run("a release is installed, upgraded and taken away", server.livesWithARelease)
}

func (s apiServer) takesEveryObject(t *testing.T) {
	defer s.withNamespaces(t)()
	known := map[string]bool{} // most objects are the same in most cases
	for name, values := range cases(t) {
		t.Run(name, func(t *testing.T) {
			for _, o := range mustRender(t, values) {
				text, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				if known[string(text)] {
					continue
				}
				known[string(text)] = true
				if err := s.apply(t.Context(), o, client.DryRunAll); err != nil {
					t.Errorf("%s: %v", title(o), err)
				}
			}
		})
	}
	for _, text := range s.warnings.texts {
		t.Errorf("the API server warns: %s", text)
	}
}

func (s apiServer) livesWithARelease(t *testing.T) {
	const confined = "allowedNamespaces: [shop]"
	notes := s.helm(t, confined, "install", "operator", chartDir, "--values=-")
	for _, says := range []string{"rollout status deployment/signadot-controller-manager", "helm uninstall operator -n signadot", "the namespaces shop"} {
		if !strings.Contains(notes, says) {
			t.Errorf("the notes do not say %q:\n%s", says, notes)
		}
	}
	if strings.Contains(notes, noEffect) {
		t.Errorf("the notes name values without effect, but none was given:\n%s", notes)
	}
	installed := mustRender(t, confined)
	s.expect(t, installed.withoutHooks(), true)
	s.expectManagerWorks(t, installed.podOf(t, "signadot-controller-manager"), []string{"shop", namespace})

	notes = s.helm(t, "commonLabels: {team: platform}\njobExecutor: {logLevel: debug}", "upgrade", "operator", chartDir, "--values=-")
	if !strings.Contains(notes, noEffect) || !strings.Contains(notes, "\n  jobExecutor.logLevel\n") {
		t.Errorf("the notes do not list jobExecutor.logLevel:\n%s", notes)
	}
	if err := s.kept(t.Context()); err != nil {
		t.Errorf("an upgrade undoes what the manager has written: %v", err)
	}
	upgraded := mustRender(t, "")
	s.expect(t, upgraded.withoutHooks(), true)
	if binding := installed.find("RoleBinding", "shop", "signadot-manager-namespaced"); s.has(t, binding) {
		t.Error("after an upgrade to all namespaces the binding of one is left")
	}
	for _, resource := range []string{"pods", "services", "apps/deployments"} {
		s.expectRight(t, right{"signadot-controller-manager", "watch", resource, "", true})
	}

	s.readEveryKind(t, upgraded)
	s.uninstalls(t, upgraded)
	s.expect(t, append(installed, upgraded...), false)
}

// readEveryKind lists the objects of every definition. In a cluster the garbage
// collector watches them all; here nobody does, and the API server takes long to
// remove a definition whose storage it has to open first.
func (s apiServer) readEveryKind(t *testing.T, all objects) {
	t.Helper()
	for _, o := range all.kind("CustomResourceDefinition") {
		definition := as[apiextensionsv1.CustomResourceDefinition](t, o)
		s.eventually(t, "objects of "+definition.Name+" can be listed", func() error {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion(definition.Spec.Group + "/" + definition.Spec.Versions[0].Name)
			list.SetKind(definition.Spec.Names.ListKind)
			return s.List(t.Context(), list)
		})
	}
}

// has reports whether the object exists.
func (s apiServer) has(t *testing.T, o *unstructured.Unstructured) bool {
	t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(o.GroupVersionKind())
	err := s.Get(t.Context(), client.ObjectKeyFromObject(o), live)
	if client.IgnoreNotFound(err) != nil {
		t.Fatalf("%s: %v", title(o), err)
	}
	return err == nil
}

// expect waits until every object is there, or none is.
func (s apiServer) expect(t *testing.T, all objects, there bool) {
	t.Helper()
	for _, o := range all {
		s.eventually(t, fmt.Sprintf("%s exists: %v", title(o), there), func() error {
			if s.has(t, o) != there {
				return errors.New("not yet")
			}
			return nil
		})
	}
}

func (s apiServer) limitsServiceAccounts(t *testing.T) {
	defer s.withNamespaces(t)()
	for _, o := range mustRender(t, "allowedNamespaces: [shop]") {
		if strings.Contains(o.GetKind(), "Role") {
			if err := s.apply(t.Context(), o); err != nil {
				t.Fatalf("%s: %v", title(o), err)
			}
			defer func() {
				if err := s.Delete(t.Context(), o); err != nil {
					t.Error(err)
				}
			}()
		}
	}
	const (
		manager  = "signadot-controller-manager"
		routes   = "routeserver"
		eventbus = "eventbus"
		server   = "io-context-server"
		api      = "tunnel-api"
		proxy    = "tunnel-proxy"
		link     = "signadot-agent"
	)
	for _, right := range []right{
		{manager, "create", "apps/deployments", "shop", true},
		{manager, "delete", "services", "shop", true},
		{manager, "list", "pods", "shop", true},
		{manager, "delete", "pods", "shop", true}, // Those of units.
		{manager, "create", "apps/deployments", "pay", false},
		{manager, "list", "services", "pay", false},
		{manager, "patch", "signadot.com/signadotsandboxes/status", "", true},
		{manager, "update", "coordination.k8s.io/leases:42470b05.signadot.com", namespace, true},
		{manager, "update", "coordination.k8s.io/leases:another", namespace, false},
		{manager, "update", "secrets:webhook-server-cert", namespace, true},
		{manager, "update", "secrets:routeserver-tls", namespace, true},
		{routes, "get", "secrets:routeserver-tls", namespace, false},
		{manager, "create", "secrets", "shop", true}, // Those with outputs of resources.
		{manager, "get", "secrets", "shop", false},
		{manager, "patch", "secrets", "shop", false},
		{manager, "get", "secrets", values, true},
		{manager, "update", "secrets:tunnel-api-keys", namespace, true},
		{manager, "delete", "secrets", "shop", false},
		{manager, "list", "secrets", "shop", false},
		{manager, "patch", "admissionregistration.k8s.io/mutatingwebhookconfigurations:" + webhookConfiguration, "", true},
		{manager, "patch", "admissionregistration.k8s.io/mutatingwebhookconfigurations:another", "", false},
		{manager, "patch", "admissionregistration.k8s.io/validatingwebhookconfigurations:signadot-validating-webhook-configuration", "", true},
		{manager, "patch", "admissionregistration.k8s.io/validatingwebhookconfigurations:another", "", false},
		{manager, "create", "authorization.k8s.io/subjectaccessreviews", "", true},
		{manager, "create", "authorization.k8s.io/localsubjectaccessreviews", "shop", false},
		{manager, "create", "rbac.authorization.k8s.io/clusterroles", "", false},
		{routes, "create", "authentication.k8s.io/tokenreviews", "", true},
		{routes, "get", "pods", "pay", true},
		{routes, "list", "pods", "pay", false},
		{routes, "list", "services", "pay", true},
		{routes, "create", "services", "pay", false},
		{routes, "delete", "pods", "pay", false},
		{routes, "list", "secrets", namespace, false},
		{routes, "update", "signadot.com/routingconfigs", "", false},
		{manager, "update", "secrets:io-context-tls", namespace, true},
		{server, "create", "authentication.k8s.io/tokenreviews", "", true},
		{server, "get", "signadot.com/signadotobjectlifecyclemethods", "", true},
		{server, "create", "secrets", values, true},
		{server, "get", "secrets", values, true},
		{server, "delete", "secrets", values, true},
		{server, "list", "secrets", values, false},
		{server, "get", "secrets", namespace, false},
		{server, "create", "secrets", namespace, false},
		{server, "delete", "secrets", namespace, false},
		{server, "update", "secrets:io-context-tls", namespace, false},
		{server, "get", "secrets", "shop", false},
		{server, "list", "signadot.com/signadotobjectlifecyclemethods", "", false},
		{server, "update", "signadot.com/signadotobjectlifecyclemethods/status", "", false},
		{manager, "update", "secrets:tunnel-tls", namespace, true},
		{api, "list", "services", "pay", true},
		{api, "get", "secrets:tunnel-api-keys", namespace, true},
		{api, "get", "secrets:tunnel-keys", namespace, false},
		{api, "update", "secrets:tunnel-keys", namespace, false},
		{api, "update", "secrets:tunnel-api-keys", namespace, false},
		{proxy, "get", "secrets:tunnel-api-keys", namespace, false},
		{api, "create", "secrets", namespace, false},
		{api, "create", "authorization.k8s.io/subjectaccessreviews", "", true},
		{api, "list", "signadot.com/signadotsandboxes", "", true},
		{api, "update", "signadot.com/signadotsandboxes", "", false},
		{api, "list", "secrets", namespace, false},
		{api, "get", "secrets:webhook-server-cert", namespace, false},
		{api, "get", "secrets", "shop", false},
		{proxy, "watch", "signadot.com/signadotexternalworkloads", "shop", true},
		{proxy, "get", "secrets:tunnel-keys", namespace, true},
		{proxy, "list", "discovery.k8s.io/endpointslices", "default", true},
		{proxy, "get", "secrets:tunnel-tls", namespace, false},
		{proxy, "create", "secrets", namespace, false},
		{proxy, "update", "signadot.com/signadotexternalworkloads/status", "shop", false},
		{proxy, "list", "discovery.k8s.io/endpointslices", "shop", true}, // since not everything may be reached
		{proxy, "list", "nodes", "", true}, {proxy, "get", "nodes", "", false},
		{proxy, "get", "serviceaccounts", "shop", true},
		{proxy, "list", "serviceaccounts", "shop", false},
		{proxy, "create", "serviceaccounts/token", "shop", false},
		{link, "create", "signadot.com/signadotsandboxes", "", true},
		{link, "update", "signadot.com/signadotsandboxes/status", "", false},
		{link, "list", "pods", "shop", true},
		{link, "list", "pods", "pay", false},
		{link, "get", "pods/log", "shop", false}, // since controlPlane.podLogAccess is off
		{link, "create", "pods/exec", "shop", false},
		{link, "get", "secrets", "shop", false},
		{link, "get", "secrets:cluster-token", namespace, false},
		{link, "list", "nodes", "", true}, {link, "get", "nodes", "", false},
		{link, "impersonate", "users", "", false},
		{link, "create", "serviceaccounts/token", namespace, false},
		{eventbus, "create", "authentication.k8s.io/tokenreviews", "", true},
		{eventbus, "list", "pods", namespace, false},
		{eventbus, "get", "secrets:webhook-server-cert", namespace, false},
	} {
		s.expectRight(t, right)
	}
}

// right is something a service account of ours may do, or may not. The resource
// is written [group/]resource[/subresource][:name].
type right struct {
	account, verb, resource, namespace string
	may                                bool
}

// expectRight checks a right. The API server learns of new roles through a
// watch, so one that is given may be a moment late; those that are not given
// come after one of the same account that is.
func (s apiServer) expectRight(t *testing.T, r right) {
	t.Helper()
	says := fmt.Sprintf("%s may %s %s in %q: %v", r.account, r.verb, r.resource, r.namespace, r.may)
	if !r.may && s.may(t, r) {
		t.Errorf("it is not so that %s", says)
	}
	if r.may {
		wait.Holds(t, says, func() bool { return s.may(t, r) })
	}
}

// may asks the API server about a right.
func (s apiServer) may(t *testing.T, r right) bool {
	t.Helper()
	resource, name, _ := strings.Cut(r.resource, ":")
	parts := strings.Split(resource, "/")
	if !strings.Contains(parts[0], ".") && parts[0] != "apps" {
		parts = append([]string{""}, parts...)
	}
	attributes := &authorizationv1.ResourceAttributes{Namespace: r.namespace, Verb: r.verb, Group: parts[0], Resource: parts[1], Name: name}
	if len(parts) > 2 {
		attributes.Subresource = parts[2]
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + namespace + ":" + r.account,
		Groups:             []string{"system:serviceaccounts", "system:authenticated"},
		ResourceAttributes: attributes,
	}}
	if err := s.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
