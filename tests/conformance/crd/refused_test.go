package crd_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// metav1Codecs reads and writes nothing but Kubernetes' own wrappers.
func metav1Codecs() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	return serializer.NewCodecFactory(scheme).WithoutConversion()
}

// wrong is a full object with one field made wrong.
type wrong struct {
	sentence string
	kind     string
	path     string // fields, with dots; a number is a place in a list
	value    any    // nil removes the field
	message  string // what the refusal has to say
}

func wrongObjects() []wrong {
	return []wrong{
		{"a sandbox has an id", "SignadotSandbox", "spec.id", nil, "spec.id: Required value"},
		{"an id has no capitals", "SignadotSandbox", "spec.id", "Abc", "spec.id in body should match"},
		{"an id does not end with a dash", "SignadotSandbox", "spec.id", "abc-", "spec.id in body should match"},
		{"an id is not empty", "SignadotSandbox", "spec.id", "", "spec.id in body should be at least 1 chars long"},
		{"an id has at most 32 characters", "SignadotSandbox", "spec.id", strings.Repeat("a", 33), "spec.id: Too long"},
		{"a name has at most 30 characters", "SignadotSandbox", "spec.name", strings.Repeat("a", 31), "spec.name: Too long"},
		{"a name begins with a letter", "SignadotSandbox", "spec.name", "1a", "spec.name in body should match"},
		{"a patch has a target", "SignadotSandbox", "spec.customization.patches.0.target", nil, "spec.customization.patches[0].target: Required value"},
		{"a target has a kind", "SignadotSandbox", "spec.customization.patches.1.target.kind", nil, "patches[1].target.kind: Required value"},
		{"a strategic patch is an object", "SignadotSandbox", "spec.customization.patches.0.strategic", "text", "must be of type object"},
		{"an operation of a JSON patch is an object", "SignadotSandbox", "spec.customization.patches.2.json.0", "text", "must be of type object"},
		{"a member outside begins with a small letter", "SignadotSandbox", "spec.externalWorkloads.0.name", "Route", "spec.externalWorkloads[0].name in body should match"},
		{"a unit has a known type", "Resource", "spec.olm.preStart.0.type", "Script", `supported values: "ExecUnit"`},
		{"the key of an IO context has at most 60 characters", "Resource", "spec.olm.preStart.0.inputs.1.iocontext.key", strings.Repeat("k", 61), "iocontext.key: Too long"},
		{"a pod template has containers", "SignadotObjectLifecycleMethods", "spec.preStart.0.execUnitTemplate.podTemplate.spec.containers", nil, "podTemplate.spec.containers: Required value"},
		{"an IO context has a name", "SignadotObjectLifecycleMethods", "spec.ioContextName", nil, "spec.ioContextName: Required value"},
		{"a route group has a key", "SignadotRouteGroup", "spec.routingKey", nil, "spec.routingKey: Required value"},
		{"a fork has a baseline", "ForkedWorkload", "spec.baseline", nil, "spec.baseline: Required value"},
		{"outputs are in a Secret or a ConfigMap", "ForkedWorkload", "spec.resourceTemplateData.db.outputKind", "Pod", `supported values: "Secret", "ConfigMap"`},
		{"an external workload has a workload id", "SignadotExternalWorkload", "spec.workloadID", nil, "spec.workloadID: Required value"},
		{"a port is a number", "SignadotExternalWorkload", "spec.tunnel.baselineToLocals.0.baselinePort", "http", "baselinePort: Invalid value"},
		{"a virtual workload has a baseline", "VirtualWorkload", "spec.baseline", nil, "spec.baseline: Required value"},
		{"a routing config lists its workloads", "RoutingConfig", "spec.sandboxedWorkloads", nil, "spec.sandboxedWorkloads: Required value"},
		{"a member is not a baseline", "RoutingConfig", "spec.sandboxedWorkloads.0.kind", "Deployment", `supported values: "ForkedWorkload", "SignadotExternalWorkload", "VirtualWorkload"`},
		{"an Istio route has mappings", "IstioRoute", "spec.managed.mappings", nil, "spec.managed.mappings: Required value"},
		{"a runner group has an image", "JobRunnerGroup", "spec.image", nil, "spec.image: Required value"},
		{"replicas are a number", "JobRunnerGroup", "spec.replicas", "3", "spec.replicas: Invalid value"},
		{"a capture has a sandbox", "TrafficCapture", "spec.sandbox", nil, "spec.sandbox: Required value"},
		{"a port is at most 65535", "TrafficCapture", "spec.port", 65536, "spec.port in body should be less than or equal to 65535"},
		{"a lease is at most two minutes", "TrafficCapture", "spec.lease.seconds", 3600, "spec.lease.seconds in body should be less than or equal to 120"},
		{"an override has a target", "TrafficCapture", "spec.override", map[string]any{"targets": []any{}}, "spec.override.targets in body should have at least 1 items"},
		{"an override is for a port", "TrafficCapture", "spec.override", map[string]any{"targets": []any{map[string]any{"address": "a:80"}}}, "spec.override.targets[0].port: Required value"},
		{"a part of nothing is no part", "TrafficCapture", "spec.samplePercent", 0, "spec.samplePercent in body should be greater than or equal to 1"},
		{"traces have 16 digits", "TrafficCapture", "spec.traces", "0af7651916cd43DD", "spec.traces in body should match"},
		{"a body is recorded up to a mebibyte", "TrafficCapture", "spec.limits.bodyBytes", 2 << 20, "spec.limits.bodyBytes in body should be less than or equal to 1048576"},
		{"the name of a header has no colon", "TrafficCapture", "spec.elide.requestHeaders.0", "x-key: v", "spec.elide.requestHeaders[0] in body should match"},
		{"a JSON path begins with a dollar", "TrafficCapture", "spec.elide.jsonPaths.0", "user.password", "spec.elide.jsonPaths[0] in body should match"},
		{"a job has content", "Job", "spec.content", nil, "spec.content: Required value"},
		{"the key is injected or not", "Job", "spec.trafficManager.injectRoutingKey", "Always", `supported values: "Disabled", "Auto"`},
	}
}

func (s *server) emptyNamesAreAccepted(t *testing.T) {
	objects := readObjects(t)
	for kind, path := range map[string]string{
		"SignadotSandbox":                "spec.name",
		"SignadotRouteGroup":             "spec.routingKey",
		"SignadotExternalWorkload":       "spec.name",
		"VirtualWorkload":                "spec.name",
		"SignadotObjectLifecycleMethods": "spec.ioContextName",
		"Resource":                       "spec.olm.preStart.0.name",
	} {
		object := objects[kind].full.DeepCopy()
		change(t, object.Object, strings.Split(path, "."), "")
		s.create(t, object)
	}
}

func (s *server) wrongObjectsAreRefused(t *testing.T) {
	objects := readObjects(t)
	for _, w := range wrongObjects() {
		t.Run(w.sentence, func(t *testing.T) {
			object := objects[w.kind].full.DeepCopy()
			change(t, object.Object, strings.Split(w.path, "."), w.value)
			_, err := s.of(w.kind, object.GetNamespace()).Create(within(t), object, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), w.message) {
				t.Errorf("%s with %s = %v: have the error %v, want one that says %q", w.kind, w.path, w.value, err, w.message)
			}
		})
	}
}

// change sets the field at a path, or removes it when the value is nil.
func change(t *testing.T, in any, path []string, value any) {
	t.Helper()
	switch node := in.(type) {
	case map[string]any:
		below, exists := node[path[0]]
		if !exists {
			t.Fatalf("there is no field %s to change", path[0])
		}
		switch {
		case len(path) > 1:
			change(t, below, path[1:], value)
		case value == nil:
			delete(node, path[0])
		default:
			node[path[0]] = value
		}
	case []any:
		place := int(path[0][0] - '0')
		if len(path) > 1 {
			change(t, node[place], path[1:], value)
		} else {
			node[place] = value
		}
	default:
		t.Fatalf("%v has no fields", in)
	}
}

func (s *server) jobsAreWrittenOnce(t *testing.T) {
	full := readObjects(t)["Job"].full
	kept := s.create(t, full)
	for _, w := range []wrong{
		{"artifacts", "Job", "spec.artifacts.0.path", "/other", "Artifacts is immutable"},
		{"content", "Job", "spec.content.script", "#!/bin/sh", "Content is immutable"},
		{"env", "Job", "spec.env.0.value", "other", "Env is immutable"},
		{"routing context", "Job", "spec.routingContext.sandboxName", "other", "RoutingContext is immutable"},
		{"runner group", "Job", "spec.runnerGroup.name", "other", "RunnerGroup is immutable"},
		{"timeout", "Job", "spec.timeout", "1h", "Timeout is immutable"},
		{"traffic manager", "Job", "spec.trafficManager.enabled", false, "spec.trafficManager: Invalid value"},
	} {
		object := kept.DeepCopy()
		change(t, object.Object, strings.Split(w.path, "."), w.value)
		_, err := s.of("Job", "").Update(within(t), object, metav1.UpdateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), w.message) {
			t.Errorf("changing the %s: have the error %v, want one that says %q", w.sentence, err, w.message)
		}
	}
	change(t, kept.Object, []string{"spec", "canceled"}, true)
	if _, err := s.of("Job", "").Update(within(t), kept, metav1.UpdateOptions{}); err != nil {
		t.Errorf("a job cannot be cancelled: %v", err)
	}
	minimal := s.create(t, readObjects(t)["Job"].minimal)
	if err := unstructured.SetNestedField(minimal.Object, "5m", "spec", "timeout"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.of("Job", "").Update(within(t), minimal, metav1.UpdateOptions{}); err != nil {
		t.Errorf("what was absent cannot be added: %v", err)
	}
}
