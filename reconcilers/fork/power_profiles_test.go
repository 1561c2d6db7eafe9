package fork_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork"
)

// What confines a container of the baseline by a profile has to confine that of the fork.
func TestProfilesOfTheBaselineAreNotLeftOut(t *testing.T) {
	const appArmor = "container.apparmor.security.beta.kubernetes.io/main"
	label := &corev1.SELinuxOptions{Type: "shop_t"}
	byDefault := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	note := func(value string) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			if p.Annotations[appArmor] = value; value == "" {
				delete(p.Annotations, appArmor)
			}
		}
	}
	local := func(p *corev1.PodTemplateSpec) {
		context(p).AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: ref("shop")}
	}
	added := func(s *corev1.SecurityContext) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "new", Image: "i", SecurityContext: s})
		}
	}
	labelled := func(p *corev1.PodTemplateSpec) {
		for i := range p.Spec.Containers {
			contextOf(&p.Spec.Containers[i]).SELinuxOptions = label
		}
	}
	tests := []struct {
		name      string
		has, then func(*corev1.PodTemplateSpec)
		refused   string // empty: it is not
	}{
		{"the SELinux label of the pod", func(p *corev1.PodTemplateSpec) { podContext(p).SELinuxOptions = label },
			func(p *corev1.PodTemplateSpec) { podContext(p).SELinuxOptions = nil }, "spec.template.spec.securityContext.seLinuxOptions"},
		{"the SELinux label of a container", func(p *corev1.PodTemplateSpec) { context(p).SELinuxOptions = label },
			func(p *corev1.PodTemplateSpec) { context(p).SELinuxOptions = nil }, "containers[main].securityContext.seLinuxOptions"},
		{"a label that all containers have, by a new one", labelled, added(&corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "other_t"}}),
			"containers[new].securityContext.seLinuxOptions"},
		{"a new container that says nothing gets the label that all have", labelled, added(nil), ""},
		{"a new container has the label of the others", labelled, added(&corev1.SecurityContext{SELinuxOptions: label}), ""},
		{"seccomp of one container alone", func(p *corev1.PodTemplateSpec) { context(p).SeccompProfile = byDefault },
			func(p *corev1.PodTemplateSpec) { context(p).SeccompProfile = nil }, "containers[main].securityContext.seccompProfile"},
		{"a new container has what one of the others has", func(p *corev1.PodTemplateSpec) { context(p).SeccompProfile = byDefault }, added(nil), ""},
		{"AppArmor of the node", local, func(p *corev1.PodTemplateSpec) { context(p).AppArmorProfile = nil }, "containers[main].securityContext.appArmorProfile"},
		{"AppArmor of the node by annotation", note("localhost/shop"), note(""), "containers[main].securityContext.appArmorProfile"},
		{"that of the runtime in its place", note("localhost/shop"), note("runtime/default"), "containers[main].securityContext.appArmorProfile"},
		{"another one in its place", note("localhost/shop"), note("localhost/other"), "annotations[" + appArmor},
		{"the same by a field", note("localhost/shop"), func(p *corev1.PodTemplateSpec) { note("")(p); local(p) }, ""},
		{"the runtime's own AppArmor goes without saying", note("runtime/default"), note(""), ""},
		{"no AppArmor, and then the runtime's own", note("unconfined"), note(""), ""},
	}
	for _, s := range subjects() {
		for _, tt := range tests {
			live := s.live(t, tt.has)
			with := live.Template.DeepCopy()
			tt.then(with)
			for form, patch := range formsOf(t, live.Template, with) {
				t.Run(s.kind+", "+tt.name+", by a "+form+" patch", func(t *testing.T) {
					_, p := fork.Clone(live, fork.Plan{Identity: identity(), Patches: []crdv1.Patch{patch}})
					switch {
					case tt.refused == "" && p != nil:
						t.Error(p.Message)
					case tt.refused != "" && p == nil:
						t.Error("not refused")
					case tt.refused != "":
						mustContain(t, p.Message, tt.refused, "[securityProfiles]")
					}
				})
			}
		}
	}
}
