package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// noEffect begins the part of the notes that names values without effect.
const noEffect = "These values have no effect in this version"

// TestThePublishedCharts holds the chart against the commands and values files that
// people have from the published charts 1.2 and 1.4.
func TestThePublishedCharts(t *testing.T) {
	s := startAPIServer(t)
	t.Run("their install command is accepted", s.takesThePublishedInstallCommand)
	t.Run("a value without effect is accepted, and named", s.namesValuesWithoutEffect)
	t.Run("a value that this version has takes effect", s.appliesPublishedValues)
	t.Run("what they refuse is refused", s.refusesWhatIsRefused)
}

// install runs the published install command, `helm install signadot-operator CHART`
// with the given flags, and has nothing made. It returns the rendered objects and the
// notes.
func (s apiServer) install(t *testing.T, flags ...string) (objects, string, error) {
	t.Helper()
	args := []string{"install", "signadot-operator", chartDir, "--dry-run=client", "--kubeconfig=" + s.kubeconfig}
	out, err := helm(t, "", append(args, flags...)...)
	if err != nil {
		return nil, "", err
	}
	_, manifest, found := strings.Cut(out, "\nMANIFEST:\n")
	manifest, notes, ended := strings.Cut(manifest, "\nNOTES:\n")
	if !found || !ended {
		t.Fatalf("helm install prints no MANIFEST and NOTES:\n%s", out)
	}
	return parse(t, manifest), notes, nil
}

// idle returns the names of values that the notes say have no effect.
func idle(notes string) []string {
	_, rest, _ := strings.Cut(notes, noEffect)
	_, rest, _ = strings.Cut(rest, ":\n")
	return strings.Fields(rest)
}

// set returns the flags that set these values.
func set(values ...string) []string {
	var out []string
	for _, v := range values {
		out = append(out, "--set", v)
	}
	return out
}

// takesThePublishedInstallCommand runs the command with which every published
// guide begins: the page on the Gateway API has agent.clusterToken and
// istio.gatewayAPI.enabled, the README of the chart controlPlane.clusterToken. The
// published chart makes Secret cluster-token with key token from either.
func (s apiServer) takesThePublishedInstallCommand(t *testing.T) {
	const token = "sd-cluster-0f1e2d"
	for _, c := range []struct {
		name   string
		values []string
		secret string
		idle   string
	}{
		{"the present name", []string{"controlPlane.clusterToken=" + token}, "cluster-token", ""},
		{"the former name", []string{"agent.clusterToken=" + token}, "cluster-token", ""},
		{"both names, one token", []string{"agent.clusterToken=" + token, "controlPlane.clusterToken=" + token}, "cluster-token", ""},
		{"a Secret of another name", []string{"agent.clusterToken=" + token, "controlPlane.tokenSecret=mine"}, "mine", ""},
		{"the Gateway API", []string{"agent.clusterToken=" + token, "istio.enabled=true", "istio.gatewayAPI.enabled=true"},
			"cluster-token", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all, notes, err := s.install(t, set(c.values...)...)
			if err != nil {
				t.Fatal(err)
			}
			secret := as[corev1.Secret](t, all.find("Secret", namespace, c.secret))
			if got := secret.StringData["token"]; got != token {
				t.Errorf("the Secret holds %q", got)
			}
			mounts := false
			for _, v := range all.podOf(t, "signadot-controller-manager").Volumes {
				if v.Projected != nil {
					for _, source := range v.Projected.Sources {
						mounts = mounts || source.Secret != nil && source.Secret.Name == c.secret
					}
				}
			}
			if !mounts {
				t.Errorf("the manager does not mount Secret %s", c.secret)
			}
			if strings.Contains(notes, token) {
				t.Errorf("the notes show the token:\n%s", notes)
			}
			if !strings.Contains(notes, "Secret "+c.secret) || !strings.Contains(notes, "does not connect to a control plane") {
				t.Errorf("the notes do not say what becomes of the token:\n%s", notes)
			}
			if got := strings.Join(idle(notes), " "); got != c.idle {
				t.Errorf("without effect are %q", got)
			}
		})
	}
}

// withoutEffect are values of the published charts that have no effect in this version with
// disableAgent and without a mesh, as --set takes them: those of 1.2, and below them those that 1.4 has added.
const withoutEffect = `
allowOrphanedResources=true
agent.image=a
agent.imagePullPolicy=Always
agent.resources.limits.memory=1Gi
routeInit.legacy.image=a
routeSidecar.legacy.image=a
tunnel.auditor.image=a
tunnel.auditor.imagePullPolicy=Always
tunnel.auditor.resources.limits.memory=1Gi
tunnel.auditor.init.image=a
tunnel.auditor.init.imagePullPolicy=Always
tunnel.auditor.init.resources.limits.memory=1Gi
tunnel.auditor.enabled=false
tunnel.auditor.luaRocks=lua-cjson
tunnel.auditor.inboundRulesLuaScript=x
tunnel.auditor.outboundRulesLuaScript=x
tunnel.config.externalDNS.server=10.0.0.1
tunnel.config.externalDNS.syncInterval=30
istio.operator.podLabels.istio\.io/dataplane-mode=ambient
linkerd.operator.podAnnotations.linkerd\.io/inject=ingress
controlPlane.proxy=disabled
controlPlane.controlAPI=http://a:8080
controlPlane.tunnelAddr=a:2222
controlPlane.tunnelTLS=true
controlPlane.proxyURL=http://a:8087
controlPlane.artifactsAPI=http://a:8180
controlPlane.trafficmodelsAPI=http://a:8280

agent.imageTag=v1
agent.logLevel=debug
agent.nodeAffinity.x=y
agent.tolerations[0].key=k
routeServer.logLevel=debug
routeServer.legacyRoutesAPI.enabled=true
routeSidecar.logLevel=debug
ioSidecar.logLevel=debug
jobExecutor.logLevel=debug
previewServer.enabled=true
previewServer.customDomain=preview.example.com
previewServer.replicas=2
previewServer.image=a
previewServer.imagePullPolicy=Always
previewServer.resources.limits.memory=1Gi
previewServer.logLevel=debug
previewServer.nodeAffinity.x=y
previewServer.tolerations[0].key=k
istio.gatewayAPI.preservedLabels={a*}
linkerd.gatewayAPI.preservedAnnotations={a*}
controlPlane.podLogAccess.enabled=false
`

// namesValuesWithoutEffect sets these values as flags of the install command.
func (s apiServer) namesValuesWithoutEffect(t *testing.T) {
	t.Parallel()
	// No two meshes at once.
	both := strings.Fields(withoutEffect)
	istio := slices.DeleteFunc(slices.Clone(both), func(v string) bool { return strings.HasPrefix(v, "linkerd.") })
	linkerd := slices.DeleteFunc(both, func(v string) bool { return strings.HasPrefix(v, "istio.") })
	for _, values := range [][]string{nil, istio, linkerd} {
		_, notes, err := s.install(t, set(append(values, "disableAgent=true")...)...)
		if err != nil {
			t.Fatal(err)
		}
		named := idle(notes)
		for _, v := range values {
			name, _, _ := strings.Cut(v, "=")
			if !slices.ContainsFunc(named, func(n string) bool { return strings.HasPrefix(name, n) }) {
				t.Errorf("the notes do not name %s", name)
			}
		}
		for _, n := range named {
			if !slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, n) }) {
				t.Errorf("the notes name %s, which was not set", n)
			}
		}
	}
}

// effect is a published value as --set takes it, and what an object has because of it:
// empty where there is no such object then.
type effect struct{ value, object, has string }

// effects are the published values that this version has, in groups that can be set
// together.
func effects() [][]effect {
	return [][]effect{{
		{"commonLabels.cl=b-c", "Deployment routeserver", `"cl":"b-c"`},
		{"commonAnnotations.ca=b-c", "Deployment routeserver", `"ca":"b-c"`},
		{"podLabels.pl=b-c", "Deployment routeserver", `"pl":"b-c"`},
		{"podAnnotations.pa=b-c", "Deployment routeserver", `"pa":"b-c"`},
		{"serviceLabels.sl=b-c", "Service routeserver", `"sl":"b-c"`},
		{"serviceAnnotations.sa=b-c", "Service routeserver", `"sa":"b-c"`},
		{"configMapLabels.ml=b-c", "ConfigMap switchyard-routing-log", `"ml":"b-c"`},
		{"configMapAnnotations.ma=b-c", "ConfigMap switchyard-routing-log", `"ma":"b-c"`},
		{"allowedNamespaces={shop}", "ConfigMap cluster-config", "- shop"},
		{"imagePullSecrets[0].name=pull", "Deployment routeserver", `"imagePullSecrets":[{"name":"pull"}]`},
		{"controllerManager.replicas=5", "Deployment signadot-controller-manager", `"replicas":5`},
		{"controllerManager.image=a:b", "Deployment signadot-controller-manager", `"image":"a:b"`},
		{"controllerManager.imagePullPolicy=Always", "Deployment signadot-controller-manager", `"imagePullPolicy":"Always"`},
		{"controllerManager.resources.limits.cpu=77m", "Deployment signadot-controller-manager", `"cpu":"77m"`},
		{"controllerManager.logLevel=debug", "Deployment signadot-controller-manager", `"--log-level=debug"`},
		{"controllerManager.nodeAffinity.x=y", "Deployment signadot-controller-manager", `"affinity":{"nodeAffinity":{"x":"y"}}`},
		{"controllerManager.tolerations[0].key=k", "Deployment signadot-controller-manager", `"tolerations":[{"key":"k"}]`},
		{"routeServer.image=a:b", "Deployment routeserver", `"image":"a:b"`},
		{"routeServer.imagePullPolicy=Always", "Deployment routeserver", `"imagePullPolicy":"Always"`},
		{"routeServer.resources.limits.cpu=77m", "Deployment routeserver", `"cpu":"77m"`},
		{"routeServer.nodeAffinity.x=y", "Deployment routeserver", `"affinity":{"nodeAffinity":{"x":"y"}}`},
		{"routeServer.tolerations[0].key=k", "Deployment routeserver", `"tolerations":[{"key":"k"}]`},
		{"trafficManager.replicas=1", "Deployment traffic-manager", `"replicas":1`},
		{"trafficManager.image=a:b", "Deployment traffic-manager", `"image":"a:b"`},
		{"trafficManager.imagePullPolicy=Always", "Deployment traffic-manager", `"imagePullPolicy":"Always"`},
		{"trafficManager.resources.limits.memory=1Gi", "Deployment traffic-manager", `"memory":"1Gi"`},
		{"trafficManager.logLevel=debug", "Deployment traffic-manager", `"--log-level=debug"`},
		{"trafficManager.nodeAffinity.x=y", "Deployment traffic-manager", `"affinity":{"nodeAffinity":{"x":"y"}}`},
		{"trafficManager.tolerations[0].key=k", "Deployment traffic-manager", `"tolerations":[{"key":"k"}]`},
		{"trafficCapture.enabled=false", "ConfigMap cluster-config", "trafficCapture:\\n  enabled: false"},
		{"trafficCapture.requestHeadersElide={x-key}", "Deployment traffic-manager", `"--request-headers-elided=x-key"`},
		{"trafficCapture.responseHeadersElide={x-token}", "Deployment traffic-manager", `"--response-headers-elided=x-token"`},
		{"routeInit.image=a:b", "Deployment signadot-controller-manager", `{"name":"SIDECAR_INIT_IMAGE","value":"a:b"}`},
		{"routeInit.imagePullPolicy=Always", "Deployment signadot-controller-manager", `{"name":"SIDECAR_INIT_IMAGE_PULL_POLICY","value":"Always"}`},
		{"routeInit.imagePullSecret=s", "Deployment signadot-controller-manager", `{"name":"SIDECAR_INIT_IMAGE_PULL_SECRET","value":"s"}`},
		{"routeInit.resources.limits.cpu=2", "Deployment signadot-controller-manager", `{"name":"DEV_MESH_INIT_CONTAINER_RESOURCES","value":"{\"limits\":{\"cpu\":2}}"}`},
		{"routeSidecar.image=a:b", "Deployment signadot-controller-manager", `{"name":"ROUTE_SIDECAR_IMAGE","value":"a:b"}`},
		{"routeSidecar.imagePullPolicy=Always", "Deployment signadot-controller-manager", `{"name":"ROUTE_SIDECAR_IMAGE_PULL_POLICY","value":"Always"}`},
		{"routeSidecar.imagePullSecret=s", "Deployment signadot-controller-manager", `{"name":"ROUTE_SIDECAR_IMAGE_PULL_SECRET","value":"s"}`},
		{"routeSidecar.resources.limits.cpu=2", "Deployment signadot-controller-manager", `{"name":"DEV_MESH_SIDECAR_CONTAINER_RESOURCES","value":"{\"limits\":{\"cpu\":2}}"}`},
		{"ioContextServer.replicas=3", "Deployment io-context-server", `"replicas":3`},
		{"ioContextServer.image=a:b", "Deployment io-context-server", `"image":"a:b"`},
		{"ioContextServer.imagePullPolicy=Always", "Deployment io-context-server", `"imagePullPolicy":"Always"`},
		{"ioContextServer.resources.limits.cpu=77m", "Deployment io-context-server", `"cpu":"77m"`},
		{"ioContextServer.logLevel=debug", "Deployment io-context-server", `"--log-level=debug"`},
		{"ioContextServer.nodeAffinity.x=y", "Deployment io-context-server", `"affinity":{"nodeAffinity":{"x":"y"}}`},
		{"ioContextServer.tolerations[0].key=k", "Deployment io-context-server", `"tolerations":[{"key":"k"}]`},
		{"ioInit.image=a:b", "Deployment signadot-controller-manager", `{"name":"IO_INIT_IMAGE","value":"a:b"}`},
		{"ioInit.imagePullPolicy=Always", "Deployment signadot-controller-manager", `{"name":"IO_INIT_IMAGE_PULL_POLICY","value":"Always"}`},
		{"ioInit.imagePullSecret=s", "Deployment signadot-controller-manager", `{"name":"IO_INIT_IMAGE_PULL_SECRET","value":"s"}`},
		{"ioInit.resources.limits.cpu=2", "Deployment signadot-controller-manager", `{"name":"IO_INIT_CONTAINER_RESOURCES","value":"{\"limits\":{\"cpu\":2}}"}`},
		{"ioSidecar.image=a:b", "Deployment signadot-controller-manager", `{"name":"IO_SIDECAR_IMAGE","value":"a:b"}`},
		{"ioSidecar.imagePullPolicy=Always", "Deployment signadot-controller-manager", `{"name":"IO_SIDECAR_IMAGE_PULL_POLICY","value":"Always"}`},
		{"ioSidecar.imagePullSecret=s", "Deployment signadot-controller-manager", `{"name":"IO_SIDECAR_IMAGE_PULL_SECRET","value":"s"}`},
		{"ioSidecar.resources.limits.cpu=2", "Deployment signadot-controller-manager", `{"name":"IO_SIDECAR_CONTAINER_RESOURCES","value":"{\"limits\":{\"cpu\":2}}"}`},
		{"jobExecutorInit.image=a:b", "Deployment signadot-controller-manager", `{"name":"JOB_EXECUTOR_INIT_IMAGE","value":"a:b"}`},
		{"jobExecutorInit.imagePullPolicy=Always", "Deployment signadot-controller-manager", `{"name":"JOB_EXECUTOR_INIT_IMAGE_PULL_POLICY","value":"Always"}`},
		{"jobExecutorInit.imagePullSecret=s", "Deployment signadot-controller-manager", `{"name":"JOB_EXECUTOR_INIT_IMAGE_PULL_SECRET","value":"s"}`},
		{"jobExecutorInit.resources.limits.cpu=2", "Deployment signadot-controller-manager", `{"name":"JOB_EXECUTOR_INIT_CONTAINER_RESOURCES","value":"{\"limits\":{\"cpu\":2}}"}`},
		{"jobExecutorProxy.image=a:b", "Deployment signadot-controller-manager", `{"name":"JOB_EXECUTOR_PROXY_IMAGE","value":"a:b"}`},
		{"jobExecutorProxy.imagePullPolicy=Always", "Deployment signadot-controller-manager", `{"name":"JOB_EXECUTOR_PROXY_IMAGE_PULL_POLICY","value":"Always"}`},
		{"jobExecutorProxy.imagePullSecret=s", "Deployment signadot-controller-manager", `{"name":"JOB_EXECUTOR_PROXY_IMAGE_PULL_SECRET","value":"s"}`},
		{"jobExecutorProxy.resources.limits.cpu=2", "Deployment signadot-controller-manager", `{"name":"JOB_EXECUTOR_PROXY_CONTAINER_RESOURCES","value":"{\"limits\":{\"cpu\":2}}"}`},
		{"jobExecutorProxy.logLevel=debug", "Deployment signadot-controller-manager", `{"name":"JOB_EXECUTOR_PROXY_LOG_LEVEL","value":"debug"}`},
		{"tunnel.api.replicas=3", "Deployment tunnel-api", `"replicas":3`},
		{"tunnel.api.image=a:b", "Deployment tunnel-api", `"image":"a:b"`},
		{"tunnel.api.imagePullPolicy=Always", "Deployment tunnel-api", `"imagePullPolicy":"Always"`},
		{"tunnel.api.resources.limits.cpu=77m", "Deployment tunnel-api", `"cpu":"77m"`},
		{"tunnel.api.strategy.type=Recreate", "Deployment tunnel-api", `"strategy":{"type":"Recreate"}`},
		{"tunnel.api.logLevel=debug", "Deployment tunnel-api", `"--log-level=debug"`},
		{"tunnel.api.nodeAffinity.x=y", "Deployment tunnel-api", `"affinity":{"nodeAffinity":{"x":"y"}}`},
		{"tunnel.api.tolerations[0].key=k", "Deployment tunnel-api", `"tolerations":[{"key":"k"}]`},
		{"tunnel.proxy.replicas=3", "Deployment tunnel-proxy", `"replicas":3`},
		{"tunnel.proxy.image=a:b", "Deployment tunnel-proxy", `"image":"a:b"`},
		{"tunnel.proxy.imagePullPolicy=Always", "Deployment tunnel-proxy", `"imagePullPolicy":"Always"`},
		{"tunnel.proxy.resources.limits.cpu=77m", "Deployment tunnel-proxy", `"cpu":"77m"`},
		{"tunnel.proxy.strategy.type=Recreate", "Deployment tunnel-proxy", `"strategy":{"type":"Recreate"}`},
		{"tunnel.proxy.logLevel=debug", "Deployment tunnel-proxy", `"--log-level=debug"`},
		{"tunnel.proxy.nodeAffinity.x=y", "Deployment tunnel-proxy", `"affinity":{"nodeAffinity":{"x":"y"}}`},
		{"tunnel.proxy.tolerations[0].key=k", "Deployment tunnel-proxy", `"tolerations":[{"key":"k"}]`},
		{"tunnel.config.cidrs=version: 1", "ConfigMap tunnel-cidrs", `"cidr.yaml":"version: 1"`},
		{"tunnel.config.disableSSH=true", "Deployment tunnel-proxy", `"--ssh=false"`},
		{"tunnel.config.disableXAP=true", "Deployment tunnel-proxy", `"--xap=false"`},
		{"routing.iptablesMode=nft", "ConfigMap cluster-config", "iptablesMode: nft"},
		{"routing.customHeaders={x-key}", "ConfigMap cluster-config", "- x-key"},
		{"controlPlane.tokenSecret=mine", "Deployment signadot-controller-manager", `"secret":{"items":[{"key":"token","path":"token"}],"name":"mine"`},
		{"istio.enabled=true", "ClusterRole signadot-manager-namespaced", `"virtualservices"`},
		{"istio.gatewayAPI.enabled=true", "ClusterRole signadot-manager-namespaced", `"httproutes"`},
		{"istio.gatewayAPI.preservedLabels={pl*}", "ConfigMap cluster-config", "pl*"},
		{"istio.gatewayAPI.preservedAnnotations={pa*}", "ConfigMap cluster-config", "pa*"},
		{"istio.operator.podLabels.ol=b-c", "Deployment tunnel-proxy", `"ol":"b-c"`},
		{"istio.operator.podLabels.ol=b-c", "ConfigMap cluster-config", "ol: b-c"},
		{"istio.additionalLabels.il=b-c", "ConfigMap cluster-config", "il: b-c"},
		{"istio.additionalAnnotations.ia=b-c", "ConfigMap cluster-config", "ia: b-c"},
	}, {
		{"agent.image=a:b", "Deployment agent", `"image":"a:b"`},
		{"agent.imagePullPolicy=Always", "Deployment agent", `"imagePullPolicy":"Always"`},
		{"agent.logLevel=debug", "Deployment agent", `"--log-level=debug"`},
		{"agent.nodeAffinity.x=y", "Deployment agent", `"affinity":{"nodeAffinity":{"x":"y"}}`},
		{"agent.tolerations[0].key=k", "Deployment agent", `"tolerations":[{"key":"k"}]`},
		{"agent.resources.limits.cpu=77m", "Deployment agent", `"cpu":"77m"`},
		{"controlPlane.proxy=disabled", "Deployment agent", `"--services=false"`},
		{"controlPlane.podLogAccess.enabled=true", "ClusterRole signadot-agent-namespaced", `"pods/log"`},
		{"controlPlane.tunnelAddr=link:7", "Deployment agent", `"--control-plane=link:7"`},
		{"allowOrphanedResources=true", "Deployment agent", `"--report-unknown=false"`},
		{"controlPlane.tunnelTLS=true", "Deployment agent", "agent"},
		{"controlPlane.tokenSecret=mine", "Deployment agent", `"name":"mine"`},
		{"previewServer.enabled=true", "Deployment agent", "agent"},
		{"previewServer.customDomain=previews.example.net", "Deployment agent", `"--preview-domain=previews.example.net"`},
		{"linkerd.enabled=true", "Deployment agent", `"--meshes=linkerd"`},
		{"linkerd.operator.podAnnotations.oa=b-c", "Deployment tunnel-proxy", `"oa":"b-c"`},
		{"linkerd.operator.podAnnotations.oa=b-c", "ConfigMap cluster-config", "oa: b-c"},
	}, {
		{"previewServer.enabled=false", "Deployment agent", `"--previews=false"`},
		{"agent.imageTag=v10", "Deployment agent", `/agent:v10"`},
		{"registry=ghcr.io", "Deployment routeserver", `"ghcr.io/acme/mirror/route-server:`},
		{"repository=acme/mirror", "Deployment routeserver", `"ghcr.io/acme/mirror/route-server:`},
		{"imageTag=v9", "StatefulSet eventbus", `/eventbus:v9"`},
		{"controllerManager.imageTag=v8", "Deployment signadot-controller-manager", `/controller-manager:v8"`},
		{"routeServer.imageTag=v7", "Deployment routeserver", `/route-server:v7"`},
		{"routeSidecar.imageTag=v6", "Deployment signadot-controller-manager", `/route-sidecar:v6"`},
		{"routeInit.imageTag=v5", "Deployment signadot-controller-manager", `/route-sidecar-init:v5"`},
		{"tunnel.api.imageTag=v14", "Deployment tunnel-api", `/tunnel-api:v14"`},
		{"controlPlane.roleBindings[0].organisation=acme,controlPlane.roleBindings[0].clusterRole=edit,controlPlane.roleBindings[0].namespaces[0]=default", "Deployment agent", "/agent"},
		{"tunnel.proxy.imageTag=v13", "Deployment tunnel-proxy", `/tunnel-proxy:v13"`},
		{"ioContextServer.imageTag=v4", "Deployment io-context-server", `/io-context-server:v4"`},
		{"jobExecutorInit.imageTag=v16", "Deployment signadot-controller-manager", `/job-executor-init:v16"`},
		{"jobExecutorProxy.imageTag=v15", "Deployment signadot-controller-manager", `/job-executor-proxy:v15"`},
		{"ioInit.imageTag=v3", "Deployment signadot-controller-manager", `/io-init:v3"`},
		{"ioSidecar.imageTag=v2", "Deployment signadot-controller-manager", `/io-sidecar:v2"`},
		{"trafficManager.imageTag=v17", "Deployment traffic-manager", `/traffic-manager:v17"`},
		{"devMesh.enabled=false,sandboxes.authors.ask=false", "MutatingWebhookConfiguration " + webhookConfiguration, ""},
	}, {
		{"disableAgent=true", "Deployment agent", ""},
		{"trafficManager.enabled=false", "Deployment traffic-manager", ""},
	}, {
		// By itself, since the same object has the webhook for VirtualServices.
		{"disableSidecarInjector=true,sandboxes.authors.ask=false", "MutatingWebhookConfiguration " + webhookConfiguration, ""},
	}}
}

// appliesPublishedValues sets values as flags of the install command, and looks in the
// objects for what comes of each.
func (s apiServer) appliesPublishedValues(t *testing.T) {
	t.Parallel()
	for _, group := range effects() {
		var values []string
		for _, e := range group {
			values = append(values, e.value)
		}
		all, notes, err := s.install(t, set(values...)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := idle(notes); len(got) > 0 {
			t.Errorf("the notes say that these have no effect: %q", got)
		}
		for _, e := range group {
			text := all.text(t, e.object)
			if e.has == "" && text != "" || !strings.Contains(text, e.has) {
				t.Errorf("with %s %s has not %q:\n%.3000s", e.value, e.object, e.has, text)
			}
		}
	}
}

// text returns an object, named by kind and name, as JSON; empty when there is none.
func (all objects) text(t *testing.T, object string) string {
	t.Helper()
	kind, name, _ := strings.Cut(object, " ")
	for _, o := range all.kind(kind) {
		if o.GetName() == name {
			raw, err := o.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			return string(raw)
		}
	}
	return ""
}

// TestAnEmptyClusterTokenIsNone renders values files that list every key, with an empty
// text for a token that is not set.
func TestAnEmptyClusterTokenIsNone(t *testing.T) {
	without, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range []string{
		`agent: {clusterToken: ""}`, `controlPlane: {clusterToken: ""}`, `{agent: {clusterToken: ""}, controlPlane: {clusterToken: ""}}`,
	} {
		if got, err := render(t, values); err != nil || got != without {
			t.Errorf("%s: %v (-without +with):\n%s", values, err, cmp.Diff(without, got))
		}
	}
	for _, values := range []string{
		`{agent: {clusterToken: ""}, controlPlane: {clusterToken: s3cret}}`, `{agent: {clusterToken: s3cret}, controlPlane: {clusterToken: ""}}`,
	} {
		secret := as[corev1.Secret](t, mustRender(t, values).find("Secret", namespace, "cluster-token"))
		if got := secret.StringData["token"]; got != "s3cret" {
			t.Errorf("%s: the Secret holds %q", values, got)
		}
	}
}

// refusesWhatIsRefused has the combinations at which the published
// chart aborts: the first two since 1.2, the others since 1.4.
func (s apiServer) refusesWhatIsRefused(t *testing.T) {
	for _, c := range []struct {
		values []string
		says   string
	}{
		{[]string{"istio.enabled=true", "linkerd.enabled=true"}, "istio.enabled and linkerd.enabled are both true"},
		{[]string{"istio.gatewayAPI.enabled=true", "linkerd.gatewayAPI.enabled=true"}, "istio.gatewayAPI.enabled and linkerd.gatewayAPI.enabled are both true"},
		{[]string{"istio.enableDeprecatedHostRouting=false"}, "istio.enableDeprecatedHostRouting was removed"},
		{[]string{"linkerd.enabled=true", "devMesh.enabled=false"}, "linkerd.gatewayAPI.enabled is not true"},
		{[]string{"previewServer.enabled=false", "previewServer.customDomain=a.example"}, "previewServer.customDomain is set"},
		{[]string{"previewServer.customDomain=https://a.example"}, "'/previewServer/customDomain': 'https://a.example' does not match"},
		// Ours: the published charts know only one of the two names each.
		{[]string{"agent.clusterToken=one-secret", "controlPlane.clusterToken=another-secret"}, "agent.clusterToken are different"},
		{[]string{"agent.clusterTokn=one-secret"}, "'clusterTokn' not allowed"},
		{[]string{"agents.clusterToken=one-secret"}, "'agents' not allowed"},
		{[]string{"istio.gatewayApi.enabled=true"}, "'gatewayApi' not allowed"},
		{[]string{"previewServer.domain=a.example"}, "'domain' not allowed"},
		{[]string{"devMesh.enable=false"}, "'enable' not allowed"},
	} {
		t.Run(strings.Join(c.values, " "), func(t *testing.T) {
			t.Parallel()
			_, _, err := s.install(t, set(c.values...)...)
			if err == nil {
				t.Fatal("the chart takes it")
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("the message does not say %q:\n%v", c.says, err)
			}
			if strings.Contains(err.Error(), "-secret") {
				t.Errorf("the message shows a token:\n%v", err)
			}
		})
	}
}

// TestTheChartHasNothingToLint runs helm lint as a user of the chart would.
func TestTheChartHasNothingToLint(t *testing.T) {
	if out, err := helm(t, "", "lint", "--strict", chartDir); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
