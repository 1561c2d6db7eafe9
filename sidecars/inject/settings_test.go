package inject

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"switchyard.dev/sidecars/redirect/spec"
)

// injectedPod returns a pod as it is after its injection.
func injectedPod(t *testing.T, cfg Config) *corev1.Pod {
	t.Helper()
	return injectedPodOf(t, cfg, baseline(func(*corev1.Pod) {}))
}

// injectedPodOf returns this pod as it is after its injection.
func injectedPodOf(t *testing.T, cfg Config, from *corev1.Pod) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	result, err := Inject(raw, Namespace{Name: "shop"}, cfg.WithDefaults())
	if err != nil || !result.Inject {
		t.Fatalf("%v, %s", err, result.Reason)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(apply(t, raw, result.Patch), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// withoutBounds returns the settings that a pod without AnnotationResources has.
func withoutBounds(c Config) Settings {
	s := c.Settings()
	s.Bounds = ""
	return s
}

// Every setting that ends in the pod is compared: each field of the Config, changed, makes
// existing pods outdated. A field that is added later fails here until it is among the Settings
// or among those that do not count.
func TestEverySettingThatAPodKeepsIsCompared(t *testing.T) {
	base := Config{Sidecar: Container{Image: "sidecar:1"}, Redirect: Container{Image: "init:1"}}
	more := &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}}
	outdated := map[string]Config{}
	change := func(name string, how func(*Config)) {
		c := base
		how(&c)
		outdated[name] = c
	}
	change("Sidecar.Image", func(c *Config) { c.Sidecar.Image = "sidecar:2" })
	change("Sidecar.Resources", func(c *Config) { c.Sidecar.Resources = more })
	change("Redirect.Image", func(c *Config) { c.Redirect.Image = "init:2" })
	change("Redirect.Resources", func(c *Config) { c.Redirect.Resources = more })
	change("XDSAddress", func(c *Config) { c.XDSAddress = "elsewhere:7779" })
	change("TLS", func(c *Config) { c.TLS = true })
	change("IptablesMode", func(c *Config) { c.IptablesMode = spec.ModeLegacy })
	doNotCount := []string{
		"Bounds",                                                                                 // of what pods ask for, which is compared
		"Trust",                                                                                  // followed while the sidecar runs
		"LogLevel",                                                                               // what is logged routes nothing
		"Sidecar.PullPolicy", "Sidecar.PullSecret", "Redirect.PullPolicy", "Redirect.PullSecret", // over once the image is there
	}
	pod := injectedPod(t, base)
	if have, want := SettingsOf(pod), withoutBounds(base); have != want {
		t.Fatalf("a new pod has %+v, want %+v", have, want)
	}
	for _, field := range fieldsOf(reflect.TypeFor[Config]()) {
		c, compared := outdated[field]
		if compared == slices.Contains(doNotCount, field) {
			t.Errorf("%s: decide whether it makes pods outdated", field)
		}
		if compared && len(SettingsOf(pod).Outdated(c.Settings())) != 1 {
			t.Errorf("%s differs, and the pod differs in %q", field, SettingsOf(pod).Outdated(c.Settings()))
		}
	}
}

// Who it trusts changes while a sidecar runs: no new pod is needed for that.
func TestAPodThatSpeaksTLSIsNotOutdatedByAnotherAuthority(t *testing.T) {
	c := Config{Sidecar: Container{Image: "sidecar:1"}, Redirect: Container{Image: "init:1"}, TLS: true, Trust: "first"}
	pod := injectedPod(t, c)
	c.Trust = "second"
	if have, want := SettingsOf(pod), withoutBounds(c); have != want {
		t.Errorf("a pod with TLS has %+v, want %+v", have, want)
	}
}

// fieldsOf names the fields of a configuration, with those of its containers.
func fieldsOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == reflect.TypeFor[Container]() {
			for _, inner := range fieldsOf(f.Type) {
				names = append(names, fmt.Sprintf("%s.%s", f.Name, inner))
			}
			continue
		}
		names = append(names, f.Name)
	}
	return names
}

// With `routeSidecar.resources: {limits: …}` the API server copies the limits into the
// requests of every new pod; a restart would never end that difference.
func TestResourcesThatTheAPIServerAddsAreNoDifference(t *testing.T) {
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1024Mi")}
	cfg := Config{Sidecar: Container{Image: "sidecar:1", Resources: &corev1.ResourceRequirements{Limits: limits}}, Redirect: Container{Image: "init:1"}}
	pod := injectedPod(t, cfg)
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if containers[i].Resources.Requests == nil {
				containers[i].Resources.Requests = containers[i].Resources.Limits
			}
		}
	}
	if got := SettingsOf(pod).Outdated(cfg.Settings()); got != nil {
		t.Errorf("a new pod is outdated: %q", got)
	}
	limits[corev1.ResourceMemory] = resource.MustParse("2Gi")
	if got := SettingsOf(pod).Outdated(cfg.Settings()); len(got) != 1 {
		t.Errorf("with another limit the pod differs in %q", got)
	}
}

func TestUnknownSettingsAreNoDifference(t *testing.T) {
	have := Settings{Sidecar: "sidecar:1", IptablesMode: "auto"}
	if got := have.Outdated(Settings{}); got != nil {
		t.Errorf("nothing is known of now, and %q differ", got)
	}
	if got := (Settings{}).Outdated(have); got != nil {
		t.Errorf("nothing is known of the pod, and %q differ", got)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Resources: &corev1.ResourceRequirements{}}}
	if got := SettingsOf(pod).SidecarResources; got != "" {
		t.Errorf("the containers of a pod with resources of its own have %s", got)
	}
}
