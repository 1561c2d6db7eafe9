package execunit_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/execunit"
)

// FuzzUnits looks for a unit, and for the status of its pod, that panic, that are refused
// without saying why, or that get a pod which is not bound as it has to be. That the API server
// takes the pods is in tests/specs.
func FuzzUnits(f *testing.F) {
	for _, r := range refusals() {
		if len(r.text()) < 4096 {
			f.Add(r.text(), "{}")
		}
	}
	for _, all := range [][]sight{waitingSights(), endedSights(), interruptedSights()} {
		for _, s := range all {
			f.Add(giving, s.status)
		}
	}
	f.Fuzz(func(t *testing.T, text, status string) {
		var u crdv1.WorkUnit
		if yaml.Unmarshal([]byte(text), &u) != nil {
			return
		}
		p := execunit.Accept(u, "own", settings)
		if p != nil && (p.Reason == "" || strings.TrimSpace(p.Message) == "" || len(p.Message) > 2048) {
			t.Fatalf("%+v", p)
		}
		pod := execunit.Pod(u, identity, settings)
		if p == nil {
			bound(t, u, pod)
		}
		_ = yaml.Unmarshal([]byte(status), &pod.Status)
		if o := execunit.Observe(execunit.ObservedOf(u, pod), pod); o.State == "" || len(o.Message) > 2048 || (o.Reason == "") != (o.Message == "") {
			t.Fatalf("%+v", o)
		}
		execunit.Observe(execunit.Observed{}, &corev1.Pod{Status: pod.Status})
		execunit.Reads(u)
	})
}

// bound fails a test unless a pod can do no more than it may.
func bound(t *testing.T, u crdv1.WorkUnit, pod *corev1.Pod) {
	t.Helper()
	s := pod.Spec
	if s.RestartPolicy != corev1.RestartPolicyNever || s.HostNetwork {
		t.Fatalf("it may do more: %+v", s)
	}
	asked := u.ExecUnitTemplate.PodTemplate.Spec
	asks := asked.ServiceAccountName != "" || asked.DeprecatedServiceAccount != "" || asked.AutomountServiceAccountToken != nil && *asked.AutomountServiceAccountToken
	if mounts := s.AutomountServiceAccountToken == nil || *s.AutomountServiceAccountToken; (mounts || s.ServiceAccountName != "default") && (!asks || pod.Namespace == settings.OperatorNamespace) {
		t.Fatalf("it has a service account: %+v", s)
	}
	for _, c := range append(s.InitContainers, s.Containers...) {
		ours := c.Name == execunit.InputManager || c.Name == execunit.OutputManager
		for _, m := range c.VolumeMounts {
			if m.Name == execunit.VolumeToken && !ours {
				t.Fatalf("the container %s has the token", c.Name)
			}
		}
		if p := c.SecurityContext; !ours && p != nil && p.Privileged != nil && *p.Privileged {
			t.Fatalf("the container %s is privileged", c.Name)
		}
	}
}
