package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/meshes/keymatch"
	"switchyard.dev/tests/golden"
	"switchyard.dev/xds/routingkey"
)

func TestBadValuesAreRejectedWithAReason(t *testing.T) {
	for _, c := range []struct{ name, values, says string }{
		{"two meshes at once", "istio: {enabled: true}\nlinkerd: {enabled: true}", "istio.enabled and linkerd.enabled are both true"},
		{"a removed value, even as false", "istio: {enableDeprecatedHostRouting: false}", "istio.enableDeprecatedHostRouting was removed"},
		{"a misspelt component", "routeserver: {replicas: 3}", "'routeserver' not allowed"},
		{"a misspelt key", "controllerManager: {replica: 3}", "'replica' not allowed"},
		{"text for a number", "controllerManager: {replicas: three}", "/controllerManager/replicas"},
		{"a negative number of replicas", "routeServer: {replicas: -1}", "/routeServer/replicas"},
		{"text for a flag", "disableSidecarInjector: 'yes'", "/disableSidecarInjector"},
		{"a pull policy that does not exist", "eventBus: {imagePullPolicy: Sometimes}", "/eventBus/imagePullPolicy"},
		{"one namespace instead of a list", "allowedNamespaces: shop", "/allowedNamespaces"},
		{"a namespace that cannot exist", "allowedNamespaces: [Shop]", "/allowedNamespaces/0"},
		{"the same namespace twice", "allowedNamespaces: [shop, shop]", "/allowedNamespaces"},
		{"a bus that is no NATS address", "eventBus: {external: {url: localhost}}", "/eventBus/external/url"},
		{"three servers of no bus", "eventBus: {external: {replicas: 3}}", "eventBus.external.replicas is 3 but there is no url"},
		{"an even number of servers", "eventBus: {external: {url: 'nats://there:4222', replicas: 2}}", "/eventBus/external/replicas"},
		{"credentials for no bus", "eventBus: {external: {credentialsSecret: mine}}", "eventBus.external has a Secret but no url"},
		{"credentials of route servers for no bus", "eventBus: {external: {followerCertSecret: mine}}", "eventBus.external has a Secret but no url"},
		{"an account of nobody", "eventBus: {external: {url: 'nats://there:4222', credentialsSecret: mine, followerAPIPrefix: FACTS.API}}", "the route servers have no credentials of their own"},
		{"a prefix with a wildcard", "eventBus: {external: {followerAPIPrefix: 'FACTS.>'}}", "/eventBus/external/followerAPIPrefix"},
		{"a size that is no quantity", "eventBus: {persistence: {size: 1GB}}", "/eventBus/persistence/size"},
		{"no history at all", "eventBus: {history: {events: 0}}", "/eventBus/history/events"},
		{"an age in days", "eventBus: {history: {age: 7d}}", "/eventBus/history/age"},
		{"a way to redirect that does not exist", "routing: {iptablesMode: ebpf}", "/routing/iptablesMode"},
		{"a grace for tunnels that is no duration", "sandboxes: {externalWorkloads: {tunnelGrace: soon}}", "/sandboxes/externalWorkloads/tunnelGrace"},
		{"a header that is no header name", "routing: {customHeaders: ['x tenant']}", "/routing/customHeaders/0"},
		{"text for whether to wait", "routing: {waitForProxies: 'no'}", "/routing/waitForProxies"},
		{"a power that does not exist", "sandboxes: {patches: {allow: [root]}}", "/sandboxes/patches/allow/0"},
		{"a delegate without a prefix", "sandboxes: {authors: {delegates: [{account: 'system:serviceaccount:ci:agent'}]}}", "missing property 'prefix'"},
		{"a delegate for all users", "sandboxes: {authors: {delegates: [{account: 'system:serviceaccount:ci:agent', prefix: ''}]}}", "/sandboxes/authors/delegates/0/prefix"},
		{"a delegate for users of the cluster", "sandboxes: {authors: {delegates: [{account: 'system:serviceaccount:ci:agent', prefix: 'system:'}]}}", "/sandboxes/authors/delegates/0/prefix"},
		{"a delegate for service accounts", "sandboxes: {authors: {delegates: [{account: 'system:serviceaccount:ci:agent', prefix: 'system:serviceaccount:ci:'}]}}", "/sandboxes/authors/delegates/0/prefix"},
		{"a delegate for users of the cluster and others", "sandboxes: {authors: {delegates: [{account: 'system:serviceaccount:ci:agent', prefix: sys}]}}", "/sandboxes/authors/delegates/0/prefix"},
		{"a delegate that is no service account", "sandboxes: {authors: {delegates: [{account: ada, prefix: 'agent:'}]}}", "/sandboxes/authors/delegates/0/account"},
		{"a number for a label", "commonLabels: {build: 5}", "/commonLabels/build"},
		{"a budget that is neither number nor percentage", "routeServer: {podDisruptionBudget: {maxUnavailable: half}}", "/routeServer/podDisruptionBudget/maxUnavailable"},
		{"strangers who are answered something else", "routeServer: {anonymous: pod}", "/routeServer/anonymous"},
		{"a deadline of steps that is no duration", "workflows: {unitDeadline: soon}", "/workflows/unitDeadline"},
		{"no step at once", "workflows: {parallelUnits: 0}", "/workflows/parallelUnits"},
		{"a power of steps that does not exist", "workflows: {runner: {allow: [root]}}", "/workflows/runner/allow/0"},
		{"plain connections sometimes", "tls: {acceptPlain: maybe}", "/tls/acceptPlain"},
		{"defaults of the future", "securityDefaults: strict", "/securityDefaults"},
		{"values in no namespace", "ioContextServer: {valuesNamespace: Values}", "/ioContextServer/valuesNamespace"},
		{"values among the operator's Secrets", "ioContextServer: {valuesNamespace: signadot}", "ioContextServer.valuesNamespace is signadot"},
		{"a component taken away", "routeServer: null", "missing property 'routeServer'"},
		{"a control plane without a port", "controlPlane: {tunnelAddr: link.example.com}", "controlPlane.tunnelAddr is link.example.com: write"},
		{"a control plane as a URL", "controlPlane: {tunnelAddr: 'https://link.example.com:443'}", "controlPlane.tunnelAddr is https://link.example.com:443: write"},
		{"the link without TLS", "controlPlane: {tunnelTLS: false}", "controlPlane.tunnelTLS is false and controlPlane.tunnelAddr is tunnel.signadot.com:443: the cluster token"},
		{"the link without TLS in the cluster", "controlPlane: {tunnelTLS: false, tunnelAddr: '10.0.0.1:7'}", "would cross the network in the clear"},
		{"the link without TLS at a name like loopback", "controlPlane: {tunnelTLS: false, tunnelAddr: '127.0.0.1.example.com:7'}", "would cross the network in the clear"},
		{"the link without TLS at a name that ends as loopback", "controlPlane: {tunnelTLS: false, tunnelAddr: 'my.localhost:7'}", "would cross the network in the clear"},
		{"no port", "agent: {ports: [0]}", "/agent/ports/0"},
		{"SOCKS5 on loopback for all", "tunnel: {config: {socks5Loopback: open}}", "/tunnel/config/socks5Loopback"},
		{"SOCKS5 on loopback as a flag", "tunnel: {config: {socks5Loopback: true}}", "/tunnel/config/socks5Loopback"},
		{"a bound that is no quantity", "routeSidecar: {resourceBounds: {max: {memory: 1GB}}}", "/routeSidecar/resourceBounds/max/memory"},
		{"a bound of another resource", "routeSidecar: {resourceBounds: {min: {pods: 1}}}", "'pods' not allowed"},
		{"a misspelt key of tunnels", "tunnel: {proxies: {}}", "'proxies' not allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := render(t, c.values)
			if err == nil {
				t.Fatal("the chart takes it")
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("the message does not say %q:\n%v", c.says, err)
			}
		})
	}
}

// TestValuesOfAnOlderReleaseRender: helm upgrade --reuse-values knows none of the values
// that have come since, and renders what is the default.
func TestValuesOfAnOlderReleaseRender(t *testing.T) {
	want, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range []string{
		"sandboxes: {authors: null, limits: null}",
		"eventBus: {external: {followerCredentialsSecret: null, followerCertSecret: null, followerAPIPrefix: null}}",
		"sandboxes: {authors: {ask: null}, limits: {members: null, patches: null, replicas: null}}",
		"uninstall: {keep: null}",
		"tls: null",
		"tls: {acceptPlain: null}",
		"securityDefaults: null",
		"ioContextServer: {valuesNamespace: null}",
		"routeServer: {anonymous: null}",
		"eventBus: {history: {size: null}}",
		"networkPolicy: {bus: null, metrics: null}",
		"workflows: null",
		"workflows: {unitDeadline: null, parallelUnits: null, runner: null}",
		"ioContextServer: null",
		"ioContextServer: {replicas: null, imagePullPolicy: null, logLevel: null, resources: null, podDisruptionBudget: null}",
		"ioInit: {image: null, imagePullPolicy: null, imagePullSecret: null, resources: null}\nioSidecar: null",
		"jobs: null",
		"jobs: {allow: null, keepResults: null, keptPods: null, artifactsPerPod: null, keepJobs: null, maxJobs: null, redirect: null}",
		"jobExecutorInit: {image: null, imagePullPolicy: null, imagePullSecret: null, resources: null}\njobExecutorProxy: null",
		"uninstall: {workflowsSeconds: null}",
		"uninstall: {now: null}",
		"agent: null\ndisableAgent: null",
		"agent: {enabled: null, image: null, imagePullPolicy: null, logLevel: null, resources: null, env: null, ports: null, nodeSelector: null, tolerations: null, affinity: null, priorityClassName: null}",
		"tunnel: null",
		"tunnel: {enabled: null, api: null, proxy: null, config: null}",
		"tunnel: {api: {replicas: null, imagePullPolicy: null, logLevel: null, resources: null, podDisruptionBudget: null}}",
		"tunnel: {proxy: {replicas: null, imagePullPolicy: null, logLevel: null, resources: null, podDisruptionBudget: null}}",
		"tunnel: {config: {cidrs: null, disableSSH: null, disableXAP: null, anonymousSOCKS5: null, socks5Loopback: null, apiServer: null}}",
	} {
		got, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: %s", values, cmp.Diff(want, got))
		}
	}
}

// TestTheChartRefusesTheCustomHeadersThatTheManagerRefuses: with a header that only the
// manager refuses, helm upgrade succeeds and the new manager does not start.
func TestTheChartRefusesTheCustomHeadersThatTheManagerRefuses(t *testing.T) {
	names := routingkey.Reserved()
	for _, beginning := range routingkey.ReservedPrefixes() {
		names = append(names, beginning+"x")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			written := strings.ToUpper(name)
			_, err := render(t, "routing: {customHeaders: [x-tenant, "+written+"]}")
			if err == nil {
				t.Fatal("the chart takes it")
			}
			if want := "routing.customHeaders has " + written + ","; !strings.Contains(err.Error(), want) {
				t.Errorf("the message does not say %q:\n%v", want, err)
			}
		})
	}
	checks, err := os.ReadFile(filepath.Join(chartDir, "templates", "checks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(checks), "$reserved := list ")
	list, _, _ = strings.Cut(list, " }}")
	for _, name := range strings.Fields(strings.ReplaceAll(list, `"`, "")) {
		if routingkey.CheckHeader(name) == nil {
			t.Errorf("the chart refuses %s, which can carry a routing key", name)
		}
	}
	prefixes := `"^(` + strings.Join(routingkey.ReservedPrefixes(), "|") + `)"`
	if !strings.Contains(string(checks), prefixes) {
		t.Errorf("checks.yaml refuses by other beginnings than %s", prefixes)
	}
	if list == "" {
		t.Error("checks.yaml has no list of reserved headers")
	}
}

const (
	tableStart = "<!-- values -->\n"
	tableEnd   = "<!-- /values -->\n"
)

func TestTheREADMEListsEveryValueWithItsDefaultAndWhy(t *testing.T) {
	for _, chart := range []string{chartDir, controlPlaneDir} {
		t.Run(filepath.Base(chart), func(t *testing.T) { listsValues(t, chart) })
	}
}

// listsValues compares the page of a chart's values with the values.
func listsValues(t *testing.T, chart string) {
	source, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(source, &document); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| value | type | default | meaning |\n| --- | --- | --- | --- |\n")
	accepted := readSchema(t, chart)
	for _, v := range describe(t, document.Content[0], "") {
		fmt.Fprintf(&table, "| `%s` | %s | `%s` | %s |\n", v.path, accepted.typeOf(t, v.path), v.value, v.why)
	}
	file := filepath.Join(chart, "values.md")
	readme, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(readme), tableStart)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("%s has no place for the table between %q and %q", file, tableStart, tableEnd)
	}
	golden.Compare(t, file, before+tableStart+table.String()+tableEnd+after)
}

// Each is said where people look, and in one place.
func TestTheREADMENamesEveryDeviationOfAMesh(t *testing.T) {
	readme, err := os.ReadFile("../../reconcilers/meshes/README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(readme)), " ")
	for _, d := range keymatch.Deviations() {
		if !strings.Contains(text, d.Name+": "+d.Sentence) {
			t.Errorf("it does not say: %s: %s", d.Name, d.Sentence)
		}
	}
	for _, annotation := range []string{istio.AnnotationIgnore, istio.AnnotationGatewaysOnly, istio.AnnotationAdded, istioadapter.AnnotationRoutes} {
		if !strings.Contains(text, annotation) {
			t.Errorf("it does not name annotation %s", annotation)
		}
	}
}

// described is one value, as the page lists it.
type described struct{ path, value, why string }

// wholes are maps that are one value, whatever is in them.
var wholes = []string{"resources", "podLabels", "podAnnotations"}

// describe returns every value below a map of values.yaml. A value without a
// comment fails the test.
func describe(t *testing.T, values *yaml.Node, prefix string) []described {
	t.Helper()
	var out []described
	for pair := range slices.Chunk(values.Content, 2) {
		key, value := pair[0], pair[1]
		path := prefix + key.Value
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && !slices.Contains(wholes, key.Value) {
			out = append(out, describe(t, value, path+".")...)
			continue
		}
		why := sentence(key.HeadComment)
		if why == "" {
			t.Errorf("values.yaml: %s has no comment that says why one would set it", path)
		}
		out = append(out, described{path, compact(t, value), why})
	}
	return out
}

// sentence makes one line of a comment: the last paragraph of it, since
// headings stand above.
func sentence(comment string) string {
	paragraphs := strings.Split(comment, "\n\n")
	var words []string
	for _, line := range strings.Split(paragraphs[len(paragraphs)-1], "\n") {
		words = append(words, strings.TrimSpace(strings.TrimPrefix(line, "#")))
	}
	return strings.ReplaceAll(strings.Join(words, " "), "|", `\|`)
}

// compact writes a value on one line.
func compact(t *testing.T, node *yaml.Node) string {
	t.Helper()
	var value any
	if err := node.Decode(&value); err != nil {
		t.Fatal(err)
	}
	if text, ok := value.(string); ok && text != "" {
		return text
	}
	line, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}
