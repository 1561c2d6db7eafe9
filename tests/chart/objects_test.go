package chart

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/admission"
	"switchyard.dev/reconcilers/admission/forget"
	"switchyard.dev/reconcilers/admission/record"
)

// scopeless are the kinds in the chart that have no namespace.
var scopeless = []string{"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
	"Namespace", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

func objectsAreInOurNamespace(t *testing.T, all objects) {
	for _, o := range all {
		want := namespace
		if slices.Contains(scopeless, o.GetKind()) {
			want = ""
		}
		// The bindings of allowedNamespaces are an exception, and the rights in default: to
		// tell of objects without a namespace, and to read where API servers are.
		if o.GetKind() == "RoleBinding" && strings.HasSuffix(o.GetName(), "-namespaced") || o.GetName() == "signadot-manager-events" ||
			o.GetName() == "signadot-tunnel-proxy" && o.GetNamespace() == "default" {
			continue
		}
		if strings.HasSuffix(o.GetName(), "-values") && o.GetNamespace() == values || o.GetName() == "signadot-io-context-server" && o.GetNamespace() == values {
			continue // Rights on values of units.
		}
		if o.GetNamespace() != want {
			t.Errorf("%s is in namespace %q, want %q", title(o), o.GetNamespace(), want)
		}
		if o.GetKind() == "Namespace" && o.GetName() != values && o.GetName() != crdv1.SmartTestsNamespace {
			t.Errorf("%s: the chart makes no namespace but those of values and of Smart Tests", title(o))
		}
	}
}

// port is one port of a Service as people see it.
type port struct {
	name         string
	port, target int32
}

// services is the table of the published chart, for the parts that exist, with
// those that the published one lacks: the event bus, xDS on the route server, its peers, and the service of runners.
var services = map[string]struct {
	ports    []port
	selector map[string]string
	labelled bool // carries its selector as labels
	ignored  bool // is kept out of sandbox routing
}{
	"signadot-webhook-service":            {[]port{{"", 443, 9443}}, managerPods, false, false},
	"signadot-controller-manager":         {[]port{{"runners", 9444, 9444}}, managerPods, false, false},
	"signadot-controller-manager-metrics": {[]port{{"metrics", 9090, 8080}}, managerPods, true, false},
	"routeserver": {[]port{
		{"grpc", 7777, 7777}, {"http-api", 7778, 7778}, {"grpc-xds", 7779, 7779}}, app("routeserver"), true, true},
	"routeserver-peers":         {[]port{{"grpc", 7777, 7777}}, app("routeserver"), true, true},
	"routeserver-metrics":       {[]port{{"http-metrics", 9090, 9090}}, app("routeserver"), true, false},
	"io-context-server":         {[]port{{"", 8443, 8443}}, app("io-context-server"), true, true},
	"io-context-server-metrics": {[]port{{"metrics", 9090, 9090}}, app("io-context-server"), true, false},
	"tunnel-api":                {[]port{{"", 9070, 9070}}, app("tunnel-api"), true, true},
	"tunnel-api-metrics":        {[]port{{"metrics", 9090, 9090}}, app("tunnel-api"), true, false},
	"tunnel-proxy": {[]port{
		{"tcp-socks5", 1080, 1080}, {"tcp-revtun-ssh", 2222, 2222}, {"tcp-revtun-xap", 7777, 7777}}, app("tunnel-proxy"), true, true},
	"tunnel-proxy-metrics": {[]port{{"metrics", 9090, 9090}}, app("tunnel-proxy"), true, false},
	"traffic-manager":      {[]port{{"grpc", 7444, 7444}}, app("traffic-manager"), true, true},
	"agent-metrics":        {[]port{{"metrics", 9090, 9090}}, app("signadot-agent"), true, false},
	"eventbus":             {[]port{{"nats", 4222, 4222}}, app("eventbus"), true, true},
	"eventbus-metrics":     {[]port{{"metrics", 9090, 9090}}, app("eventbus"), true, false},
}

var managerPods = map[string]string{"control-plane": "controller-manager"}

func app(name string) map[string]string { return map[string]string{"app": name} }

func TestServicesHaveThePublishedPortsAndSelectors(t *testing.T) {
	all := mustRender(t, "")
	for name, want := range services {
		service := as[corev1.Service](t, all.find("Service", namespace, name))
		var ports []port
		for _, p := range service.Spec.Ports {
			ports = append(ports, port{p.Name, p.Port, p.TargetPort.IntVal})
		}
		if diff := cmp.Diff(want.ports, ports, cmp.AllowUnexported(port{})); diff != "" {
			t.Errorf("ports of %s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(want.selector, service.Spec.Selector); diff != "" {
			t.Errorf("selector of %s (-want +got):\n%s", name, diff)
		}
		if want.labelled && !maps.Equal(want.selector, service.Labels) {
			t.Errorf("labels of %s: %v, want %v", name, service.Labels, want.selector)
		}
		if ignored := service.Annotations["routing.signadot.com/ignore"] == "true"; ignored != want.ignored {
			t.Errorf("%s is kept out of routing: %v, want %v", name, ignored, want.ignored)
		}
	}
	if got := len(all.kind("Service")); got != len(services) {
		t.Errorf("%d Services, want the %d of the table", got, len(services))
	}
}

func TestWorkloadsHaveThePublishedNamesAndSelectors(t *testing.T) {
	want := map[string]map[string]string{
		"Deployment signadot-controller-manager": managerPods,
		"Deployment routeserver":                 app("routeserver"),
		"StatefulSet eventbus":                   app("eventbus"),
		"Deployment io-context-server":           app("io-context-server"),
		"Deployment traffic-manager":             app("traffic-manager"),
		"Deployment tunnel-api":                  app("tunnel-api"),
		"Deployment tunnel-proxy":                app("tunnel-proxy"),
		"Deployment agent":                       app("signadot-agent"),
	}
	got := map[string]map[string]string{}
	for _, w := range mustRender(t, "").workloads(t) {
		got[w.object.GetKind()+" "+w.object.GetName()] = w.selector
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("workloads and selectors (-want +got):\n%s", diff)
	}
}

func selectorsMeetOneWorkload(t *testing.T, all objects) {
	workloads := all.workloads(t)
	for _, w := range workloads {
		if !within(w.selector, w.template.Labels) {
			t.Errorf("%s does not select its own pods: %v", title(w.object), w.template.Labels)
		}
	}
	for _, o := range all.kind("Service") {
		service := as[corev1.Service](t, o)
		var chosen []workload
		for _, w := range workloads {
			if within(service.Spec.Selector, w.template.Labels) {
				chosen = append(chosen, w)
			}
		}
		if len(chosen) != 1 {
			t.Fatalf("%s selects the pods of %d workloads, want one", title(o), len(chosen))
		}
		for _, p := range service.Spec.Ports {
			if !listens(chosen[0].template.Spec, p.TargetPort) {
				t.Errorf("%s: nothing listens on its target port %s", title(o), p.TargetPort.String())
			}
		}
	}
}

// within reports whether all labels of a are in b.
func within(a, b map[string]string) bool {
	for key, value := range a {
		if b[key] != value {
			return false
		}
	}
	return len(a) > 0
}

// listens reports whether a container declares the port.
func listens(spec corev1.PodSpec, target intstr.IntOrString) bool {
	for _, container := range spec.Containers {
		for _, p := range container.Ports {
			if p.ContainerPort == target.IntVal || target.StrVal != "" && p.Name == target.StrVal {
				return true
			}
		}
	}
	return false
}

func containersAreProbed(t *testing.T, all objects) {
	for _, w := range all.workloads(t) {
		for _, container := range w.template.Spec.Containers {
			for sort, probe := range map[string]*corev1.Probe{"liveness": container.LivenessProbe, "readiness": container.ReadinessProbe} {
				if probe == nil || probe.HTTPGet == nil {
					t.Errorf("%s: no %s probe", title(w.object), sort)
				} else if !listens(w.template.Spec, probe.HTTPGet.Port) {
					t.Errorf("%s: %s probe on undeclared port %s", title(w.object), sort, probe.HTTPGet.Port.String())
				}
			}
		}
	}
}

func TestPodsRollWhenTheConfigurationTheyReadChanges(t *testing.T) {
	sums := func(values string) map[string]string {
		out := map[string]string{}
		for _, w := range mustRender(t, values).workloads(t) {
			if readsClusterConfig(w.template.Spec) {
				out[w.object.GetName()] = w.template.Annotations["cluster-config-checksum"]
			}
		}
		return out
	}
	before, after := sums(""), sums("routing: {customHeaders: [x-tenant]}")
	if want := []string{"routeserver", "signadot-controller-manager"}; !slices.Equal(slices.Sorted(maps.Keys(before)), want) {
		t.Fatalf("%v read cluster-config, want %v", slices.Sorted(maps.Keys(before)), want)
	}
	for name, sum := range before {
		if sum == "" || sum == after[name] {
			t.Errorf("%s: checksum %q before a change and %q after it", name, sum, after[name])
		}
	}
}

// readsClusterConfig reports whether a pod mounts ConfigMap cluster-config.
func readsClusterConfig(spec corev1.PodSpec) bool {
	for _, volume := range spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ConfigMap != nil && source.ConfigMap.Name == "cluster-config" {
				return true
			}
		}
	}
	return false
}

func TestCommonLabelsAreOnEveryObjectButThePublishedExceptions(t *testing.T) {
	all := mustRender(t, `
commonLabels: {team: platform}
commonAnnotations: {contact: us}
allowedNamespaces: [shop]
controlPlane: {clusterToken: secret}
networkPolicy: {enabled: true}
controllerManager: {podDisruptionBudget: {enabled: true}}
routeServer: {podDisruptionBudget: {enabled: true}}`)
	for _, o := range all {
		exception := o.GetName() == "cluster-config" || o.GetName() == "cluster-token" ||
			o.GetKind() == "RoleBinding" && (o.GetName() == "signadot-manager-namespaced" || o.GetName() == "signadot-agent-namespaced")
		has := o.GetLabels()["team"] == "platform" && o.GetAnnotations()["contact"] == "us"
		if has == exception {
			t.Errorf("%s carries the common label and annotation: %v, want %v", title(o), has, !exception)
		}
	}
	for _, w := range all.workloads(t) {
		if w.template.Labels["team"] != "platform" || w.template.Annotations["contact"] != "us" {
			t.Errorf("pods of %s carry no common label or annotation", title(w.object))
		}
		if _, in := w.selector["team"]; in {
			t.Errorf("%s: a common label is in the selector, which can never be changed", title(w.object))
		}
	}
	if len(all.kind("CustomResourceDefinition")) == 0 {
		t.Error("the chart has no CustomResourceDefinitions")
	}
}

func TestTheWebhookConfigurationIsAsHardAsItShouldBe(t *testing.T) {
	config := as[admissionv1.MutatingWebhookConfiguration](t,
		mustRender(t, "").find("MutatingWebhookConfiguration", "", "signadot-mutating-webhook-configuration"))
	if len(config.Webhooks) == 0 || config.Webhooks[0].Name != "sidecar-injector.signadot.com" {
		t.Fatalf("the first webhook is not sidecar-injector.signadot.com: %v", config.Webhooks)
	}
	for _, hook := range config.Webhooks {
		if hook.Name == "author.signadot.com" {
			continue
		}
		got := []any{hook.FailurePolicy, hook.TimeoutSeconds, hook.SideEffects, hook.ReinvocationPolicy, hook.MatchPolicy, hook.ClientConfig.CABundle}
		want := []any{new(admissionv1.Ignore), new(int32(2)), new(admissionv1.SideEffectClassNone),
			new(admissionv1.IfNeededReinvocationPolicy), new(admissionv1.Equivalent), []byte(nil)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: failure policy, timeout, side effects, reinvocation, match policy, CA bundle (-want +got):\n%s", hook.Name, diff)
		}
		service := hook.ClientConfig.Service
		if service == nil || service.Namespace != namespace || service.Name != "signadot-webhook-service" || !strings.HasPrefix(*service.Path, "/mutate-v1-pod") {
			t.Errorf("%s calls %+v", hook.Name, service)
		}
	}
}

func TestTheWebhookForAuthorsIsAsHardAsItShouldBe(t *testing.T) {
	const name = "signadot-validating-webhook-configuration"
	all := mustRender(t, "")
	config := as[admissionv1.ValidatingWebhookConfiguration](t, all.find("ValidatingWebhookConfiguration", "", name))
	if len(config.Webhooks) != 1 {
		t.Fatalf("there are %d webhooks", len(config.Webhooks))
	}
	hook := config.Webhooks[0]
	got := []any{hook.FailurePolicy, hook.TimeoutSeconds, hook.SideEffects, hook.MatchPolicy, hook.ClientConfig.CABundle, *hook.ClientConfig.Service.Path}
	want := []any{new(admissionv1.Fail), new(int32(5)), new(admissionv1.SideEffectClassNone), new(admissionv1.Equivalent), []byte(nil), admission.Path}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failure policy, timeout, side effects, match policy, CA bundle, path (-want +got):\n%s", diff)
	}
	var resources []string
	for kind := range admission.Kinds() {
		for _, o := range all.kind("CustomResourceDefinition") {
			if d := as[apiextensionsv1.CustomResourceDefinition](t, o); d.Spec.Names.Kind == kind {
				resources = append(resources, d.Spec.Names.Plural)
			}
		}
	}
	slices.Sort(resources)
	rule := hook.Rules[0]
	if len(hook.Rules) != 1 || !slices.Equal(rule.Resources, resources) || !slices.Equal(rule.Operations, []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}) {
		t.Errorf("it is called for %v; authors are asked about %v", hook.Rules, resources)
	}
	for _, a := range crdv1.SpecificationAnnotations() {
		if !strings.Contains(hook.MatchConditions[1].Expression, "'"+a+"'") {
			t.Errorf("a change of annotation %s does not call it", a)
		}
	}
	recording := as[admissionv1.MutatingWebhookConfiguration](t, all.find("MutatingWebhookConfiguration", "", webhookConfiguration)).Webhooks
	i := slices.IndexFunc(recording, func(w admissionv1.MutatingWebhook) bool { return w.Name == "author.signadot.com" })
	if i < 0 {
		t.Fatal("no webhook records authors")
	}
	records := recording[i]
	got = []any{records.FailurePolicy, records.TimeoutSeconds, records.SideEffects, records.MatchPolicy, records.ClientConfig.CABundle, *records.ClientConfig.Service.Path}
	want[5] = record.Path
	if diff := cmp.Diff(want, got); diff != "" || !cmp.Equal(records.Rules, hook.Rules) {
		t.Errorf("the webhook that records: failure policy, timeout, side effects, match policy, CA bundle, path (-want +got):\n%s", diff)
	}
	policy := as[admissionv1.ValidatingAdmissionPolicy](t, all.find("ValidatingAdmissionPolicy", "", forget.Policy))
	for _, a := range crdv1.AuthorAnnotations() {
		if !strings.Contains(records.MatchConditions[1].Expression, "'"+a+"'") || !strings.Contains(policy.Spec.Variables[3].Expression, "'"+a+"'") {
			t.Errorf("a change of annotation %s does not count for the webhook that records, or for the policy", a)
		}
	}
	for expression, list := range map[string][]string{
		hook.MatchConditions[1].Expression:    crdv1.SpecificationAnnotations(),
		records.MatchConditions[1].Expression: crdv1.AuthorAnnotations(), policy.Spec.Variables[3].Expression: crdv1.AuthorAnnotations(),
	} {
		if n := strings.Count(expression, "/"); n != len(list) {
			t.Errorf("%d annotations count in the chart, and %d in the program: %s", n, len(list), expression)
		}
	}
	without := mustRender(t, "sandboxes: {authors: {ask: false}}")
	if len(without) != len(all)-1 || without.find("ValidatingWebhookConfiguration", "", name) != nil {
		t.Error("it cannot be left out by itself")
	}
}

func TestTheSidecarInjectorCanBeLeftOut(t *testing.T) {
	const unasked = "\nsandboxes: {authors: {ask: false}}"
	with, without := mustRender(t, unasked), mustRender(t, "disableSidecarInjector: true"+unasked)
	if got := without.kind("MutatingWebhookConfiguration"); len(got) != 0 {
		t.Errorf("%d webhook configurations are left", len(got))
	}
	if len(with) != len(without)+1 {
		t.Errorf("%d objects with the injector and %d without: only the configuration should go", len(with), len(without))
	}
}

// withoutBus are the workloads that do not use the bus.
var withoutBus = []string{"agent", "io-context-server", "traffic-manager", "tunnel-api", "tunnel-proxy"}

func TestAnExternalBusReplacesTheEmbeddedOne(t *testing.T) {
	const url = "nats://nats.messaging.svc:4222"
	all := mustRender(t, "eventBus: {external: {url: '"+url+"'}}")
	for _, o := range all {
		if o.GetName() == "eventbus" || o.GetName() == "eventbus-metrics" || o.GetName() == "signadot-eventbus" {
			t.Errorf("%s is installed beside an external bus", title(o))
		}
	}
	for _, w := range all.workloads(t) {
		if slices.Contains(withoutBus, w.object.GetName()) {
			continue
		}
		if got := env(w.template.Spec, "EVENTBUS_URL"); got != url {
			t.Errorf("%s uses the bus at %q", title(w.object), got)
		}
		// A token of ours is nobody else's business.
		if !slices.Contains(w.template.Spec.Containers[0].Args, "--eventbus-token-file=") {
			t.Errorf("%s shows its token to another's bus", title(w.object))
		}
	}
}

// env returns the value of a variable in a pod's first container.
func env(spec corev1.PodSpec, name string) string {
	for _, v := range spec.Containers[0].Env {
		if v.Name == name && v.ValueFrom != nil && v.ValueFrom.FieldRef != nil {
			return "<" + v.ValueFrom.FieldRef.FieldPath + ">" // the kubelet knows
		}
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

func TestPartsThatDoNotExistGetNoObjects(t *testing.T) {
	published, err := os.ReadFile("testdata/published.values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := func(all objects) map[string]bool {
		out := map[string]bool{}
		for _, o := range all {
			out[title(o)] = true
		}
		return out
	}
	want := named(mustRender(t, "trafficManager: {enabled: false}")) // as the file has it
	want[title(&unstructured.Unstructured{Object: map[string]any{
		"kind": "Secret", "metadata": map[string]any{"name": "my-token", "namespace": namespace}}})] = true
	if diff := cmp.Diff(want, named(mustRender(t, string(published)))); diff != "" {
		t.Errorf("objects of a published values file (-want +got):\n%s", diff)
	}
}
