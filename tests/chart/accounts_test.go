package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/golden"
)

// accounts are the operator's service accounts.
var accounts = []string{"eventbus", "io-context-server", "routeserver", "signadot-agent", "signadot-controller-manager", "signadot-drain", "traffic-manager", "tunnel-api", "tunnel-proxy"}

// values is the namespace of the values of units.
const values = "signadot-values"

// as returns a client with the rights of a service account of the operator.
func (s apiServer) as(t *testing.T, account string) client.Client {
	t.Helper()
	access := rest.CopyConfig(s.config)
	access.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	// With the mapper of the administrator, a client does not ask which kinds there are.
	c, err := client.New(access, client.Options{Mapper: s.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// attempt is a write of a service account. It is tried as a dry run, so that admission decides and
// nothing is stored.
type attempt struct {
	what, account, verb string
	// object is written, as YAML; of a patch it is the change, which is merged.
	object string
	may    bool
}

// try tries an attempt. The error is the API server's.
func (s apiServer) try(t *testing.T, a attempt) error {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(a.object), &o.Object); err != nil {
		t.Fatalf("%s: %v", a.what, err)
	}
	c := s.as(t, a.account)
	switch a.verb {
	case "create":
		return c.Create(t.Context(), o, client.DryRunAll)
	case "update":
		have := o.DeepCopy()
		if err := s.Get(t.Context(), client.ObjectKeyFromObject(o), have); err != nil {
			t.Fatalf("%s: %v", a.what, err)
		}
		o.SetResourceVersion(have.GetResourceVersion())
		return c.Update(t.Context(), o, client.DryRunAll)
	case "patch":
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return c.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", text), client.DryRunAll)
	case "delete":
		return c.Delete(t.Context(), o, client.DryRunAll)
	}
	t.Fatalf("%s: no verb %s", a.what, a.verb)
	return nil
}

// secret returns a Secret as YAML. more are further lines of it.
func secret(namespace, name, kind string, more ...string) string {
	return strings.Join(append([]string{"apiVersion: v1", "kind: Secret", "metadata:", "  namespace: " + namespace, "  name: " + name}, append(more, "type: "+kind)...), "\n")
}

// tokenOf returns a Secret that the token controller fills with the token of an account.
func tokenOf(namespace, account string) string {
	return secret(namespace, "token", "kubernetes.io/service-account-token", "  annotations: {kubernetes.io/service-account.name: "+account+"}")
}

// podAs returns a pod with a service account.
func podAs(namespace, account string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {namespace: %s, name: new}, spec: {serviceAccountName: %s, containers: [{name: c, image: i, securityContext:
  {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}}]}}`, namespace, account)
}

const (
	theManager = "signadot-controller-manager"
	drains     = "signadot-drain"
)

// output is a Secret with outputs of a Resource.
const output = "  ownerReferences: [{apiVersion: signadot.com/v1, kind: Resource, name: db, uid: u, controller: true}]\n  labels: {signadot.com/resource: db}"

// attempts are the writes that would make an account another one, and beside them those that the
// operator needs.
func attempts(t *testing.T) []attempt {
	const never, may = false, true
	all := []attempt{
		{"an output of a resource", theManager, "create", secret("shop", "db-x", "Opaque", output), may},
		{"a Secret that another program reads by its label", theManager, "create",
			secret("shop", "repository", "Opaque", strings.Replace(output, "signadot.com/resource: db", "argocd.argoproj.io/secret-type: cluster", 1)), never},
		{"a Secret of no resource", theManager, "create", secret("shop", "credentials", "Opaque"), never},
		{"a release of helm", theManager, "create", secret(namespace, "sh.helm.release.v1.a.v2", "helm.sh/release.v1"), never},
		{"a certificate of the operator", theManager, "create", secret(namespace, "new-tls", "kubernetes.io/tls", "stringData: {tls.crt: '', tls.key: ''}"), may},
		{"a value of a unit", "io-context-server", "create", secret(values, "io-1", "signadot.com/io-value"), may},
		{"a value of a unit by the manager", theManager, "create", secret(values, "io-1", "signadot.com/io-value"), may},
		{"another Secret among values", "io-context-server", "create", secret(values, "new", "Opaque"), never},
		{"a value beside the operator's keys", "io-context-server", "create", secret(namespace, "io-1", "signadot.com/io-value"), never},
		{"the key of the authority", "io-context-server", "delete", secret(namespace, "webhook-server-cert", "Opaque"), never},
		{"keys of tunnels by the manager", theManager, "create", secret(namespace, "tunnel-api-keys", "Opaque"), may},
		{"keys of tunnels", "tunnel-api", "create", secret(namespace, "tunnel-api-keys", "Opaque"), never},
		{"an owner of its keys that does not exist", "tunnel-api", "patch", secret(namespace, "webhook-server-cert", "Opaque", "  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: none, uid: none}]"), never},
		{"a Secret of another namespace", theManager, "patch", secret("shop", "other", "Opaque", "  labels: {a: b}"), never},
		{"a unit's pod", theManager, "create", podAs("shop", "default"), may},
		{"a unit's pod in the operator's namespace", theManager, "create", podAs(namespace, "default"), may},
		{"another image in a pod", theManager, "patch", "{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: other}, spec: {activeDeadlineSeconds: 9}}", never},
		{"another image in a pod, while uninstalling", drains, "patch", "{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: other}, spec: {activeDeadlineSeconds: 9}}", never},
		{"a finalizer of a pod", theManager, "patch", "{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: other, finalizers: null}}", may},
		{"a finalizer of a pod, while uninstalling", drains, "patch", "{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: other, finalizers: null}}", may},
		{"another program instead of tunnel-api", theManager, "patch", "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: signadot, name: tunnel-api}, spec: {template: {metadata: {labels: {a: b}}}}}", never},
		{"a workload of its own with another account", theManager, "create", `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: signadot, name: new}, spec: {selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {serviceAccountName: signadot-drain, containers: [{name: c, image: i}]}}}}`, never},
		{"a fork", theManager, "create", `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: new}, spec: {selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`, may},
		{"where tunnel-api is found", theManager, "patch", "{apiVersion: v1, kind: Service, metadata: {namespace: signadot, name: tunnel-api}, spec: {selector: {a: b}}}", never},
		{"an endpoint of tunnel-api", theManager, "create", "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: signadot, name: new, labels: {kubernetes.io/service-name: tunnel-api}}, addressType: IPv4, endpoints: []}", never},
		{"the Service of an endpoint of tunnel-api", theManager, "patch", "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: signadot, name: tunnel-api-x, labels: {kubernetes.io/service-name: null}}}", never},
		{"an endpoint of tunnel-api", theManager, "delete", "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: signadot, name: tunnel-api-x}}", never},
		{"an endpoint of an external workload", theManager, "delete", "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: signadot, name: outside-x}}", may},
		{"labels of a pod, so that it is an endpoint of eventbus", theManager, "patch", "{apiVersion: v1, kind: Pod, metadata: {namespace: signadot, name: other, labels: {app: eventbus}}}", never},
		{"labels of a pod, so that it is an endpoint of the webhooks", theManager, "patch", "{apiVersion: v1, kind: Pod, metadata: {namespace: signadot, name: other, labels: {control-plane: controller-manager}}}", never},
		{"labels of a pod of tunnel-api, so that it is no endpoint", theManager, "patch", "{apiVersion: v1, kind: Pod, metadata: {namespace: signadot, name: program, labels: {app: null}}}", never},
		{"other labels of a pod", theManager, "patch", "{apiVersion: v1, kind: Pod, metadata: {namespace: signadot, name: other, labels: {a: b}}}", may},
		{"an endpoint of an external workload", theManager, "create", "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: signadot, name: new, labels: {kubernetes.io/service-name: outside}}, addressType: IPv4, endpoints: []}", may},
		{"a Service of an external workload", theManager, "create", "{apiVersion: v1, kind: Service, metadata: {namespace: signadot, name: outside}, spec: {ports: [{port: 80}]}}", may},
		{"the authority that the API server trusts", theManager, "patch", webhooks(`{"clientConfig": {"caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg=="}}`), may},
		{"webhooks for the objects of others", theManager, "patch", webhooks(`{"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]}`), never},
		{"webhooks for the namespaces of the cluster", theManager, "patch", webhooks(`{"namespaceSelector": {}}`), never},
		{"a webhook elsewhere", theManager, "patch", webhooks(`{"clientConfig": {"service": null, "url": "https://a.example/"}}`), never},
		{"a pod of the cluster's namespace", theManager, "create", podAs("kube-system", "default"), never},
		{"an output in the cluster's namespace", theManager, "create", secret("kube-system", "db-x", "Opaque", output), never},
		{"a Service in the cluster's namespace", theManager, "create", "{apiVersion: v1, kind: Service, metadata: {namespace: kube-system, name: new}, spec: {ports: [{port: 80}]}}", never},
		{"a pod of the cluster", drains, "delete", "{apiVersion: v1, kind: Pod, metadata: {namespace: kube-system, name: other}}", never},
	}
	for _, o := range mustRender(t, "") {
		if selector, selects, _ := unstructured.NestedMap(o.Object, "spec", "selector"); o.GetKind() == "Service" && selects {
			labels, err := json.Marshal(selector)
			if err != nil {
				t.Fatal(err)
			}
			pod := strings.Replace(podAs(namespace, "default"), "name: new", "name: new, labels: "+string(labels), 1)
			all = append(all, attempt{"a pod that Service " + o.GetName() + " selects", theManager, "create", pod, never},
				attempt{"the selector of Service " + o.GetName(), theManager, "patch",
					"{apiVersion: v1, kind: Service, metadata: {namespace: signadot, name: " + o.GetName() + "}, spec: {selector: {a: b}}}", never})
		}
	}
	for _, account := range accounts {
		for _, ns := range []string{namespace, values, "shop", "kube-system"} {
			all = append(all, attempt{"the token of an account of " + ns, account, "create", tokenOf(ns, "default"), never},
				attempt{"the token of the manager in " + ns, account, "create", tokenOf(ns, theManager), never})
		}
		for _, other := range accounts {
			all = append(all, attempt{"a pod with the account " + other, account, "create", podAs(namespace, other), never})
		}
		all = append(all,
			attempt{"a binding", account, "create", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: new}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: []}", never},
			attempt{"a role", account, "patch", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: signadot-manager-role}, rules: []}", never},
			attempt{"a policy", account, "delete", "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: signadot-account-secrets}}", never},
			attempt{"an account", account, "create", "{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: signadot, name: new}}", never},
			attempt{"a namespace", account, "patch", "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, labels: {kubernetes.io/metadata.name: other}}}", never},
		)
	}
	return all
}

// webhooks returns a change of the first webhook of the mutating configuration, as the whole list
// that the chart renders.
func webhooks(change string) string { return "webhook:" + change }

// withWebhooks returns an attempt with its object written out.
func (s apiServer) withWebhooks(t *testing.T, a attempt) attempt {
	t.Helper()
	text, is := strings.CutPrefix(a.object, "webhook:")
	if !is {
		return a
	}
	have := &unstructured.Unstructured{}
	have.SetAPIVersion("admissionregistration.k8s.io/v1")
	have.SetKind("MutatingWebhookConfiguration")
	if err := s.Get(t.Context(), client.ObjectKey{Name: webhookConfiguration}, have); err != nil {
		t.Fatal(err)
	}
	all, _, _ := unstructured.NestedSlice(have.Object, "webhooks")
	var change map[string]any
	if err := yaml.Unmarshal([]byte(text), &change); err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		merge(w.(map[string]any), change)
	}
	written, err := yaml.Marshal(map[string]any{"apiVersion": have.GetAPIVersion(), "kind": have.GetKind(), "metadata": map[string]any{"name": have.GetName()}, "webhooks": all})
	if err != nil {
		t.Fatal(err)
	}
	a.object = string(written)
	return a
}

// merge writes a change into a map; null removes, a map without content replaces.
func merge(into, change map[string]any) {
	for key, value := range change {
		below, is := value.(map[string]any)
		have, has := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case is && has && len(below) > 0:
			merge(have, below)
		default:
			into[key] = value
		}
	}
}

// TestNoAccountBecomesAnother tries each write by which a service account of the operator would get
// the rights of another account, and those that it needs, at a real API server with the chart's roles
// and policies.
func TestNoAccountBecomesAnother(t *testing.T) {
	s := startAPIServer(t, "shop")
	s.installWithHooks(t, "")
	for _, object := range []string{secret("shop", "other", "Opaque"), secret("kube-system", "other", "Opaque"),
		"{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: other, finalizers: [a.example/b]}, spec: {containers: [{name: c, image: i}]}}",
		"{apiVersion: v1, kind: Pod, metadata: {namespace: kube-system, name: other}, spec: {containers: [{name: c, image: i}]}}",
		strings.Replace(podAs(namespace, "default"), "name: new", "name: other", 1),
		strings.Replace(podAs(namespace, "default"), "name: new", "name: program, labels: {app: tunnel-api}", 1),
		"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: signadot, name: tunnel-api-x, labels: {kubernetes.io/service-name: tunnel-api}}, addressType: IPv4, endpoints: []}",
		"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: signadot, name: outside-x, labels: {kubernetes.io/service-name: outside}}, addressType: IPv4, endpoints: []}",
	} {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(object), &o.Object); err != nil {
			t.Fatal(err)
		}
		s.eventually(t, title(o)+" exists", func() error { return client.IgnoreAlreadyExists(s.Create(t.Context(), o.DeepCopy())) })
	}
	all := attempts(t)
	for _, a := range all {
		if a.may { // Roles and policies are read through watches: a right may come late.
			s.eventually(t, a.account+" may "+a.verb+" "+a.what, func() error { return s.try(t, s.withWebhooks(t, a)) })
		}
	}
	s.eventually(t, "policies are enforced", func() error {
		err := s.try(t, attempt{"a token", theManager, "create", tokenOf(namespace, "default"), false})
		if err == nil {
			return fmt.Errorf("the manager creates a Secret with a token")
		}
		return nil
	})
	for _, a := range all {
		if a.may {
			continue
		}
		switch err := s.try(t, s.withWebhooks(t, a)); {
		case err == nil:
			t.Errorf("%s may %s %s", a.account, a.verb, a.what)
		case !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err):
			t.Errorf("%s may not %s %s, for another reason: %v", a.account, a.verb, a.what, err)
		}
	}
}

// installWithHooks installs the chart, and what its hooks have while they run.
func (s apiServer) installWithHooks(t *testing.T, with string) {
	t.Helper()
	s.helm(t, with, "install", "operator", chartDir, "--values=-")
	for _, o := range mustRender(t, with) {
		if hook := o.GetAnnotations()["helm.sh/hook"]; hook != "" && o.GetKind() != "Job" {
			if err := s.apply(t.Context(), o); err != nil {
				t.Fatalf("%s: %v", title(o), err)
			}
		}
	}
}

// TestRightsOfAccounts compares the rights that the API server reports for each service account in each
// kind of namespace with testdata/can-i.txt. Changes of that file are reviewed.
func TestRightsOfAccounts(t *testing.T) {
	var out strings.Builder
	for _, with := range []string{"", "allowedNamespaces: [shop]"} {
		s := startAPIServer(t, "shop", "pay")
		s.installWithHooks(t, with)
		s.eventually(t, "roles are enforced", func() error {
			if !s.may(t, right{drains, "list", "pods", "shop", true}) {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		fmt.Fprintf(&out, "# values: {%s}\n", with)
		everywhere := []string{namespace, values, "shop", "pay", "kube-system"}
		everyone := map[string]map[string]bool{}
		for _, ns := range everywhere {
			everyone[ns] = s.rulesOf(t, "nobody", ns)
		}
		for _, account := range accounts {
			for _, ns := range everywhere {
				if lines := s.rights(t, account, ns, everyone[ns]); len(lines) > 0 {
					fmt.Fprintf(&out, "%s in %s:\n", account, ns)
					for _, line := range lines {
						out.WriteString("  " + line + "\n")
					}
				}
			}
		}
	}
	golden.Compare(t, filepath.Join("testdata", "can-i.txt"), out.String())
}

// rights returns the rights of an account in a namespace, apart from those of every account. Lists of names
// stand in brackets.
func (s apiServer) rights(t *testing.T, account, namespace string, everyone map[string]bool) []string {
	t.Helper()
	its := s.rulesOf(t, account, namespace)
	maps.DeleteFunc(its, func(line string, _ bool) bool { return everyone[line] })
	return slices.Sorted(maps.Keys(its))
}

func (s apiServer) rulesOf(t *testing.T, account, namespace string) map[string]bool {
	t.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := s.as(t, account).Create(context.WithoutCancel(t.Context()), review); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if group != "" {
					resource = group + "/" + resource
				}
				if len(rule.ResourceNames) > 0 {
					resource += " [" + strings.Join(slices.Sorted(slices.Values(rule.ResourceNames)), " ") + "]"
				}
				out[resource+": "+strings.Join(slices.Sorted(slices.Values(rule.Verbs)), " ")] = true
			}
		}
	}
	return out
}
