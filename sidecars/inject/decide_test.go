package inject

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect/spec"
)

func testConfig() Config {
	return Config{
		Sidecar:  Container{Image: "sidecar:dev"},
		Redirect: Container{Image: "redirect:dev"},
	}.WithDefaults()
}

// baseline is a pod of Deployment "customer" that asks for a sidecar, changed.
func baseline(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "customer-7d9f-",
			Labels:       map[string]string{"app": "customer", deploymentHash: "7d9f"},
			Annotations:  map[string]string{AnnotationInject: "true"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "customer-7d9f", UID: "u", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{
			Name: "app", Image: "app:1", Ports: []corev1.ContainerPort{{ContainerPort: 8081}}}}},
	}
	change(pod)
	return pod
}

// Without an authority a sidecar would speak plain where it is to speak TLS, and for as
// long as its pod lives.
func TestWithoutAnAuthorityNoSidecarIsPutIn(t *testing.T) {
	for name, c := range map[string]struct {
		tls    bool
		trust  string
		change func(*corev1.Pod)
		reason string
	}{
		"before there is one": {true, "", func(*corev1.Pod) {}, "no certificate authority yet: re-create the pod"},
		"once there is one":   {true, "authority", func(*corev1.Pod) {}, ""},
		"where none is asked": {false, "", func(*corev1.Pod) {}, ""},
		"beside what the pod must change": {true, "", func(p *corev1.Pod) { p.Spec.HostNetwork = true },
			"set hostNetwork to false"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.TLS, cfg.Trust = c.tls, c.trust
			got := Decide(baseline(c.change), Namespace{Name: "shop"}, cfg)
			if !got.Asked || got.Inject != (c.reason == "") || !strings.Contains(got.Reason, c.reason) {
				t.Errorf("%+v: want %q", got, c.reason)
			}
		})
	}
}

func TestDecideWhoGetsASidecar(t *testing.T) {
	shop := Namespace{Name: "shop"}
	cases := map[string]struct {
		change func(*corev1.Pod)
		ns     Namespace
		want   bool
		asked  bool
		reason string
	}{
		"a pod of a Deployment that asks": {func(*corev1.Pod) {}, shop, true, true, ""},
		"the older value http":            {func(p *corev1.Pod) { p.Annotations[AnnotationInject] = "http" }, shop, true, true, ""},
		"the older value grpc":            {func(p *corev1.Pod) { p.Annotations[AnnotationInject] = "grpc" }, shop, true, true, ""},
		"a pod that says false": {func(p *corev1.Pod) { p.Annotations[AnnotationInject] = "false" },
			Namespace{Name: "shop", Labels: map[string]string{AnnotationInject: "true"}}, false, false, `is "false"`},
		"a pod that does not ask": {func(p *corev1.Pod) { p.Annotations = nil }, shop, false, false, "neither the pod"},
		"a pod in a namespace that asks": {func(p *corev1.Pod) { p.Annotations = nil },
			Namespace{Name: "shop", Labels: map[string]string{AnnotationInject: "true"}}, true, true, ""},
		"a pod in a namespace that the API server selected": {func(p *corev1.Pod) { p.Annotations = nil },
			Namespace{Name: "shop", Selected: true}, true, true, ""},
		"a fork": {func(p *corev1.Pod) { p.Labels[LabelFork] = "x" }, shop, false, true, "only baselines"},
		"a pod on the node's network": {func(p *corev1.Pod) { p.Spec.HostNetwork = true }, shop, false, true,
			"set hostNetwork to false"},
		"a mirror pod": {func(p *corev1.Pod) { p.Annotations[annotationMirror] = "x" }, shop, false, true, "static pod"},
		"a Windows pod": {func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, shop, false, true,
			"needs Linux"},
		"a pod without a service account": {func(p *corev1.Pod) { p.Spec.ServiceAccountName = "" }, shop, false, true,
			"set serviceAccountName"},
		"a pod that has its sidecar": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: devmesh.ContainerName}}
		}, shop, false, false, "already"},
		"a system namespace": {func(*corev1.Pod) {}, Namespace{Name: "kube-system"}, false, true, "is excluded"},
		"our own namespace":  {func(*corev1.Pod) {}, Namespace{Name: "signadot"}, false, true, "is excluded"},
		"a namespace that turned webhooks off": {func(*corev1.Pod) {},
			Namespace{Name: "shop", Labels: map[string]string{LabelWebhooks: "disabled"}}, false, true, LabelWebhooks},
		"a namespace whose pod security forbids the redirect": {func(*corev1.Pod) {},
			Namespace{Name: "shop", Labels: map[string]string{labelPodSecurity: "baseline"}}, false, true, "forbids NET_ADMIN"},
		"a namespace that the API server found confined": {func(*corev1.Pod) {},
			Namespace{Name: "shop", Confined: true}, false, true, "forbids NET_ADMIN"},
		"a namespace whose pod security allows it": {func(*corev1.Pod) {},
			Namespace{Name: "shop", Labels: map[string]string{labelPodSecurity: "privileged"}}, true, true, ""},
		"a pod of its own": {func(p *corev1.Pod) { p.OwnerReferences = nil }, shop, false, true, "no owner"},
		"a pod of a Job": {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }, shop, false, true,
			"belongs to the Job customer-7d9f"},
		"a bare ReplicaSet": {func(p *corev1.Pod) { delete(p.Labels, deploymentHash) }, shop, false, true,
			"belongs to no Deployment or Rollout"},
		"a hash that is not the name's end": {func(p *corev1.Pod) { p.Labels[deploymentHash] = "beef" }, shop, false, true,
			"belongs to no Deployment or Rollout"},
		"a container that uses the sidecar's port": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports[0].ContainerPort = devmesh.ReadinessPort
		}, shop, false, true, "15021 is the sidecar's own"},
		"a container with the redirect's name": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Name = devmesh.InitContainerName
		}, shop, false, true, "rename it"},
		"a volume with the sidecar's name": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: devmesh.TokenVolume}}
		}, shop, false, true, "rename it"},
		"excluded ports that are no ports": {func(p *corev1.Pod) { p.Annotations[AnnotationExcludePorts] = "http" }, shop, false, true,
			`"http" is not a port`},
		"of several obstacles that of the namespace": {func(p *corev1.Pod) { p.Spec.HostNetwork, p.OwnerReferences = true, nil },
			Namespace{Name: "shop", Confined: true}, false, true, "forbids NET_ADMIN"},
		"of several obstacles in the pod that of the node before the owner": {func(p *corev1.Pod) {
			p.Spec.HostNetwork, p.OwnerReferences = true, nil
		}, shop, false, true, "hostNetwork"},
		"no port left": {func(p *corev1.Pod) { p.Annotations[AnnotationExcludePorts] = "8081" }, shop, false, true,
			"excludes every container port"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Decide(baseline(c.change), c.ns, testConfig())
			if got.Inject != c.want || got.Asked != c.asked {
				t.Errorf("inject %v, asked %v (%s); want %v, %v", got.Inject, got.Asked, got.Reason, c.want, c.asked)
			}
			if !strings.Contains(got.Reason, c.reason) || c.want && got.Reason != "" {
				t.Errorf("reason %q, want one with %q", got.Reason, c.reason)
			}
		})
	}
}

func TestOwnerOf(t *testing.T) {
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   Workload
	}{
		"a Deployment": {func(*corev1.Pod) {}, Workload{"Deployment", "shop", "customer"}},
		"a Deployment with dashes in its name": {func(p *corev1.Pod) { p.OwnerReferences[0].Name = "a-7d9f-b-7d9f" },
			Workload{"Deployment", "shop", "a-7d9f-b"}},
		"a Rollout": {func(p *corev1.Pod) { p.Labels = map[string]string{RolloutHash: "7d9f"} },
			Workload{"ArgoRollout", "shop", "customer"}},
		"an owner that does not control it": {func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, Workload{}},
		"a ReplicaSet of another group":     {func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "x.dev/v1" }, Workload{}},
		"a name that is nothing but the hash": {func(p *corev1.Pod) { p.OwnerReferences[0].Name = "-7d9f" },
			Workload{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, reason := OwnerOf(baseline(c.change), "shop")
			if got != c.want || (reason == "") != (got != Workload{}) {
				t.Errorf("got %+v with reason %q, want %+v", got, reason, c.want)
			}
		})
	}
}

func TestWhichPortsAreRedirected(t *testing.T) {
	own := OwnPorts()
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   spec.Spec
	}{
		"all, and not only those that are declared: a Service may lead to any": {func(*corev1.Pod) {}, spec.Spec{}},
		"all where none is declared": {func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }, spec.Spec{}},
		"all but those excluded": {func(p *corev1.Pod) {
			p.Annotations[AnnotationExcludePorts] = "9443,9000"
		}, spec.Spec{Except: []uint16{9000, 9443}}},
		"those of UDP say nothing": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 53, Protocol: "UDP"}}
			p.Annotations[AnnotationExcludePorts] = "53"
		}, spec.Spec{Except: []uint16{53}}},
		"some of the declared ones are left": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{
				{Name: "once", Ports: []corev1.ContainerPort{{ContainerPort: 1}}},
				{Name: "stays", Ports: []corev1.ContainerPort{{ContainerPort: 2}},
					RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
			p.Annotations[AnnotationExcludePorts] = "8081"
		}, spec.Spec{Except: []uint16{8081}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.want.All, c.want.To = true, devmesh.ListenerPort
			c.want.Except = spec.Normalize(append(c.want.Except, own...))
			got := Decide(baseline(c.change), Namespace{Name: "shop"}, testConfig())
			if diff := cmp.Diff(c.want, got.Ports); diff != "" || !got.Inject {
				t.Errorf("%s %s", got.Reason, diff)
			}
		})
	}
}

func TestLogLevel(t *testing.T) {
	cases := map[string]struct {
		annotation, want string
		unknown          []string
	}{
		"no annotation":                          {"", "", nil},
		"a level for all":                        {"debug", "debug", nil},
		"a level for this one wins":              {"sd-sidecar=error,debug", "error", nil},
		"in whatever order":                      {"debug, sd-sidecar = ERROR", "error", nil},
		"a level for another has no effect":      {"app=debug", "", nil},
		"the long word":                          {"warning", "warn", nil},
		"what is no level is reported":           {"loud,sd-sidecar=debug", "debug", []string{"loud"}},
		"what is no level for one is reported":   {"info,sd-sidecar=x", "info", []string{"sd-sidecar=x"}},
		"the later of two counts":                {"info,debug", "debug", nil},
		"empty items are passed over in silence": {",,info,", "info", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, unknown := LogLevel(c.annotation, devmesh.ContainerName)
			if got != c.want || !cmp.Equal(unknown, c.unknown) {
				t.Errorf("got %q, unknown %q; want %q, %q", got, unknown, c.want, c.unknown)
			}
		})
	}
}
