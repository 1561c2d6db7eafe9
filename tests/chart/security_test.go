package chart

import (
	"slices"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// grant is one rule, and where it comes from.
type grant struct {
	role *unstructured.Unstructured
	rule rbacv1.PolicyRule
}

// grants returns every rule of the chart.
func (all objects) grants(t testing.TB) []grant {
	t.Helper()
	var out []grant
	for _, o := range append(all.kind("ClusterRole"), all.kind("Role")...) {
		// A Role has the same rules in the same place.
		for _, rule := range as[rbacv1.ClusterRole](t, o).Rules {
			out = append(out, grant{o, rule})
		}
	}
	return out
}

// developer is the Role and the ClusterRole that administrators bind to developers.
const developer = "signadot-developer"

func rightsAreNarrow(t *testing.T, all objects) {
	for _, g := range all.grants(t) {
		for _, words := range [][]string{g.rule.APIGroups, g.rule.Resources, g.rule.Verbs, g.rule.NonResourceURLs, g.rule.ResourceNames} {
			if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, "*") }) {
				t.Errorf("%s has a wildcard: %v", title(g.role), g.rule)
			}
		}
		for _, verb := range []string{"escalate", "bind", "impersonate", "deletecollection"} {
			if slices.Contains(g.rule.Verbs, verb) {
				t.Errorf("%s may %s", title(g.role), verb)
			}
		}
		for _, resource := range []string{"nodes", "nodes/proxy", "pods/exec", "pods/attach", "pods/portforward", "serviceaccounts/token"} {
			// Developers come to tunnel proxies by a port-forward, and none of our programs does.
			if resource == "pods/portforward" && g.role.GetName() == developer && g.role.GetNamespace() == namespace {
				continue
			}
			// Tunnel proxies and the agent read the addresses of nodes to refuse them.
			if resource == "nodes" && g.role.GetName() == "signadot-tunnel-proxy" && slices.Equal(g.rule.Verbs, []string{"list", "watch"}) {
				continue
			}
			if resource == "nodes" && g.role.GetName() == "signadot-agent" && slices.Equal(g.rule.Verbs, []string{"list", "watch"}) {
				continue
			}
			if slices.Contains(g.rule.Resources, resource) {
				t.Errorf("%s reaches %s", title(g.role), resource)
			}
		}
	}
}

// What switchyard connect and switchyard job ask for, and kubectl port-forward service/tunnel-proxy, developers may; of
// other Services and of all Secrets they may read nothing. Jobs need no tunnels.
func TestDevelopersMayForwardAPort(t *testing.T) {
	for values, tunnels := range map[string]bool{"": true, "tunnel: {enabled: false}": false} {
		developersMay(t, mustRender(t, values), map[string]bool{
			"get services tunnel-proxy": tunnels, "get services routeserver": false,
			"list pods ": true, "get pods tunnel-proxy-0": true, "delete pods tunnel-proxy-0": false, "create pods/portforward tunnel-proxy-0": true,
			"get configmaps signadot-authority": true, "get deployments tunnel-proxy": tunnels, "get secrets tunnel-tls": false,
			"get deployments signadot-controller-manager": true, "get secrets job-runner-keys": false, "create pods/exec ": false,
		})
	}
}

// What switchyard traffic and override ask for beyond the rights of authors, developers may in all namespaces, with or without tunnels.
func TestDevelopersMayReadForks(t *testing.T) {
	for _, values := range []string{"", "tunnel: {enabled: false}"} {
		hasRights(t, mustRender(t, values), "ClusterRole", map[string]bool{
			"get signadotsandboxes pr-12": true, "list signadotsandboxes ": true, "get forkedworkloads cart-pr-12": true,
			"list forkedworkloads ": false, "patch forkedworkloads cart-pr-12": false, "patch signadotsandboxes pr-12": false, "create trafficcaptures ": false,
		})
	}
}

// developersMay checks the rights of the Role of developers.
func developersMay(t *testing.T, all objects, rights map[string]bool) {
	t.Helper()
	hasRights(t, all, "Role", rights)
}

// hasRights checks the rights of the role of developers of a kind.
func hasRights(t *testing.T, all objects, kind string, rights map[string]bool) {
	t.Helper()
	for right, want := range rights {
		words := strings.Split(right, " ")
		may := slices.ContainsFunc(all.grants(t), func(g grant) bool {
			return g.role.GetName() == developer && g.role.GetKind() == kind && slices.Contains(g.rule.Verbs, words[0]) && slices.Contains(g.rule.Resources, words[1]) &&
				(len(g.rule.ResourceNames) == 0 || slices.Contains(g.rule.ResourceNames, words[2]))
		})
		if may != want {
			t.Errorf("developers may %s: %t", right, may)
		}
	}
}

// Without what reads Endpoints of API v1 nobody needs a right to write them: only those of
// before, when they were asked for, are deleted.
func TestEndpointsAreWrittenOnlyWhereTheyAreAskedFor(t *testing.T) {
	for values, want := range map[string]bool{"": false, "sandboxes: {externalWorkloads: {writeEndpoints: true}}": true} {
		text, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		granted := slices.ContainsFunc(parse(t, text).grants(t), func(g grant) bool {
			return slices.Contains(g.rule.Resources, "endpoints") && slices.Contains(g.rule.Verbs, "patch")
		})
		if granted != want {
			t.Errorf("with %q somebody may write endpoints: %t", values, granted)
		}
	}
}

// What the Gateway API takes is there while one of its values says so: rights on its routes and
// on GatewayAPIRoutes, and the configuration.
func TestRoutesAreWrittenOnlyWhereTheGatewayAPIIsOn(t *testing.T) {
	for values, want := range map[string]string{
		"": "",
		"istio: {enabled: true, gatewayAPI: {preservedLabels: [a]}}":      "",
		"istio: {enabled: true, gatewayAPI: {enabled: true}}":             "istio",
		"istio: {gatewayAPI: {enabled: true}}\nallowedNamespaces: [shop]": "istio",
		"linkerd: {enabled: true, gatewayAPI: {enabled: true}}":           "linkerd",
		"linkerd: {enabled: true, gatewayAPI: {enabled: false}}":          "",
	} {
		text, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		all := parse(t, text)
		for resource, verb := range map[string]string{"httproutes": "delete", "grpcroutes": "create", "referencegrants": "list", "backendtlspolicies": "delete", "gatewayapiroutes": "create"} {
			may := slices.ContainsFunc(all.grants(t), func(g grant) bool {
				return slices.Contains(g.rule.Resources, resource) && slices.Contains(g.rule.Verbs, verb) && strings.HasPrefix(g.role.GetName(), "signadot-manager")
			})
			if may != (want != "") {
				t.Errorf("with %q the manager may %s %s: %t", values, verb, resource, may)
			}
		}
		if may := slices.ContainsFunc(all.grants(t), func(g grant) bool {
			return slices.Contains(g.rule.Resources, "httproutes") && slices.Contains(g.rule.Verbs, "delete") && strings.HasPrefix(g.role.GetName(), "signadot-drain")
		}); may != (want != "") {
			t.Errorf("with %q what runs before an uninstallation may delete routes: %t", values, may)
		}
		if has := strings.Contains(text, "implementation: "+want+"\n"); has != (want != "") {
			t.Errorf("with %q the configuration says that %s implements it: %t", values, want, has)
		}
	}
}

// What Istio takes is there while istio.enabled says so: rights on VirtualServices and
// IstioRoutes, and a webhook for VirtualServices beside those for pods or alone.
func TestVirtualServicesAreWrittenOnlyWhereIstioIsOn(t *testing.T) {
	type what struct{ virtualServices, istioRoutes, drain, webhook, pods bool }
	for values, want := range map[string]what{
		"":                       {pods: true},
		"istio: {enabled: true}": {true, true, true, true, true},
		"istio: {enabled: true}\ndisableSidecarInjector: true":                             {true, true, true, true, false},
		"istio: {enabled: true}\nallowedNamespaces: [shop]":                                {true, true, true, true, true},
		"istio: {enabled: true}\nuninstall: {keep: false}":                                 {true, true, true, true, true},
		"uninstall: {keep: false}":                                                         {pods: true},
		"istio: {additionalLabels: {a: b}}\nsandboxes: {authors: {ask: false}}":            {pods: true},
		"linkerd: {enabled: true}\ndisableSidecarInjector: false\nistio: {enabled: false}": {pods: true},
	} {
		text, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		all := parse(t, text)
		may := func(who, resource, verb string) bool {
			return slices.ContainsFunc(all.grants(t), func(g grant) bool {
				return slices.Contains(g.rule.Resources, resource) && slices.Contains(g.rule.Verbs, verb) && strings.HasPrefix(g.role.GetName(), who)
			})
		}
		got := what{virtualServices: may("signadot-manager", "virtualservices", "patch"), istioRoutes: may("signadot-manager", "istioroutes", "create"),
			drain: may("signadot-drain", "virtualservices", "patch")}
		if may("signadot-drain", "destinationrules", "delete") != got.drain {
			t.Errorf("with %q the right to delete DestinationRules is not as that to VirtualServices", values)
		}
		if o := all.find("MutatingWebhookConfiguration", "", webhookConfiguration); o != nil {
			for _, w := range as[registrationv1.MutatingWebhookConfiguration](t, o).Webhooks {
				if w.Name == "author.signadot.com" {
					continue // It concerns the operator's kinds alone.
				}
				got.webhook = got.webhook || w.Rules[0].Resources[0] == "virtualservices"
				got.pods = got.pods || w.Rules[0].Resources[0] == "pods"
				if *w.FailurePolicy != registrationv1.Ignore || *w.TimeoutSeconds > 2 {
					t.Errorf("with %q webhook %s may keep a write waiting: %s, %d s", values, w.Name, *w.FailurePolicy, *w.TimeoutSeconds)
				}
				if w.Rules[0].Resources[0] == "virtualservices" {
					seesVirtualServicesOf(t, w, strings.Contains(values, "allowedNamespaces"))
				}
			}
		}
		if got != want {
			t.Errorf("with %q: %+v, want %+v", values, got, want)
		}
	}
}

// seesVirtualServicesOf fails unless a webhook is asked about namespaces with people's workloads
// alone; confined: about some of those.
func seesVirtualServicesOf(t *testing.T, w registrationv1.MutatingWebhook, confined bool) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	if err != nil {
		t.Fatal(err)
	}
	for namespace, asked := range map[string]bool{"shop": true, "pay": !confined, "istio-system": !confined, "kube-system": false, "kube-node-lease": false, "signadot": false} {
		its := labels.Set{corev1.LabelMetadataName: namespace}
		if selector.Matches(its) != asked {
			t.Errorf("confined %t, webhook %s is asked about namespace %s: %t", confined, w.Name, namespace, !asked)
		}
		its["signadot.com/admission-webhooks"] = "disabled"
		if selector.Matches(its) {
			t.Errorf("webhook %s is asked about namespace %s, which opts out", w.Name, namespace)
		}
	}
}

// secretRights are the rights on Secrets that the chart gives: verbs and names by role and namespace.
var secretRights = map[string][]string{
	// Outputs of resources, under random names. A policy limits their types.
	"ClusterRole signadot-manager-namespaced": {"create"},
	"signadot Role signadot-manager-role": {
		"get patch update webhook-server-cert routeserver-tls eventbus-tls io-context-tls traffic-tls tunnel-tls",
		"list create delete", // for one release: values that an earlier one keeps here
		"get update tunnel-api-keys tunnel-keys", "get job-runner-keys",
	},
	// Values of units, which have names that are not known before, in a namespace without other Secrets.
	"signadot-values Role signadot-manager-values":    {"get list create delete"},
	"signadot-values Role signadot-io-context-server": {"get create delete"},
	"signadot-values Role signadot-drain-values":      {"list"},
	"signadot Role signadot-tunnel-api":               {"get tunnel-api-keys"},
	"signadot Role signadot-tunnel-proxy":             {"get tunnel-keys"},
}

func secretsAreReachedByName(t *testing.T, all objects) {
	for _, g := range all.grants(t) {
		if !slices.Contains(g.rule.Resources, "secrets") {
			continue
		}
		right := strings.Join(append(slices.Clone(g.rule.Verbs), g.rule.ResourceNames...), " ")
		if !slices.Contains(secretRights[title(g.role)], right) {
			t.Errorf("%s may %s Secrets", title(g.role), right)
		}
	}
}

func bindingsAreComplete(t *testing.T, all objects) {
	for _, o := range append(all.kind("ClusterRoleBinding"), all.kind("RoleBinding")...) {
		binding := as[rbacv1.RoleBinding](t, o)
		if binding.RoleRef.Name == developer {
			t.Errorf("%s gives somebody the rights of developers", title(o))
		}
		roleNamespace := ""
		if binding.RoleRef.Kind == "Role" {
			roleNamespace = o.GetNamespace()
		}
		if all.find(binding.RoleRef.Kind, roleNamespace, binding.RoleRef.Name) == nil {
			t.Errorf("%s: there is no %s %s", title(o), binding.RoleRef.Kind, binding.RoleRef.Name)
		}
		for _, subject := range binding.Subjects {
			if subject.Kind != "ServiceAccount" || all.find("ServiceAccount", subject.Namespace, subject.Name) == nil {
				t.Errorf("%s: there is no %s %s", title(o), subject.Kind, subject.Name)
			}
		}
	}
}

func TestAllowedNamespacesConfineTheManager(t *testing.T) {
	all := mustRender(t, "allowedNamespaces: [shop, pay]")
	for _, rights := range []string{"signadot-manager-namespaced", "signadot-drain-namespaced", "signadot-agent-namespaced", "signadot-traffic-manager-namespaced"} {
		if all.find("ClusterRoleBinding", "", rights) != nil {
			t.Errorf("the rights %s on other people's objects are still bound in the whole cluster", rights)
		}
		for _, ns := range []string{"shop", "pay", namespace, smartTests} {
			if all.find("RoleBinding", ns, rights) == nil {
				t.Errorf("no binding of %s in namespace %s", rights, ns)
			}
		}
	}
	again := mustRender(t, "allowedNamespaces: [shop, signadot]")
	if got := len(again.kind("RoleBinding")); got != len(all.kind("RoleBinding"))-4 {
		t.Errorf("%d RoleBindings when our namespace is in the list already: each should be there once", got)
	}
	for _, g := range all.grants(t) {
		if g.role.GetKind() == "ClusterRole" && g.role.GetName() != "signadot-manager-namespaced" &&
			strings.HasPrefix(g.role.GetName(), "signadot-manager") &&
			slices.ContainsFunc(g.rule.Resources, func(r string) bool { return r == "deployments" || r == "services" || r == "pods" }) {
			t.Errorf("%s reaches %v in the whole cluster", title(g.role), g.rule.Resources)
		}
	}
}

func podsAreLockedDown(t *testing.T, all objects) {
	for _, w := range append(all.workloads(t), all.jobs(t)...) {
		spec := w.template.Spec
		if spec.HostNetwork || spec.HostPID || spec.HostIPC {
			t.Errorf("%s shares something with its node", title(w.object))
		}
		if spec.SecurityContext == nil || spec.SecurityContext.RunAsUser == nil || *spec.SecurityContext.RunAsUser != 65532 {
			t.Errorf("%s does not run as user 65532", title(w.object))
		}
		for _, container := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
			security := container.SecurityContext
			if security == nil || security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
				t.Errorf("%s: container %s can write its root file system", title(w.object), container.Name)
			}
			if container.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: container %s has no memory limit", title(w.object), container.Name)
			}
		}
	}
}

// The Pod Security Standard itself is checked by the API server: see
// TestTheAPIServerTakesEveryObject.

func TestATokenIsMountedOnlyWhereNeeded(t *testing.T) {
	all := mustRender(t, "")
	accounts := map[string]bool{}
	for _, w := range append(all.workloads(t), all.jobs(t)...) {
		name := w.template.Spec.ServiceAccountName
		if accounts[name] || name == "" {
			t.Errorf("%s has no service account of its own", title(w.object))
		}
		accounts[name] = true
		account := as[corev1.ServiceAccount](t, all.find("ServiceAccount", namespace, name))
		if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
			t.Errorf("every pod of account %s gets a token without asking", name)
		}
	}
	if got := len(all.kind("ServiceAccount")); got != len(accounts) {
		t.Errorf("%d service accounts for %d workloads", got, len(accounts))
	}
}

func TestTheBusTokenIsForTheBusAlone(t *testing.T) {
	for _, w := range mustRender(t, "").workloads(t) {
		if name := w.object.GetName(); name == "eventbus" || slices.Contains(withoutBus, name) {
			continue
		}
		found := false
		for _, volume := range w.template.Spec.Volumes {
			if volume.Name != "eventbus-token" {
				continue
			}
			token := volume.Projected.Sources[0].ServiceAccountToken
			found = token != nil && token.Audience == "eventbus.signadot.svc" && token.Path == "eventbus" &&
				*token.ExpirationSeconds >= 600 && *token.ExpirationSeconds <= 3600
		}
		if !found {
			t.Errorf("%s has no short-lived token for the bus", title(w.object))
		}
	}
}

func TestPodsStartWithoutAClusterToken(t *testing.T) {
	for _, w := range mustRender(t, "").workloads(t) {
		for _, volume := range w.template.Spec.Volumes {
			if volume.Projected == nil {
				continue
			}
			for _, source := range volume.Projected.Sources {
				if source.Secret != nil && (source.Secret.Optional == nil || !*source.Secret.Optional) {
					t.Errorf("%s waits for Secret %s", title(w.object), source.Secret.Name)
				}
			}
		}
	}
}
