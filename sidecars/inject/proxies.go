package inject

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Proxy describes a proxy that another product adds to pods. It takes the inbound connections of
// the pod, or ports of the sidecar, so a pod with both serves nothing, or serves past one of them.
type Proxy struct {
	// Product is its name.
	Product string
	// Remedy keeps the proxy out of a pod template.
	Remedy string

	containers []string // names of its containers, each also with a suffix after a dash
	images     []string // ends of its images, without a tag
	decides    []string // pod labels or annotations that decide, whatever the namespace has
	announces  []string // further ones that announce the proxy, or record it
	namespace  []string // labels of the namespace that announce it
	routes     bool     // it routes the requests that the pod sends
}

// proxies returns the proxies that are known.
func proxies() []Proxy {
	return []Proxy{
		{Product: "Istio", Remedy: `set the label sidecar.istio.io/inject: "false" on the pod template to keep Istio's proxy out, or let Istio route instead (istio.enabled of the chart) and remove ` + AnnotationInject,
			containers: []string{"istio-proxy", "istio-init", "istio-validation"}, images: []string{"istio/proxyv2"},
			decides: []string{"sidecar.istio.io/inject"}, announces: []string{"sidecar.istio.io/status", "istio.io/rev"},
			namespace: []string{"istio-injection", "istio.io/rev"}, routes: true},
		{Product: "Istio's ambient mode", Remedy: "set the label istio.io/dataplane-mode: none on the pod template",
			decides: []string{"istio.io/dataplane-mode"}, announces: []string{AnnotationAmbient}, namespace: []string{"istio.io/dataplane-mode"}},
		{Product: "Linkerd", Remedy: "set the annotation linkerd.io/inject: disabled on the pod template to keep Linkerd's proxy out, or let Linkerd route instead (linkerd.gatewayAPI.enabled of the chart) and remove " + AnnotationInject,
			containers: []string{"linkerd-proxy", "linkerd-init", "linkerd-network-validator"}, images: []string{"linkerd/proxy"},
			decides: []string{"linkerd.io/inject"}, announces: []string{"linkerd.io/proxy-version"}, routes: true},
		{Product: "Consul", Remedy: `set the annotation consul.hashicorp.com/connect-inject: "false" on the pod template`,
			containers: []string{"consul-dataplane", "consul-connect-inject-init", "consul-connect-envoy-sidecar", "envoy-sidecar"}, images: []string{"hashicorp/consul-dataplane"},
			decides: []string{"consul.hashicorp.com/connect-inject"}, announces: []string{"consul.hashicorp.com/connect-inject-status"}, routes: true},
		{Product: "Dapr", Remedy: `set the annotation dapr.io/enabled: "false" on the pod template`,
			containers: []string{"daprd"}, images: []string{"daprio/daprd", "dapr/daprd"},
			decides: []string{"dapr.io/enabled"}, announces: []string{"dapr.io/sidecar-injected"}},
		{Product: "Kuma", Remedy: "set the label kuma.io/sidecar-injection: disabled on the pod template",
			containers: []string{"kuma-sidecar", "kuma-init", "kuma-validation"}, images: []string{"kumahq/kuma-dp", "kong/kuma-dp"},
			decides: []string{"kuma.io/sidecar-injection"}, announces: []string{"kuma.io/sidecar-injected"}, namespace: []string{"kuma.io/sidecar-injection"}, routes: true},
		{Product: "Open Service Mesh", Remedy: "set the annotation openservicemesh.io/sidecar-injection: disabled on the pod template",
			containers: []string{"osm-init"}, decides: []string{"openservicemesh.io/sidecar-injection"}},
		{Product: "AWS App Mesh", Remedy: "set the annotation appmesh.k8s.aws/sidecarInjectorWebhook: disabled on the pod template",
			containers: []string{"proxyinit"}, images: []string{"aws-appmesh-envoy"},
			decides: []string{"appmesh.k8s.aws/sidecarInjectorWebhook"}, namespace: []string{"appmesh.k8s.aws/sidecarInjectorWebhook"}},
		{Product: "NGINX Service Mesh", Remedy: `set the annotation injector.nsm.nginx.com/auto-inject: "false" on the pod template`,
			containers: []string{"nginx-mesh-sidecar", "nginx-mesh-init"}, decides: []string{"injector.nsm.nginx.com/auto-inject"}},
		{Product: "Telepresence", Remedy: "remove its traffic agent from the workload (telepresence uninstall), and its annotation from the pod template",
			containers: []string{"traffic-agent", "tel-agent-init"},
			decides:    []string{"telepresence.io/inject-traffic-agent", "telepresence.getambassador.io/inject-traffic-agent"}},
	}
}

// AnnotationAmbient is set by Istio's ambient mode on pods when it redirects their traffic.
const AnnotationAmbient = "ambient.istio.io/redirection"

// InMesh reports whether a mesh routes the requests that a pod sends: the pod has a proxy of a mesh, or
// Istio's ambient mode redirects its traffic.
func InMesh(pod *corev1.Pod) bool {
	return pod.Annotations[AnnotationAmbient] == "enabled" ||
		slices.ContainsFunc(proxies(), func(p Proxy) bool { return p.routes && p.container(pod) != "" })
}

// ProxyOf returns the proxy that has containers of this name; false when none is known.
func ProxyOf(container string) (Proxy, bool) {
	all := proxies()
	i := slices.IndexFunc(all, func(p Proxy) bool { return p.owns(container) })
	if i < 0 {
		return Proxy{}, false
	}
	return all[i], true
}

func (p Proxy) owns(container string) bool {
	return slices.ContainsFunc(p.containers, func(name string) bool { return container == name || strings.HasPrefix(container, name+"-") })
}

// proxyObstacle returns which proxy of another product the pod has, or is to get.
func proxyObstacle(pod *corev1.Pod, ns Namespace) string {
	for _, p := range proxies() {
		found := p.container(pod)
		if found == "" {
			found = p.announced(pod, ns)
		}
		if found != "" {
			return fmt.Sprintf("%s: the proxy of %s and the sidecar would both take the pod's inbound connections or ports, so only one of them can be in a pod: %s",
				found, p.Product, p.Remedy)
		}
	}
	return ""
}

// container names a container of the proxy; empty when the pod has none.
func (p Proxy) container(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if p.owns(c.Name) || slices.ContainsFunc(p.images, func(end string) bool { return imageIs(c.Image, end) }) {
			return "the pod has the container " + c.Name
		}
	}
	return ""
}

// imageIs reports whether an image, without its tag and digest, is this one of any registry.
func imageIs(image, end string) bool {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image = image[:colon]
	}
	return image == end || strings.HasSuffix(image, "/"+end)
}

// announced names the label or annotation by which the proxy is announced: what decides on the pod
// comes before the rest, and what the pod has before the labels of its namespace.
func (p Proxy) announced(pod *corev1.Pod, ns Namespace) string {
	for _, key := range slices.Concat(p.decides, p.announces) {
		for _, has := range []struct {
			what   string
			values map[string]string
		}{{"label", pod.Labels}, {"annotation", pod.Annotations}} {
			value, said := has.values[key]
			if said && isOn(value) {
				return fmt.Sprintf("the pod has the %s %s: %q", has.what, key, value)
			}
			if said && slices.Contains(p.decides, key) {
				return ""
			}
		}
	}
	for _, key := range p.namespace {
		if value, said := ns.Labels[key]; said {
			if isOn(value) {
				return fmt.Sprintf("namespace %s has the label %s: %q", ns.Name, key, value)
			}
			return ""
		}
	}
	return ""
}

// isOn reports whether the value of a label or annotation asks for a proxy.
func isOn(value string) bool {
	return !slices.Contains([]string{"", "false", "disabled", "none", "no", "off", "n", "0"}, strings.ToLower(value))
}

// portObstacle finds a container that listens on a port of the sidecar without declaring it, as far
// as its probes, arguments and variables show.
func portObstacle(pod *corev1.Pod) string {
	for _, c := range Lasting(pod.Spec) {
		for _, port := range OwnPorts() {
			if by := cmp.Or(probed(&c, port), configured(&c, port)); by != "" {
				return fmt.Sprintf("container %s listens on port %d, as its %s shows, which is the sidecar's own: use another for the workload", c.Name, port, by)
			}
		}
	}
	return ""
}

// probed names the probe of a container that asks this port of the pod; empty when none does.
func probed(c *corev1.Container, port uint16) string {
	for _, probe := range []struct {
		name string
		*corev1.Probe
	}{{"startupProbe", c.StartupProbe}, {"readinessProbe", c.ReadinessProbe}, {"livenessProbe", c.LivenessProbe}} {
		if probe.Probe == nil {
			continue
		}
		http, tcp, grpc := probe.HTTPGet, probe.TCPSocket, probe.GRPC
		if http != nil && http.Host == "" && http.Port.IntValue() == int(port) ||
			tcp != nil && tcp.Host == "" && tcp.Port.IntValue() == int(port) || grpc != nil && grpc.Port == int32(port) {
			return probe.name
		}
	}
	return ""
}

// configured names the argument or variable of a container that has this port as its own.
func configured(c *corev1.Container, port uint16) string {
	if slices.ContainsFunc(slices.Concat(c.Command, c.Args), func(arg string) bool { return ownPort(arg, port) }) {
		return "command line"
	}
	for _, v := range c.Env {
		if ownPort(v.Value, port) {
			return "variable " + v.Name
		}
	}
	return ""
}

// ownPort reports whether a text has a port as a word of its own, or as that of an address of the
// pod itself: 15021, --port=15021, :15021, 0.0.0.0:15021, http://localhost:15021/path.
func ownPort(text string, port uint16) bool {
	number := fmt.Sprint(port)
	if !strings.Contains(text, number) {
		return false
	}
	local := []string{"", "0.0.0.0", "[::]", "::", "*", "localhost", "127.0.0.1", "[::1]"}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n,;=\"'`(){}|&<>", r) }) {
		if _, after, found := strings.Cut(word, "://"); found {
			word = after
		}
		word, _, _ = strings.Cut(word, "/")
		if colon := strings.LastIndex(word, ":"); word == number || colon >= 0 && word[colon+1:] == number && slices.Contains(local, word[:colon]) {
			return true
		}
	}
	return false
}
