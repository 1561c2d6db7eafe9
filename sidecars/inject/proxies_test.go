package inject

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Two proxies in a pod take each other's ports or connections: the baseline would not start, or
// would serve past one of them.
func TestNoSidecarBesideAnotherProxy(t *testing.T) {
	container := func(name, image string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Image: image})
		}
	}
	native := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name, RestartPolicy: new(corev1.ContainerRestartPolicyAlways)})
		}
	}
	label := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels[key] = value }
	}
	annotation := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[key] = value }
	}
	all := func(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, change := range changes {
				change(p)
			}
		}
	}
	of := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.Containers[0]) }
	}
	in := func(key, value string) Namespace {
		return Namespace{Name: "shop", Labels: map[string]string{key: value}}
	}
	shop := Namespace{Name: "shop"}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		ns     Namespace
		reason string // empty: it gets its sidecar
	}{
		"Istio's container":                 {container("istio-proxy", ""), shop, "container istio-proxy: the proxy of Istio"},
		"Istio's native sidecar":            {native("istio-proxy"), shop, "container istio-proxy"},
		"Istio's redirection":               {native("istio-init"), shop, "container istio-init"},
		"Istio's image by another name":     {container("gate", "registry:5000/istio/proxyv2:1.2@sha256:0"), shop, "container gate: the proxy of Istio"},
		"Istio, recorded":                   {annotation("sidecar.istio.io/status", "{}"), shop, "annotation sidecar.istio.io/status"},
		"Istio, announced by a label":       {label("sidecar.istio.io/inject", "true"), shop, `label sidecar.istio.io/inject: "true"`},
		"Istio, announced by an annotation": {annotation("sidecar.istio.io/inject", "true"), shop, "annotation sidecar.istio.io/inject"},
		"a revision of Istio":               {label("istio.io/rev", "canary"), shop, "istio.io/rev"},
		"a namespace of Istio":              {all(), in("istio-injection", "enabled"), `namespace shop has the label istio-injection: "enabled"`},
		"a namespace of a revision":         {all(), in("istio.io/rev", "canary"), "namespace shop has the label istio.io/rev"},
		"a pod that Istio leaves out":       {label("sidecar.istio.io/inject", "false"), in("istio-injection", "enabled"), ""},
		"a namespace that Istio leaves out": {all(), in("istio-injection", "disabled"), ""},
		"ambient mode":                      {all(), in("istio.io/dataplane-mode", "ambient"), "Istio's ambient mode"},
		"ambient mode of the pod":           {label("istio.io/dataplane-mode", "ambient"), shop, "istio.io/dataplane-mode: none"},
		"a pod that ambient mode leaves out": {label("istio.io/dataplane-mode", "none"),
			in("istio.io/dataplane-mode", "ambient"), ""},
		"Linkerd's container":          {container("linkerd-proxy", ""), shop, "the proxy of Linkerd"},
		"Linkerd, announced":           {annotation("linkerd.io/inject", "ingress"), shop, "linkerd.io/inject: disabled"},
		"Linkerd, kept out":            {annotation("linkerd.io/inject", "disabled"), shop, ""},
		"Consul's container":           {container("consul-dataplane", ""), shop, "the proxy of Consul"},
		"Consul's of one of two ports": {container("consul-dataplane-web", ""), shop, "the proxy of Consul"},
		"Consul, announced":            {annotation("consul.hashicorp.com/connect-inject", "true"), shop, "consul.hashicorp.com/connect-inject"},
		"Dapr's container":             {container("daprd", ""), shop, "the proxy of Dapr"},
		"Dapr's native sidecar":        {native("daprd"), shop, "the proxy of Dapr"},
		"Dapr, announced":              {annotation("dapr.io/enabled", "true"), shop, `dapr.io/enabled: "false"`},
		"Kuma's container":             {container("kuma-sidecar", ""), shop, "the proxy of Kuma"},
		"Kuma, announced by a label":   {label("kuma.io/sidecar-injection", "enabled"), shop, "kuma.io/sidecar-injection"},
		"a namespace of Kuma":          {all(), in("kuma.io/sidecar-injection", "enabled"), "namespace shop has the label kuma.io/sidecar-injection"},

		"a probe of the sidecar's port": {of(func(c *corev1.Container) {
			c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(15021)}}}
		}), shop, "container app listens on port 15021, as its readinessProbe shows"},
		"a flag":                     {of(func(c *corev1.Container) { c.Args = []string{"customer", "--customer-service-port=15021"} }), shop, "as its command line shows"},
		"an address in a script":     {of(func(c *corev1.Container) { c.Command = []string{"sh", "-c", "exec serve -a '0.0.0.0:15006'"} }), shop, "port 15006"},
		"a variable":                 {of(func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "PORT", Value: "15006"}} }), shop, "as its variable PORT shows"},
		"a variable in JSON":         {of(func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "CONFIG", Value: `{"port":15006}`}} }), shop, "variable CONFIG"},
		"the port of another pod":    {of(func(c *corev1.Container) { c.Args = []string{"--upstream=http://gate.istio-system:15021/ready"} }), shop, ""},
		"a longer number":            {of(func(c *corev1.Container) { c.Args = []string{"--quota=150210", "1502115006"} }), shop, ""},
		"an Envoy of the workload":   {container("envoy", "envoyproxy/envoy:v1.31"), shop, ""},
		"a name that only begins so": {container("istio-proxyless", "app"), shop, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(baseline(c.change), c.ns, testConfig())
			if !got.Asked || got.Inject != (c.reason == "") || !strings.Contains(got.Reason, c.reason) {
				t.Errorf("inject %v, reason %q; want %q", got.Inject, got.Reason, c.reason)
			}
		})
	}
}

// TestInMesh asks which pods have their requests routed by a mesh.
func TestInMesh(t *testing.T) {
	with := func(init bool, name string) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
		if c := (corev1.Container{Name: name}); init {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		} else {
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		return p
	}
	ambient := func(value string) *corev1.Pod {
		p := with(false, "other")
		p.Annotations = map[string]string{AnnotationAmbient: value}
		return p
	}
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"Istio":                       {with(false, "istio-proxy"), true},
		"Istio, as a native sidecar":  {with(true, "istio-proxy"), true},
		"Linkerd":                     {with(true, "linkerd-proxy"), true},
		"Istio's ambient mode":        {ambient("enabled"), true},
		"the ambient mode, not there": {ambient("pending"), false},
		"Dapr, which routes nothing":  {with(false, "daprd"), false},
		"none":                        {with(false, "other"), false},
	} {
		if got := InMesh(tt.pod); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
