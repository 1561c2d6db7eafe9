package inject

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"switchyard.dev/sidecars/devmesh"
)

func many(n int) []string {
	var out []string
	for i := range n {
		out = append(out, strconv.Itoa(i+1))
	}
	return out
}

func tcp(port intstr.IntOrString) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}},
		InitialDelaySeconds: 3, TimeoutSeconds: 4, PeriodSeconds: 5, SuccessThreshold: 1, FailureThreshold: 6,
		TerminationGracePeriodSeconds: new(int64(7))}
}

// asked is the same probe, of the sidecar.
func asked(port int) *corev1.Probe {
	p := tcp(intstr.FromInt32(0))
	p.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: fmt.Sprintf("/probe/tcp/%d", port), Port: intstr.FromInt32(15021), Scheme: "HTTP"}}
	return p
}

// injected returns a baseline's pod, changed, as it comes out.
func injected(t *testing.T, change func(*corev1.Pod)) corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(baseline(change))
	if err != nil {
		t.Fatal(err)
	}
	return patched(t, raw, testConfig())
}

func patched(t *testing.T, raw []byte, cfg Config) corev1.Pod {
	t.Helper()
	result, err := Inject(raw, Namespace{Name: "shop"}, cfg)
	if err != nil || !result.Inject {
		t.Fatalf("%s %v", result.Reason, err)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(apply(t, raw, result.Patch), &pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// called finds a container by its name.
func called(t *testing.T, pod corev1.Pod, name string) corev1.Container {
	t.Helper()
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if c.Name == name {
			return c
		}
	}
	t.Fatal("no container", name)
	return corev1.Container{}
}

func TestTCPProbes(t *testing.T) {
	plain := tcp(intstr.FromInt32(8081))
	elsewhere := tcp(intstr.FromInt32(8081))
	elsewhere.TCPSocket.Host = "10.0.0.1"
	cases := map[string]struct {
		annotations map[string]string
		ports       []corev1.ContainerPort
		probe, want *corev1.Probe
	}{
		"of a redirected port ask the sidecar":                      {nil, nil, plain, asked(8081)},
		"of a port that is not declared too":                        {nil, nil, tcp(intstr.FromInt32(9999)), asked(9999)},
		"of a port that passes the sidecar unseen too":              {nil, nil, tcp(intstr.FromInt32(3306)), asked(3306)},
		"of an excluded port stay":                                  {map[string]string{AnnotationExcludePorts: "9000"}, nil, tcp(intstr.FromInt32(9000)), tcp(intstr.FromInt32(9000))},
		"of a named port":                                           {nil, []corev1.ContainerPort{{Name: "db", ContainerPort: 5432}}, tcp(intstr.FromString("db")), asked(5432)},
		"of a number in quotes":                                     {nil, nil, tcp(intstr.FromString("5432")), asked(5432)},
		"of a name that is of no port stay, for the kubelet to say": {nil, nil, tcp(intstr.FromString("db")), tcp(intstr.FromString("db"))},
		"of a named port that is excluded stay": {map[string]string{AnnotationExcludePorts: "5432"},
			[]corev1.ContainerPort{{Name: "db", ContainerPort: 5432}, {ContainerPort: 80}}, tcp(intstr.FromString("db")), tcp(intstr.FromString("db"))},
		"of another host stay": {nil, nil, elsewhere, elsewhere},
		"of port 0 stay":       {nil, nil, tcp(intstr.FromInt32(0)), tcp(intstr.FromInt32(0))},
		"of no port there is":  {nil, nil, tcp(intstr.FromInt32(70000)), tcp(intstr.FromInt32(70000))},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := injected(t, func(p *corev1.Pod) {
				for k, v := range c.annotations {
					p.Annotations[k] = v
				}
				if c.ports != nil {
					p.Spec.Containers[0].Ports = c.ports
				}
				p.Spec.Containers[0].LivenessProbe = c.probe
			})
			if diff := cmp.Diff(c.want, called(t, pod, "app").LivenessProbe); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEveryTCPProbeOfEveryContainerThatLastsAsksTheSidecar(t *testing.T) {
	one := func(name string, policy *corev1.ContainerRestartPolicy, port int32) corev1.Container {
		p := intstr.FromInt32(port)
		return corev1.Container{Name: name, RestartPolicy: policy, LivenessProbe: tcp(p), ReadinessProbe: tcp(p), StartupProbe: tcp(p)}
	}
	pod := injected(t, func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{one("app", nil, 80), one("log", nil, 81)}
		p.Spec.InitContainers = []corev1.Container{one("once", nil, 82), one("stays", new(corev1.ContainerRestartPolicyAlways), 83)}
	})
	for name, want := range map[string]*corev1.Probe{"app": asked(80), "log": asked(81), "once": tcp(intstr.FromInt32(82)), "stays": asked(83)} {
		c := called(t, pod, name)
		for _, got := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestOtherProbesStay(t *testing.T) {
	probes := map[string]corev1.ProbeHandler{
		"httpGet": {HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8081)}},
		"grpc":    {GRPC: &corev1.GRPCAction{Port: 8081}},
		"exec":    {Exec: &corev1.ExecAction{Command: []string{"true"}}},
		"two at once, which the API server refuses": {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)},
			Exec: &corev1.ExecAction{Command: []string{"true"}}},
	}
	for name, handler := range probes {
		pod := injected(t, func(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: handler} })
		if diff := cmp.Diff(handler, called(t, pod, "app").ReadinessProbe.ProbeHandler); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAProbeWithSomethingUnknownInItStays(t *testing.T) {
	const stays = `"containers":[{"name":"app","image":"i","livenessProbe":{"tcpSocket":{"port":80,"tls":true}}}]`
	const goes = `"Containers":[{"name":"app","image":"i","livenessProbe":{"tcpSocket":{"port":80}}}]`
	for name, containers := range map[string]string{"a field of a newer API": stays, "letters that Kubernetes does not write": goes,
		"a probe in such letters": `"containers":[{"name":"app","image":"i","LivenessProbe":{"tcpSocket":{"port":80}}}]`} {
		raw := []byte(`{"metadata":{"annotations":{"` + AnnotationInject + `":"true"},"labels":{"pod-template-hash":"x"},
			"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"a-x","uid":"u","controller":true}]},
			"spec":{"serviceAccountName":"default",` + containers + `}}`)
		if got := called(t, patched(t, raw, testConfig()), "app").LivenessProbe; got.TCPSocket == nil || got.HTTPGet != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTheSidecarKnowsWhereToProbe(t *testing.T) {
	for _, v := range called(t, injected(t, func(*corev1.Pod) {}), devmesh.ContainerName).Env {
		if v.Name == devmesh.EnvPodIP && v.ValueFrom != nil && v.ValueFrom.FieldRef.FieldPath == "status.podIP" {
			return
		}
	}
	t.Errorf("no %s from status.podIP", devmesh.EnvPodIP)
}
