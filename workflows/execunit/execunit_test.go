package execunit_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/execunit"
)

// settings are those of most tests.
var settings = execunit.Settings{InitImage: "io-init:1", SidecarImage: "io-sidecar:1", Address: "https://io-context-server.signadot:8443", CA: "PEM", OperatorNamespace: "signadot", AuthorAsked: true}

// identity is that of most tests.
var identity = execunit.Identity{Lifecycle: "sb-db", UID: "11111111-1111-1111-1111-111111111111", Unit: "make", Attempt: 1, Sandbox: "sb", Resource: "sb-db", Pod: "sb-db-make-1-random"}

// unit reads one.
func unit(t *testing.T, text string) crdv1.WorkUnit {
	t.Helper()
	var u crdv1.WorkUnit
	if err := yaml.UnmarshalStrict([]byte(text), &u); err != nil {
		t.Fatal(err)
	}
	return u
}

const plain = `
name: make
type: ExecUnit
execUnitTemplate:
  script: "#!/bin/sh"
  podTemplate: {spec: {containers: [{name: main, image: "runner:1"}]}}
`

func TestAPlainUnitGoesThrough(t *testing.T) {
	u := unit(t, plain)
	if p := execunit.Accept(u, "", settings); p != nil {
		t.Fatal(p)
	}
	pod := execunit.Pod(u, identity, settings)
	if o := execunit.Observe(execunit.ObservedOf(u, pod), pod); o.State != execunit.Waiting || o.Begun {
		t.Errorf("%+v", o)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		{Name: execunit.OutputManager, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
	}
	if o := execunit.Observe(execunit.ObservedOf(u, pod), pod); o.State != execunit.Succeeded || !o.Begun {
		t.Errorf("%+v", o)
	}
}
