package manager

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/redirect/spec"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobpod"
)

// The container that redirects for runners is that of sidecars, with a specification of its own.
func TestTheContainerThatRedirectsForRunners(t *testing.T) {
	j := Jobs{Settings: jobpod.Settings{PullSecrets: []string{"own"}}}
	got := j.redirecting(inject.Config{Redirect: inject.Container{Image: "redirect:1", PullSecret: "sidecars"}}.WithDefaults())
	c := got.Settings.Redirector
	if c == nil || c.Name != layout.RedirectContainer || c.Image != "redirect:1" || len(c.VolumeMounts) > 0 || c.Resources.Requests.Cpu().MilliValue() != 10 {
		t.Fatalf("%+v", c)
	}
	if s := c.SecurityContext; *s.RunAsUser != 0 || *s.RunAsNonRoot || !slices.Equal(s.Capabilities.Add, []corev1.Capability{"NET_ADMIN"}) || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%+v", s)
	}
	of, err := spec.Parse(func(name string) string { return inject.Variable(c.Env, name) })
	if err != nil || !of.All || of.To != layout.RedirectPort || of.Outgoing != layout.ProxyUser || of.Done != layout.Redirected {
		t.Errorf("%+v, %v", of, err)
	}
	if !slices.Equal(got.Settings.PullSecrets, []string{"own", "sidecars"}) || len(j.Settings.PullSecrets) != 1 {
		t.Errorf("pull secrets %q", got.Settings.PullSecrets)
	}
}
