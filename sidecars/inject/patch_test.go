package inject

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/golden"
)

func apply(t interface{ Fatal(...any) }, raw []byte, operations []Operation) []byte {
	if len(operations) == 0 {
		return raw
	}
	text, err := json.Marshal(operations)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply(raw)
	if err != nil {
		t.Fatal(err, string(text), string(raw))
	}
	return patched
}

func TestGoldenPods(t *testing.T) {
	plain, private := testConfig(), testConfig()
	private.Sidecar.PullSecret, private.Redirect.PullSecret = "registry", "registry"
	cases := map[string]struct {
		change func(*corev1.Pod)
		cfg    Config
	}{
		"plain":   {func(*corev1.Pod) {}, plain},
		"private": {func(p *corev1.Pod) { p.Annotations[AnnotationLogLevel] = "debug" }, private},
		"database": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "mysql", ContainerPort: 13306}, {Name: "http-admin", ContainerPort: 4222}}
			p.Spec.Containers[0].ReadinessProbe = tcp(intstr.FromString("mysql"))
			p.Spec.InitContainers = []corev1.Container{{Name: "schema", Image: "schema:1"}}
		}, plain},
		"refused":   {func(p *corev1.Pod) { p.OwnerReferences = nil }, plain},
		"not-asked": {func(p *corev1.Pod) { p.Annotations = nil }, plain},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(baseline(c.change))
			if err != nil {
				t.Fatal(err)
			}
			result, err := Inject(raw, Namespace{Name: "shop"}, c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.JSONToYAML(apply(t, raw, result.Patch))
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", name+".yaml"), string(got))
		})
	}
}

func TestAPodThatDidNotAskIsNotTouched(t *testing.T) {
	result, err := Inject([]byte(`{"metadata":{"name":"a"},"spec":{"containers":[]}}`), Namespace{Name: "shop"}, testConfig())
	if err != nil || len(result.Patch) != 0 {
		t.Errorf("patch %v, error %v", result.Patch, err)
	}
}

func TestOtherObjectsThanPodsAreErrors(t *testing.T) {
	for _, raw := range []string{``, `[]`, `"pod"`, `{"spec":{"containers":{}}}`, `{"metadata":{"annotations":7}}`} {
		if _, err := Inject([]byte(raw), Namespace{Name: "shop", Selected: true}, testConfig()); err == nil {
			t.Errorf("no error for %s", raw)
		}
	}
}

func TestAPodWithResourcesOfItsOwnSharesThem(t *testing.T) {
	raw, err := json.Marshal(baseline(func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	result, err := Inject(raw, Namespace{Name: "shop"}, testConfig())
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(apply(t, raw, result.Patch), &pod); err != nil {
		t.Fatal(err)
	}
	for _, c := range pod.Spec.InitContainers {
		if len(c.Resources.Requests)+len(c.Resources.Limits) != 0 {
			t.Errorf("%s asks for %v beside the pod's own resources", c.Name, c.Resources)
		}
	}
}

func TestALogLevelThatIsNoneIsAWarning(t *testing.T) {
	raw, err := json.Marshal(baseline(func(p *corev1.Pod) { p.Annotations[AnnotationLogLevel] = "loud" }))
	if err != nil {
		t.Fatal(err)
	}
	result, err := Inject(raw, Namespace{Name: "shop"}, testConfig())
	if err != nil || !result.Inject || len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "loud") {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestOnlyTheRedirectHoldsACapability(t *testing.T) {
	pod := injected(t, func(*corev1.Pod) {})
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if c.Name == "app" {
			continue
		}
		sc := c.SecurityContext
		holds := len(sc.Capabilities.Add) > 0
		if holds != (c.Name == devmesh.InitContainerName) || *sc.RunAsNonRoot == holds ||
			*sc.AllowPrivilegeEscalation || !*sc.ReadOnlyRootFilesystem ||
			!cmp.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) || sc.SeccompProfile.Type != "RuntimeDefault" {
			t.Errorf("security context of %s: %+v", c.Name, sc)
		}
	}
}
