package chart

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/sidecars/devmesh"
	injecting "switchyard.dev/sidecars/inject"
)

// accused finds the containers that pod security finds fault with.
var accused = regexp.MustCompile(`container "([^"]*)"`)

// keepsInjectedPodsRestricted asks the API server's own judge of pod security
// about pods with a sidecar, in a namespace that enforces "restricted".
func (s apiServer) keepsInjectedPodsRestricted(t *testing.T) {
	s.label(t, "restricted", podSecurity, "restricted")
	s.eventually(t, "pod security is enforced", func() error {
		lax := pod(nil)
		lax.Namespace, lax.GenerateName, lax.Spec.HostNetwork = "restricted", "lax-", true
		if err := s.Create(t.Context(), &lax, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a pod on the node's network: %v", err)
		}
		return nil
	})
	injected := withSidecar(t)
	err := s.Create(t.Context(), injected.DeepCopy(), client.DryRunAll)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "NET_ADMIN") {
		t.Fatalf("a pod with a redirecting init container under restricted: %v", err)
	}
	if strings.Contains(err.Error(), "containers ") {
		t.Errorf("several containers are not restricted: %v", err)
	}
	for _, found := range accused.FindAllStringSubmatch(err.Error(), -1) {
		if found[1] != devmesh.InitContainerName {
			t.Errorf("container %s is not restricted: %v", found[1], err)
		}
	}
	redirect := func(c corev1.Container) bool { return c.Name == devmesh.InitContainerName }
	injected.Spec.InitContainers = slices.DeleteFunc(injected.Spec.InitContainers, redirect)
	if err := s.Create(t.Context(), injected, client.DryRunAll); err != nil {
		t.Errorf("all but the redirecting init container is to be restricted: %v", err)
	}
}

// withSidecar is a restricted pod that has been given its sidecar.
func withSidecar(t *testing.T) *corev1.Pod {
	t.Helper()
	before := owned("restricted")
	raw, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	result, err := injecting.Inject(raw, injecting.Namespace{Name: before.Namespace}, injectConfig())
	if err != nil || !result.Inject {
		t.Fatalf("%s %v", result.Reason, err)
	}
	text, err := json.Marshal(result.Patch)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		t.Fatal(err)
	}
	after := &corev1.Pod{}
	if err := json.Unmarshal(raw, after); err != nil {
		t.Fatal(err)
	}
	return after
}
