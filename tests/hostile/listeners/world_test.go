package listeners

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// After a rollout the containers of pods that are being deleted run too, for as long as the runtime needs to end them.
func TestOnlyContainersThatStayAreRead(t *testing.T) {
	var pods []corev1.Pod
	if err := yaml.Unmarshal([]byte(`
- metadata: {namespace: hotrod, name: old, deletionTimestamp: "2026-11-30T08:35:00Z"}
  status: {initContainerStatuses: [{name: sd-sidecar, containerID: containerd://a, state: {running: {}}}]}
- metadata: {namespace: hotrod, name: new}
  spec: {initContainers: [{name: sd-sidecar, resources: {limits: {memory: 64Mi}}}]}
  status:
    containerStatuses: [{name: customer, containerID: containerd://b, state: {running: {}}}]
    initContainerStatuses: [{name: sd-sidecar, containerID: containerd://c, restartCount: 2, state: {running: {}}}]
- metadata: {namespace: hotrod, name: starting}
  status: {initContainerStatuses: [{name: sd-sidecar, state: {waiting: {}}}]}
`), &pods); err != nil {
		t.Fatal(err)
	}
	want := []container{{pod: "hotrod/new", id: "c", limit: 64, restarts: 2}}
	if got := running(pods, sidecar); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
