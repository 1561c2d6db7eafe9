package chart

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/controlplane-link/agent"
)

const withAgent = "agent: {enabled: true}\n"

func TestTheAgentTakesItsArguments(t *testing.T) {
	for values, want := range map[string]struct {
		address, ca, namespaces string
		system, services, logs  bool
		meshes                  string
	}{
		withAgent: {address: agent.Published, services: true},
		withAgent + "controlPlane: {tunnelAddr: 'link:7', ca: pem, proxy: disabled, podLogAccess: {enabled: true}}\nallowedNamespaces: [shop]": {
			address: "link:7", ca: "/etc/control-plane/ca.crt", namespaces: "shop,signadot", logs: true},
		withAgent + "controlPlane: {ca: system, proxy: enabled}":          {address: agent.Published, system: true, services: true},
		withAgent + "istio: {enabled: true, gatewayAPI: {enabled: true}}": {address: agent.Published, services: true, meshes: "istio,gateway-api"},
		withAgent + "linkerd: {enabled: true}":                            {address: agent.Published, services: true, meshes: "linkerd"},
	} {
		all := mustRender(t, values)
		spec := all.podOf(t, "agent")
		settings, err := agent.ParseSettings(spec.Containers[0].Args, t.Output())
		if err != nil {
			t.Fatal(err)
		}
		c := settings.Configuration
		if settings.Address != want.address || settings.CA != want.ca || settings.SystemCA != want.system || c.GetServices() != want.services ||
			c.GetPodLogs() != want.logs || strings.Join(c.GetMeshes(), ",") != want.meshes || strings.Join(c.GetAllowedNamespaces(), ",") != want.namespaces || settings.Version == "" || settings.Namespace != namespace {
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

// TestTheAgentIsInstalledOnRequest also shows that its rights on objects of namespaces are confined.
func TestTheAgentIsInstalledOnRequest(t *testing.T) {
	for _, values := range []string{"", "agent: {clusterToken: s3cret}", withAgent + "disableAgent: true"} {
		for _, o := range mustRender(t, values) {
			if strings.Contains(o.GetName(), "agent") {
				t.Errorf("with %q there is %s", values, title(o))
			}
		}
	}
	twice := mustRender(t, withAgent+"sandboxes: {authors: {delegates: [{account: 'system:serviceaccount:signadot:signadot-agent', prefix: 'other:'}, {account: 'system:serviceaccount:ci:bot', prefix: 'bot:'}]}}")
	config := as[corev1.ConfigMap](t, twice.find("ConfigMap", namespace, "cluster-config")).Data["cluster_config.yaml"]
	if strings.Count(config, "signadot:signadot-agent") != 1 || strings.Contains(config, "other:") || !strings.Contains(config, "bot:") {
		t.Errorf("the delegates are\n%s", config)
	}
	all := mustRender(t, withAgent+"allowedNamespaces: [shop]")
	for _, where := range []string{"shop", namespace} {
		if all.find("RoleBinding", where, "signadot-agent-namespaced") == nil {
			t.Errorf("no binding in namespace %s", where)
		}
	}
	if all.find("ClusterRoleBinding", "", "signadot-agent-namespaced") != nil {
		t.Error("the rights are bound in the whole cluster")
	}
	for _, logs := range []bool{false, true} {
		values := withAgent
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
	if _, err := render(t, withAgent+"controlPlane: {tunnelTLS: false}"); err == nil || !strings.Contains(err.Error(), "tunnelTLS is false") {
		t.Errorf("without TLS: %v", err)
	}
}
