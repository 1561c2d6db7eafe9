package inject

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// sizedPod returns the decision about a pod with this annotation, and the resources of its two
// injected containers, as words.
func sizedPod(t *testing.T, cfg Config, annotation string) (d Decision, sidecar, redirect string) {
	t.Helper()
	pod := baseline(func(p *corev1.Pod) { p.Annotations[AnnotationResources] = annotation })
	if d = Decide(pod, Namespace{Name: "shop"}, cfg); !d.Inject {
		return d, "", ""
	}
	cfg, _ = cfg.sizedFor(pod)
	return d, resourcesText(*cfg.Sidecar.Resources), resourcesText(*cfg.Redirect.Resources)
}

func TestAnAnnotationSetsTheResourcesOfOneSidecar(t *testing.T) {
	const usual = "limits.cpu=2 limits.memory=1Gi requests.cpu=100m requests.memory=128Mi"
	free := Config{Sidecar: Container{Resources: &corev1.ResourceRequirements{}}, Redirect: Container{Resources: &corev1.ResourceRequirements{}}}
	for _, c := range []struct {
		cfg                           Config
		annotation, sidecar, redirect string
	}{
		{Config{}, "", usual, usual},
		{Config{}, "limits.memory=256Mi,limits.cpu=1", "limits.cpu=1 limits.memory=256Mi requests.cpu=100m requests.memory=128Mi", "limits.cpu=1 limits.memory=256Mi requests.cpu=100m requests.memory=128Mi"},
		{Config{}, " limits.memory=0.0625Gi , requests.cpu=50m", "limits.cpu=2 limits.memory=64Mi requests.cpu=50m requests.memory=64Mi", "limits.cpu=2 limits.memory=64Mi requests.cpu=50m requests.memory=64Mi"},
		{Config{}, "limits.memory=4Gi,requests.memory=2Gi", "limits.cpu=2 limits.memory=4Gi requests.cpu=100m requests.memory=2Gi", usual},
		{free, "limits.cpu=1", "limits.cpu=1", "limits.cpu=1"},
	} {
		d, sidecar, redirect := sizedPod(t, c.cfg, c.annotation)
		if !d.Inject || sidecar != c.sidecar || redirect != c.redirect {
			t.Errorf("%q: %q, sidecar %q, init container %q", c.annotation, d.Reason, sidecar, redirect)
		}
	}
}

// Out of bounds nothing is clamped: the pod gets no sidecar, and its owner reads why.
func TestResourcesOutOfBoundsAreReported(t *testing.T) {
	narrow := Config{Bounds: &Bounds{Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}
	for annotation, c := range map[string]struct {
		cfg  Config
		says string
	}{
		"limits.memory=16Mi":                     {Config{}, "limits.memory is 16Mi, less than 64Mi (routeSidecar.resourceBounds.min.memory of the chart)"},
		"limits.memory=64Gi":                     {Config{}, "limits.memory is 64Gi, more than 4Gi (routeSidecar.resourceBounds.max.memory of the chart)"},
		"requests.cpu=1m":                        {Config{}, "requests.cpu is 1m, less than 10m (routeSidecar.resourceBounds.min.cpu of the chart)"},
		"limits.cpu=1500m":                       {narrow, "limits.cpu is 1500m, more than 1 (routeSidecar.resourceBounds.max.cpu of the chart)"},
		"limits.memory=0":                        {narrow, "limits.memory is 0: it has to be more than 0"},
		"limits.memory=-1Gi":                     {narrow, "limits.memory is -1Gi: it has to be more than 0"},
		"requests.cpu=3":                         {Config{}, "requests.cpu is 3, more than limits.cpu, 2: set both"},
		"requests.memory=2Gi,limits.memory=1Gi":  {Config{}, "requests.memory is 2Gi, more than limits.memory, 1Gi: set both"},
		"limits.memory":                          {Config{}, `"limits.memory" cannot be read: write it as limits.memory=256Mi,requests.cpu=50m`},
		"memory=1Gi":                             {Config{}, `"memory=1Gi" cannot be read`},
		`{"limits":{"memory":"1Gi"}}`:            {Config{}, "cannot be read"},
		"limit.memory=1Gi":                       {Config{}, "limit is neither limits nor requests"},
		"limits.nvidia.com/gpu=1":                {Config{}, "limits.nvidia.com/gpu: only cpu and memory can be set"},
		"limits.memory=64Mi, limits.memory=65Mi": {Config{}, "limits.memory is set twice"},
	} {
		d, _, _ := sizedPod(t, c.cfg, annotation)
		if d.Inject || !strings.HasPrefix(d.Reason, "annotation "+AnnotationResources+": ") || !strings.Contains(d.Reason, c.says) {
			t.Errorf("%q: inject %t, %q", annotation, d.Inject, d.Reason)
		}
	}
}

// A running pod is compared with the resources that a new pod of its annotation would get.
func TestASizedPodIsComparedWithItsOwnAnnotation(t *testing.T) {
	base := Config{Sidecar: Container{Image: "sidecar:1"}, Redirect: Container{Image: "init:1"}}
	sized := func(cfg Config, annotation string) Settings {
		pod := injectedPodOf(t, cfg, baseline(func(p *corev1.Pod) { p.Annotations[AnnotationResources] = annotation }))
		return SettingsOf(pod)
	}
	small := sized(base, "limits.memory=256Mi,limits.cpu=1")
	if got := small.Outdated(base.Settings()); len(got) > 0 {
		t.Errorf("as its annotation wants: %q", got)
	}
	small.Resources = ""
	if got := small.Outdated(base.Settings()); len(got) != 2 {
		t.Errorf("without the annotation it would get the chart's: %q", got)
	}
	small.Resources = "limits.memory=512Mi,limits.cpu=1"
	if got := small.Outdated(base.Settings()); len(got) != 2 {
		t.Errorf("with another annotation: %q", got)
	}
	other := base
	other.Sidecar.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}}
	if got := sized(base, "limits.memory=256Mi,limits.cpu=1,requests.cpu=50m,requests.memory=64Mi").Outdated(other.Settings()); len(got) > 0 {
		t.Errorf("the chart's resources are another: %q", got)
	}
	narrow := base
	narrow.Bounds = &Bounds{Min: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}}
	got := sized(base, "limits.memory=256Mi").Outdated(narrow.Settings())
	if len(got) == 0 || !strings.Contains(got[0], "limits.memory is 256Mi, less than 512Mi") {
		t.Errorf("out of the bounds of now: %q", got)
	}
}

func TestAPodWithResourcesOfItsOwnIsNotSized(t *testing.T) {
	pod := baseline(func(p *corev1.Pod) {
		p.Annotations[AnnotationResources] = "limits.memory=1Ki"
		p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	})
	cfg := Config{Sidecar: Container{Image: "sidecar:1"}, Redirect: Container{Image: "init:1"}}
	injected := injectedPodOf(t, cfg, pod)
	if got := SettingsOf(injected).Outdated(cfg.Settings()); len(got) > 0 {
		t.Errorf("outdated: %q", got)
	}
}

func TestBoundsThatContradictThemselvesAreRefused(t *testing.T) {
	env := map[string]string{"ROUTE_SIDECAR_IMAGE": "s", "SIDECAR_INIT_IMAGE": "i", EnvBounds: `{"min":{"memory":"2Gi"},"max":{"memory":"1Gi"}}`}
	if _, err := FromEnv(func(name string) string { return env[name] }); err == nil || !strings.Contains(err.Error(), "min.memory is 2Gi, more than max.memory, 1Gi") {
		t.Error(err)
	}
	env[EnvBounds] = `{"min":{},"max":{"cpu":"500m"}}`
	if c, err := FromEnv(func(name string) string { return env[name] }); err != nil || c.Bounds.text() != "max.cpu=500m" {
		t.Errorf("%+v, %v", c.Bounds, err)
	}
}
