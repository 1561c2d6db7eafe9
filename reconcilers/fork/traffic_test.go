package fork_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/reconcilers/fork/traffic"

	appsv1 "k8s.io/api/apps/v1"
)

var recording = traffic.Settings{Image: "traffic-sidecar:1", Manager: "traffic-manager.signadot.svc:7444", CA: "pem"}

func TestTheContainerThatRecords(t *testing.T) {
	bare := clone(t, fork.Plan{})
	part := recording.Part(bare.Spec.Template.Spec)
	with, is := part.With(bare).(*appsv1.Deployment)
	if !is || len(with.Spec.Template.Spec.InitContainers) != len(bare.Spec.Template.Spec.InitContainers)+1 {
		t.Fatalf("the fork is %T with %d init containers", part.With(bare), len(with.Spec.Template.Spec.InitContainers))
	}
	c := with.Spec.Template.Spec.InitContainers[0]
	if c.Name != traffic.ContainerName || c.RestartPolicy == nil || len(c.Ports) > 0 || !*c.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation ||
		!*c.SecurityContext.ReadOnlyRootFilesystem || c.SecurityContext.Capabilities.Drop[0] != "ALL" || c.StartupProbe.Exec == nil {
		t.Errorf("the container is %+v", c)
	}
	token := with.Spec.Template.Spec.Volumes[len(with.Spec.Template.Spec.Volumes)-3]
	if token.Projected == nil || len(token.Projected.Sources) != 1 || token.Projected.Sources[0].ServiceAccountToken.Audience != "traffic.signadot.com" {
		t.Errorf("the token is %+v", token)
	}
	for _, other := range with.Spec.Template.Spec.Containers {
		for _, m := range other.VolumeMounts {
			if m.Name == token.Name {
				t.Errorf("container %s mounts the token", other.Name)
			}
		}
	}
	if len(bare.Spec.Template.Spec.InitContainers) == len(with.Spec.Template.Spec.InitContainers) {
		t.Error("the clone itself was changed")
	}
	if diff := cmp.Diff(part, traffic.PartOf(with)); diff != "" {
		t.Error("an existing fork has another container than it was written with:", diff)
	}
	if again := traffic.PartOf(with).With(clone(t, fork.Plan{})); cmp.Diff(with, again) != "" {
		t.Error("written again, the fork is another one:", cmp.Diff(with, again))
	}
}

func TestPodsThatCannotKeepASecretRecordNothing(t *testing.T) {
	for name, pod := range map[string]corev1.PodSpec{
		"the network of the node": {HostNetwork: true},
		"processes that are seen": {ShareProcessNamespace: new(true)},
	} {
		if part := recording.Part(pod); part.Container != nil {
			t.Errorf("%s: there is a container", name)
		}
	}
	if part := (traffic.Settings{}).Part(corev1.PodSpec{}); part.Container != nil {
		t.Error("without an image there is a container")
	}
}

func TestPatchesCannotTakeTheTokenOfTheContainerThatRecords(t *testing.T) {
	for name, patch := range map[string]string{
		"its volume":           `[{strategic: {spec: {template: {spec: {containers: [{name: main, volumeMounts: [{name: signadot-traffic-token, mountPath: /t}]}]}}}}}]`,
		"its name":             `[{strategic: {spec: {template: {spec: {containers: [{name: signadot-traffic, image: i}]}}}}}]`,
		"a volume of its name": `[{strategic: {spec: {template: {spec: {volumes: [{name: signadot-traffic-state, emptyDir: {}}]}}}}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			p := refusal(t, fork.Plan{Patches: patches(t, patch)})
			mustContain(t, p.Message, "signadot-traffic", "rename it")
		})
	}
}

// capture is attached to the fork; redirected: its requests are recorded.
func capture(redirected bool, ports ...crdv1.CapturedPort) crdv1.TrafficCapture {
	c := crdv1.TrafficCapture{}
	c.Status.Pods = []crdv1.CapturedPod{{Name: "a", UID: "a", Workload: identity().ForkedWorkload, Ports: ports}}
	if redirected {
		c.Status.Redirected = []crdv1.CapturedFork{{Name: identity().ForkedWorkload, Ports: ports}}
	}
	return c
}

func TestServicesWhileACaptureIsAttached(t *testing.T) {
	of := service(t, `{metadata: {name: customer}, spec: {selector: {app: customer}, ports: [{name: web, port: 80, targetPort: http, protocol: TCP}, {name: plain, port: 9, targetPort: 9999, protocol: TCP}]}}`)
	web := crdv1.CapturedPort{Application: 8081, Listening: 25801}
	pod := clone(t, fork.Plan{}).Spec.Template.Spec
	for name, c := range map[string]struct {
		captures []crdv1.TrafficCapture
		beside   int
		target   intstr.IntOrString // of port 80 of the Service that replaces the baseline's
		second   bool
	}{
		"none":                      {nil, 0, intstr.FromString("http"), false},
		"of another port":           {[]crdv1.TrafficCapture{capture(true, crdv1.CapturedPort{Application: 1, Listening: 2})}, 0, intstr.FromString("http"), false},
		"attached":                  {[]crdv1.TrafficCapture{capture(false, web)}, 1, intstr.FromString("http"), false},
		"redirected":                {[]crdv1.TrafficCapture{capture(true, web)}, 1, intstr.FromInt32(25801), true},
		"one of two that has ended": {[]crdv1.TrafficCapture{capture(false, web), capture(true, web)}, 1, intstr.FromInt32(25801), true},
		"of another ForkedWorkload": {[]crdv1.TrafficCapture{{Status: crdv1.TrafficCaptureStatus{Pods: []crdv1.CapturedPod{{Workload: "x", Ports: []crdv1.CapturedPort{web}}}}}}, 0, intstr.FromString("http"), false},
	} {
		t.Run(name, func(t *testing.T) {
			all := mapped(t, "[]", of)
			first := all[0].Service.Name
			beside := services.Redirect(all, pod, c.captures, identity().ForkedWorkload)
			if len(beside) != c.beside {
				t.Fatalf("there are %d further Services", len(beside))
			}
			s := all[0].Service
			if got := s.Spec.Ports[0].TargetPort; got != c.target {
				t.Errorf("port 80 goes to %s", got.String())
			}
			if got := s.Spec.Ports[1].TargetPort; got != intstr.FromInt32(9999) {
				t.Errorf("port 9 goes to %s", got.String())
			}
			if is := s.Name == services.TrafficName(first, false); is != c.second {
				t.Errorf("Service %s replaces the baseline's", s.Name)
			}
			if c.second && (beside[0].Name != first || beside[0].Spec.Ports[0].TargetPort != c.target) {
				t.Errorf("beside it is %s, port 80 to %s", beside[0].Name, beside[0].Spec.Ports[0].TargetPort.String())
			}
			if c.beside == 1 && !c.second && (beside[0].Name != services.TrafficName(first, false) || beside[0].Spec.Ports[0].TargetPort != intstr.FromInt32(25801)) {
				t.Errorf("beside it is %s, port 80 to %s", beside[0].Name, beside[0].Spec.Ports[0].TargetPort.String())
			}
			if len(all[0].Ports) != 2 || all[0].Ports[1].TargetPort != 8081 {
				t.Errorf("the ports of the baseline are %+v", all[0].Ports)
			}
		})
	}
}
