package clusterconfig

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/reconcilers/admission"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/workflows/execunit"
)

func TestReadFile(t *testing.T) {
	tests := []struct {
		name, text string
		want       Cluster
		fails      bool
	}{
		{"the published defaults, with a boolean where a text is due", `
allowedNamespaces: []
allowOrphanedResources: false
routing:
  istio: {enabled: false, operator: {podLabels: {sidecar.istio.io/inject: true}}}
  customHeaders: []
trafficManager: {enabled: true}
`, Cluster{AllowedNamespaces: []string{}, CustomHeaders: []string{}, IptablesMode: "auto", TrafficManager: true}, false},
		{"namespaces, to which the operator's own is added", `{allowedNamespaces: [a, b], routing: {customHeaders: [x-key]}}`,
			Cluster{AllowedNamespaces: []string{"a", "b", "signadot"}, CustomHeaders: []string{"x-key"}, IptablesMode: "auto"}, false},
		{"namespaces among which the operator's own is", `{allowedNamespaces: [signadot, a]}`,
			Cluster{AllowedNamespaces: []string{"signadot", "a"}, IptablesMode: "auto"}, false},
		{"nothing", ``, Cluster{IptablesMode: "auto"}, false},
		{"how pods' connections are redirected", `{routing: {iptablesMode: legacy}}`, Cluster{IptablesMode: "legacy"}, false},
		{"a way to redirect that does not exist", `{routing: {iptablesMode: ebpf}}`, Cluster{}, true},
		{"powers that patches may add", `{sandboxes: {patches: {allow: [hostPath, nodeName]}}}`,
			Cluster{IptablesMode: "auto", PatchPowers: power.Powers{power.HostPath, power.NodeName}}, false},
		{"no power that patches may add", `{sandboxes: {patches: {allow: []}}}`, Cluster{IptablesMode: "auto"}, false},
		{"a power that does not exist", `{sandboxes: {patches: {allow: [root]}}}`, Cluster{}, true},
		{"that authors are asked, and how much they may ask for", `{sandboxes: {authors: {ask: true}, limits: {members: 3, patches: 4, replicas: 5}}}`,
			Cluster{IptablesMode: "auto", AskAuthors: true, Limits: admission.Limits{Members: 3, Patches: 4, Replicas: 5}}, false},
		{"bounds for tunnels", `{sandboxes: {externalWorkloads: {tunnelFresh: 30s, tunnelGrace: 1h30m, writeEndpoints: true}}}`,
			Cluster{IptablesMode: "auto", ExternalWorkloads: externalworkload.Limits{
				Fresh: 30 * time.Second, Grace: 90 * time.Minute, WriteEndpoints: true,
			}}, false},
		{"a bound for tunnels that is no duration", `{sandboxes: {externalWorkloads: {tunnelGrace: soon}}}`, Cluster{}, true},
		{"a bound for tunnels that no tunnel could keep", `{sandboxes: {externalWorkloads: {tunnelFresh: 1ms}}}`, Cluster{}, true},
		{"how units of resources run", `{workflows: {unitDeadline: 1h, parallelUnits: 3, runner: {allow: [serviceAccount]}}}`,
			Cluster{IptablesMode: "auto", Units: Units{Deadline: time.Hour, AtOnce: 3, Allow: execunit.Powers{execunit.ServiceAccount}}}, false},
		{"a deadline of units that is no duration", `{workflows: {unitDeadline: soon}}`, Cluster{}, true},
		{"a number of units that is none", `{workflows: {parallelUnits: -1}}`, Cluster{}, true},
		{"a power that no pod of a unit may be allowed", `{workflows: {runner: {allow: [root]}}}`, Cluster{}, true},
		{"how runners are created", `{jobs: {allow: [capabilities], keepResults: 1h, artifactsPerPod: 2Mi, keptPods: 3, keepJobs: 2h, maxJobs: 4, redirect: true}, routing: {istio: {operator: {podLabels: {x: y}}}}}`,
			Cluster{IptablesMode: "auto", Runners: Runners{Allow: execunit.Powers{execunit.Capabilities}, KeepResults: time.Hour, ArtifactBytes: 2 << 20, KeptPods: 3, KeepJobs: 2 * time.Hour, MaxJobs: 4, Redirect: true}}, false},
		{"runners in Linkerd", `{routing: {linkerd: {enabled: true, operator: {podAnnotations: {linkerd.io/inject: enabled}}}}}`,
			Cluster{IptablesMode: "auto", Runners: Runners{Annotations: map[string]string{"linkerd.io/inject": "enabled", "config.linkerd.io/skip-inbound-ports": "7443"}}}, false},
		{"a power that no runner may be allowed", `{jobs: {allow: [root]}}`, Cluster{}, true},
		{"results that are kept for no duration", `{jobs: {keepResults: long}}`, Cluster{}, true},
		{"jobs that are kept for no duration", `{jobs: {keepJobs: 1ms}}`, Cluster{}, true},
		{"a number of jobs that is none", `{jobs: {maxJobs: -1}}`, Cluster{}, true},
		{"artifacts of no size", `{jobs: {artifactsPerPod: many}}`, Cluster{}, true},
		{"Istio, and what is added to VirtualServices", `{routing: {istio: {enabled: true, enableHostRouting: false, additionalLabels: {a: b}, additionalAnnotations: {c: d}}}}`,
			Cluster{IptablesMode: "auto", Istio: istioadapter.Settings{Enabled: true, Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
				Runners: Runners{Labels: map[string]string{"security.istio.io/tlsMode": "disabled"}, Annotations: map[string]string{"traffic.sidecar.istio.io/excludeInboundPorts": "7443"}}}, false},
		{"the Gateway API of Istio, and what is preserved", `{routing: {gatewayAPI: {enabled: true, implementation: istio, preservedLabels: ["a*"], preservedAnnotations: ["b*"]}}}`,
			Cluster{IptablesMode: "auto", GatewayAPI: gatewayadapter.Settings{Enabled: true, Istio: true, PreservedLabels: []string{"a*"}, PreservedAnnotations: []string{"b*"}}}, false},
		{"the Gateway API of another mesh", `{routing: {gatewayAPI: {enabled: true, implementation: linkerd}}}`,
			Cluster{IptablesMode: "auto", GatewayAPI: gatewayadapter.Settings{Enabled: true}}, false},
		{"a way to match VirtualServices that is gone", `{routing: {istio: {enabled: true, enableHostRouting: true}}}`, Cluster{}, true},
		{"a label that no object can have", `{routing: {istio: {enabled: true, additionalLabels: {"a b": c}}}}`, Cluster{}, true},
		{"an annotation that the operator writes itself", `{routing: {istio: {enabled: true, additionalAnnotations: {istio.signadot.com/ignore: "true"}}}}`, Cluster{}, true},
		{"what is no YAML", `{`, Cluster{}, true},
		{"namespaces that are no list", `allowedNamespaces: a`, Cluster{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cluster_config.yaml")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := ReadFile(path)
			if (err != nil) != tt.fails {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got, err := ReadFile(filepath.Join(t.TempDir(), "none")); err != nil || got.AllowedNamespaces != nil {
		t.Errorf("a file that is not there: %v, %v", got, err)
	}
}
