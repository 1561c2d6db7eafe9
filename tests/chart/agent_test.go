package chart

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/controlplane-link/agent"
)

func TestTheAgentTakesItsArguments(t *testing.T) {
	for values, want := range map[string]struct {
		address, ca, namespaces string
		system, services, logs  bool
		meshes                  string
		ports                   []uint32
		plain, noPreviews       bool
		previews, headers       string
	}{
		"": {address: agent.Published, services: true},
		"controlPlane: {tunnelAddr: 'link:7', ca: pem, proxy: disabled, podLogAccess: {enabled: true}}\nallowedNamespaces: [shop]": {
			address: "link:7", ca: "/etc/control-plane/ca.crt", namespaces: "shop,signadot,signadot-tests", logs: true},
		"controlPlane: {ca: system, proxy: enabled}":                         {address: agent.Published, system: true, services: true},
		"istio: {enabled: true, gatewayAPI: {enabled: true}}":                {address: agent.Published, services: true, meshes: "istio,gateway-api"},
		"linkerd: {enabled: true}":                                           {address: agent.Published, services: true, meshes: "linkerd"},
		"previewServer: {enabled: true, customDomain: previews.example.net}": {address: agent.Published, services: true, previews: "previews.example.net"},
		"previewServer: {enabled: false}":                                    {address: agent.Published, services: true, noPreviews: true},
		"routing: {customHeaders: [x-team, X-Other]}":                        {address: agent.Published, services: true, headers: "x-team,X-Other"},
		"previewServer: null":                                                {address: agent.Published, services: true},
		"agent: {ports: [80, 65535]}":                                        {address: agent.Published, services: true, ports: []uint32{80, 65535}},
		"controlPlane: {tunnelAddr: '127.0.0.1:7', tunnelTLS: false}":        {address: "127.0.0.1:7", services: true, plain: true},
		"controlPlane: {tunnelAddr: '[::1]:7', tunnelTLS: false}":            {address: "[::1]:7", services: true, plain: true},
	} {
		all := mustRender(t, values)
		spec := all.podOf(t, "agent")
		settings, err := agent.ParseSettings(spec.Containers[0].Args, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		c := settings.Configuration
		if settings.Address != want.address || settings.CA != want.ca || settings.SystemCA != want.system || c.GetServices() != want.services ||
			settings.TLS == want.plain || !settings.ReportUnknown || !slices.Equal(settings.Ports, want.ports) ||
			c.GetPreviewsDisabled() != want.noPreviews || c.GetPreviewDomain() != want.previews || strings.Join(c.GetRoutingHeaders(), ",") != want.headers || c.GetPodLogs() != want.logs || strings.Join(c.GetMeshes(), ",") != want.meshes || strings.Join(c.GetAllowedNamespaces(), ",") != want.namespaces || settings.Version == "" || settings.Namespace != namespace {
			t.Errorf("with %s it takes %+v", values, settings)
		}
		listensOn(t, spec, settings.HealthAddress, settings.MetricsAddress)
		mounted(t, spec, settings.TokenFile)
		if config := all.find("ConfigMap", namespace, "control-plane-ca"); (config != nil) != (want.ca != "") || config != nil && as[corev1.ConfigMap](t, config).Data["ca.crt"] != "pem" {
			t.Errorf("with %s the authorities are %v", values, config)
		}
		if delegates := as[corev1.ConfigMap](t, all.find("ConfigMap", namespace, "cluster-config")).Data["cluster_config.yaml"]; !strings.Contains(delegates, "account: system:serviceaccount:signadot:signadot-agent") || strings.Contains(delegates, "ca: ") {
			t.Errorf("with %s the agent is no delegate, or the authority is in the configuration:\n%s", values, delegates)
		}
	}
}

// TestTheAgentIsInstalledByDefault also shows that its rights on objects of namespaces are confined.
func TestTheAgentIsInstalledByDefault(t *testing.T) {
	for _, values := range []string{"", "agent: null", "agent: {enabled: null}", "agent: {clusterToken: s3cret}", "agent: {enabled: true}"} {
		if spec := mustRender(t, values).podOf(t, "agent"); strings.Contains(fmt.Sprint(spec), "s3cret") {
			t.Errorf("with %q the token is in the pod", values)
		}
	}
	for _, values := range []string{"disableAgent: true", "agent: {enabled: false}", "disableAgent: true\nagent: {enabled: true}\ncontrolPlane: {ca: pem, tunnelTLS: false}"} {
		for _, o := range mustRender(t, values) {
			if text, _ := o.MarshalJSON(); o.GetKind() != "CustomResourceDefinition" && (strings.Contains(o.GetName(), "agent") || strings.Contains(string(text), "system:serviceaccount:signadot:signadot-agent")) {
				t.Errorf("with %q there is %s", values, title(o))
			}
		}
	}
	twice := mustRender(t, "sandboxes: {authors: {delegates: [{account: 'system:serviceaccount:signadot:signadot-agent', prefix: 'other:'}, {account: 'system:serviceaccount:ci:bot', prefix: 'bot:'}]}}")
	config := as[corev1.ConfigMap](t, twice.find("ConfigMap", namespace, "cluster-config")).Data["cluster_config.yaml"]
	if strings.Count(config, "signadot:signadot-agent") != 1 || strings.Contains(config, "other:") || !strings.Contains(config, "bot:") {
		t.Errorf("the delegates are\n%s", config)
	}
	all := mustRender(t, "allowedNamespaces: [shop]")
	for _, where := range []string{"shop", namespace} {
		if all.find("RoleBinding", where, "signadot-agent-namespaced") == nil {
			t.Errorf("no binding in namespace %s", where)
		}
	}
	if all.find("ClusterRoleBinding", "", "signadot-agent-namespaced") != nil {
		t.Error("the rights are bound in the whole cluster")
	}
	for _, logs := range []bool{false, true} {
		values := ""
		if logs {
			values += "controlPlane: {podLogAccess: {enabled: true}}"
		}
		reads := slices.ContainsFunc(mustRender(t, values).grants(t), func(g grant) bool {
			return strings.HasPrefix(g.role.GetName(), "signadot-agent") && slices.Contains(g.rule.Resources, "pods/log")
		})
		if reads != logs {
			t.Errorf("it reads logs: %t", reads)
		}
	}
}

// TestPodsThatReachWorkloadsAreInTheMesh renders the labels and annotations by which a mesh injects its proxy: into
// the agent and the tunnel proxies, which connect to workloads, and into no other pod.
func TestPodsThatReachWorkloadsAreInTheMesh(t *testing.T) {
	const custom = "{istio.io/dataplane-mode: ambient, app: mine, control-plane: controller-manager}"
	const outward = "security.istio.io/tlsMode"
	outbound := map[string]string{"traffic.sidecar.istio.io/includeInboundPorts": ""}
	for values, want := range map[string]struct{ labels, annotations map[string]string }{
		"":                                       {},
		"istio: {enabled: true}":                 {map[string]string{"sidecar.istio.io/inject": "true", outward: "disabled"}, outbound},
		"istio: {operator: {podLabels: {a: b}}}": {},
		"istio: {enabled: true, operator: {podLabels: " + custom + "}}":                            {map[string]string{"istio.io/dataplane-mode": "ambient", outward: "disabled"}, outbound},
		"linkerd: {enabled: true}":                                                                 {annotations: map[string]string{"linkerd.io/inject": "enabled"}},
		"linkerd: {enabled: true, operator: {podAnnotations: {linkerd.io/inject: ingress, a: b}}}": {annotations: map[string]string{"linkerd.io/inject": "ingress", "a": "b"}},
	} {
		plain := mustRender(t, "")
		for _, w := range mustRender(t, values).workloads(t) {
			labels, annotations := maps.Clone(w.template.Labels), maps.Clone(w.template.Annotations)
			for _, p := range plain.workloads(t) {
				if p.object.GetName() == w.object.GetName() {
					maps.DeleteFunc(labels, func(key, value string) bool { return p.template.Labels[key] == value })
					maps.DeleteFunc(annotations, func(key, value string) bool {
						was, had := p.template.Annotations[key]
						return had && was == value || strings.HasSuffix(key, "checksum")
					})
				}
			}
			reaches := w.object.GetName() == "agent" || w.object.GetName() == "tunnel-proxy"
			if reaches && (!maps.Equal(labels, want.labels) || !maps.Equal(annotations, want.annotations)) || !reaches && len(labels)+len(annotations) > 0 {
				t.Errorf("with %s %s has labels %v and annotations %v", values, title(w.object), labels, annotations)
			}
		}
	}
	for _, w := range mustRender(t, "istio: {enabled: true}\npodLabels: {sidecar.istio.io/inject: 'false'}").workloads(t) {
		reaches := w.object.GetName() == "agent" || w.object.GetName() == "tunnel-proxy"
		if got := w.template.Labels["sidecar.istio.io/inject"]; got != strconv.FormatBool(reaches) {
			t.Errorf("where all other pods are excluded, the label of %s is %q", title(w.object), got)
		}
	}
}

// TestTheNotesDescribeTheAgent renders the notes without and with a token, at the published address and
// at another one.
func TestTheNotesDescribeTheAgent(t *testing.T) {
	const token, own = "controlPlane.clusterToken=s3cret", "controlPlane.tunnelAddr=link.example.com:443"
	s := startAPIServer(t)
	for name, c := range map[string]struct {
		set []string
		has []string
		not string
	}{
		"no token":                {nil, []string{"The agent is idle, and ready", "before Secret cluster-token has a token", "deployment/agent"}, "connects to the control plane at"},
		"the published address":   {[]string{token}, []string{"The server at tunnel.signadot.com:443", "sends it nothing", "every ten minutes"}, "kubectl -n signadot logs -l app=signadot-agent --prefix --tail=-1"},
		"an address of one's own": {[]string{token, own, "controlPlane.ca=pem"}, []string{"connects to the control plane at link.example.com:443", "kubectl -n signadot logs -l app=signadot-agent --prefix --tail=-1"}, "controlPlane.ca is empty"},
		"no authority":            {[]string{token, own}, []string{"controlPlane.ca is empty", "does not become ready"}, "every ten minutes"},
		"disabled":                {[]string{token, "disableAgent=true"}, []string{"The cluster token is in Secret cluster-token", "the agent is disabled"}, "deployment/agent"},
		"disabled, no token":      {[]string{"disableAgent=true"}, nil, "agent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, notes, err := s.install(t, set(c.set...)...)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range c.has {
				if !strings.Contains(strings.ToLower(strings.Join(strings.Fields(notes), " ")), strings.ToLower(part)) {
					t.Errorf("the notes lack %q:\n%s", part, notes)
				}
			}
			if strings.Contains(notes, c.not) || strings.Contains(notes, "s3cret") {
				t.Errorf("the notes have %q, or the token:\n%s", c.not, notes)
			}
		})
	}
}
