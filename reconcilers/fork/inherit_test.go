package fork_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	livebaseline "switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/power"
)

// hotrod returns a Deployment of the demonstration, all of whose containers are confined.
func hotrod(t *testing.T, name string) *livebaseline.Workload {
	t.Helper()
	text, err := os.ReadFile("../../tools/demo/manifests/hotrod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(part, "kind: Deployment\nmetadata:\n  name: "+name+"\n") {
			d := &appsv1.Deployment{}
			read(t, part, d)
			return livebaseline.OfDeployment(d)
		}
	}
	t.Fatalf("no Deployment %s", name)
	return nil
}

// The published example of a patch (signadot/examples, cli/sandbox-patch.yaml) adds an
// init container with a name and an image alone to the frontend of HotROD, and a variable
// by a patch of its own. The client expects it to be accepted.
func TestThePublishedPatchThatAddsAnInitContainerIsAccepted(t *testing.T) {
	got, problem := fork.Clone(hotrod(t, "frontend"), fork.Plan{Identity: identity(), Patches: patches(t, `
- strategic: {spec: {template: {spec: {containers: [{name: hotrod, env: [{name: first, value: one}]}]}}}}
- strategic: {spec: {template: {spec: {initContainers: [{name: service-core-bank-migrate, image: busybox}]}}}}`)})
	if problem != nil {
		t.Fatal(problem.Message)
	}
	want := &corev1.SecurityContext{
		AllowPrivilegeEscalation: ref(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if diff := cmp.Diff(want, got.Template.Spec.InitContainers[0].SecurityContext); diff != "" {
		t.Error("what the pod does not say for all containers is inherited:", diff)
	}
}

func TestAnAddedContainerInheritsWhatConfinesAll(t *testing.T) {
	always := func(s *corev1.SecurityContext) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			for i := range p.Spec.Containers {
				p.Spec.Containers[i].SecurityContext = s.DeepCopy()
			}
		}
	}
	local := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ref("shop.json")}
	armor := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	hard := &corev1.SecurityContext{
		AllowPrivilegeEscalation: ref(false), RunAsNonRoot: ref(true), RunAsUser: ref(int64(7)), RunAsGroup: ref(int64(8)), SeccompProfile: local,
		AppArmorProfile: armor, SELinuxOptions: &corev1.SELinuxOptions{Type: "shop_t"}, ReadOnlyRootFilesystem: ref(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"CAP_NET_RAW", "chown"}, Add: []corev1.Capability{"NET_BIND_SERVICE"}},
	}
	inherited := hard.DeepCopy()
	inherited.ReadOnlyRootFilesystem, inherited.AppArmorProfile = nil, nil // The runtime's own goes without saying.
	inherited.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"CHOWN", "NET_RAW"}}
	with := func(change func(s *corev1.SecurityContext)) *corev1.SecurityContext {
		s := inherited.DeepCopy()
		change(s)
		return s
	}
	tests := []struct {
		name string
		has  func(*corev1.PodTemplateSpec)
		adds string
		want *corev1.SecurityContext
	}{
		{"everything that all have", always(hard), `{}`, inherited},
		{"nothing from a baseline that is not confined", always(nil), `{}`, nil},
		{"nothing that only one has", func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].SecurityContext = hard.DeepCopy() }, `{}`, nil},
		{"only what the patch leaves open", always(hard), `{runAsUser: 9, capabilities: {drop: [ALL]}}`, with(func(s *corev1.SecurityContext) {
			s.RunAsUser, s.RunAsGroup, s.Capabilities.Drop = ref(int64(9)), nil, []corev1.Capability{"ALL"}
		})},
		{"capabilities to drop beside those that it adds", always(hard), `{capabilities: {add: [NET_BIND_SERVICE]}}`, with(func(s *corev1.SecurityContext) {
			s.Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"}
		})},
		{"no user where it says that it is not root", always(hard), `{runAsNonRoot: true}`, with(func(s *corev1.SecurityContext) {
			s.RunAsUser, s.RunAsGroup = nil, nil
		})},
		{"no user where the pod says that it is not root", func(p *corev1.PodTemplateSpec) {
			always(hard)(p)
			podContext(p).RunAsNonRoot = ref(true)
		}, `{}`, with(func(s *corev1.SecurityContext) { s.RunAsUser, s.RunAsGroup, s.RunAsNonRoot = nil, nil, nil })},
		{"no user where the pod names another one", func(p *corev1.PodTemplateSpec) {
			always(hard)(p)
			podContext(p).RunAsUser = ref(int64(5))
		}, `{}`, with(func(s *corev1.SecurityContext) { s.RunAsUser, s.RunAsGroup = nil, nil })},
		{"the user where the pod names root", func(p *corev1.PodTemplateSpec) {
			always(hard)(p)
			podContext(p).RunAsUser = ref(int64(0))
		}, `{}`, inherited},
		{"nothing that the pod says already", func(p *corev1.PodTemplateSpec) {
			podContext(p).RunAsNonRoot, podContext(p).RunAsUser, podContext(p).SeccompProfile = ref(true), ref(int64(7)), local
		}, `{}`, nil},
		{"the root of a container that is not confined stays", func(p *corev1.PodTemplateSpec) {
			always(&corev1.SecurityContext{RunAsUser: ref(int64(0))})(p)
		}, `{}`, nil},
	}
	for _, s := range subjects() {
		for _, tt := range tests {
			for field, list := range map[string]func(corev1.PodSpec) []corev1.Container{
				"containers":     func(p corev1.PodSpec) []corev1.Container { return p.Containers },
				"initContainers": func(p corev1.PodSpec) []corev1.Container { return p.InitContainers },
			} {
				t.Run(s.kind+", "+field+": "+tt.name, func(t *testing.T) {
					got, problem := fork.Clone(s.live(t, tt.has), fork.Plan{Identity: identity(), Patches: patches(t, `
- strategic: {spec: {template: {spec: {`+field+`: [{name: new, image: i, securityContext: `+tt.adds+`}]}}}}
- merge: {spec: {minReadySeconds: 1}}`)})
					if problem != nil {
						t.Fatal(problem.Message)
					}
					for _, c := range list(got.Template.Spec) {
						have := c.SecurityContext
						if have != nil && *have == (corev1.SecurityContext{}) {
							have = nil
						}
						if c.Name != "new" {
							continue
						}
						if diff := cmp.Diff(tt.want, have); diff != "" {
							t.Error(diff)
						}
					}
				})
			}
		}
	}
}

// What the operator's configuration lets patches leave out is left as they say: a
// container that was accepted as it was, before anything was inherited, still is.
func TestAnAddedContainerDoesNotInheritWhatItMayLeaveOut(t *testing.T) {
	hard := corev1.SecurityContext{
		AllowPrivilegeEscalation: ref(false), RunAsNonRoot: ref(true), RunAsUser: ref(int64(7)), RunAsGroup: ref(int64(8)),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, SELinuxOptions: &corev1.SELinuxOptions{Type: "shop_t"},
		AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: ref("shop")},
	}
	profiles := &corev1.SecurityContext{SeccompProfile: hard.SeccompProfile, SELinuxOptions: hard.SELinuxOptions, AppArmorProfile: hard.AppArmorProfile}
	privileges := hard.DeepCopy()
	privileges.SeccompProfile, privileges.SELinuxOptions, privileges.AppArmorProfile = nil, nil, nil
	tests := []struct {
		name   string
		powers power.Powers
		want   *corev1.SecurityContext
	}{
		{"another power is allowed", power.Powers{power.HostPath}, &hard},
		{"confinement is", power.Powers{power.Confinement}, profiles},
		{"profiles are", power.Powers{power.SecurityProfiles}, privileges},
		{"both are", power.Powers{power.SecurityProfiles, power.Confinement}, nil},
	}
	for _, s := range subjects() {
		live := s.live(t, func(p *corev1.PodTemplateSpec) {
			for i := range p.Spec.Containers {
				p.Spec.Containers[i].SecurityContext = hard.DeepCopy()
			}
		})
		for _, tt := range tests {
			t.Run(s.kind+", "+tt.name, func(t *testing.T) {
				got, problem := fork.Clone(live, fork.Plan{Identity: identity(), Powers: tt.powers, Patches: patches(t, `
- strategic: {spec: {template: {spec: {initContainers: [{name: new, image: i}]}}}}`)})
				if problem != nil {
					t.Fatal(problem.Message)
				}
				for _, c := range got.Template.Spec.InitContainers {
					if c.Name != "new" {
						continue
					}
					if diff := cmp.Diff(tt.want, c.SecurityContext); diff != "" {
						t.Error(diff)
					}
				}
			})
		}
	}
}

// The published client puts the container's name and image into a strategic patch; a
// misspelt name makes a second container there, beside one that runs the old image.
func TestAMisspeltContainerIsAskedAbout(t *testing.T) {
	strategic := func(name, more string) string {
		return `[{strategic: {spec: {template: {spec: {containers: [{name: ` + name + more + `}]}}}}}]`
	}
	image := `, image: "hotrod:2"`
	live := hotrod(t, "customer")
	for name, text := range map[string]string{
		"a letter is missing":               strategic("hotrd", image),
		"without an image":                  strategic("hotrd", ""),
		"two letters are swapped":           strategic("hotord", image),
		"a letter is wrong":                 strategic("hotrot", image),
		"a letter is another case":          strategic("hotRod", image),
		"a hyphen is added":                 strategic("hot-rod", image),
		"a digit stands for a letter":       strategic("hotr0d", image),
		"without an image in another form":  `[{json: [{op: add, path: /spec/template/spec/containers/-, value: {name: hotrd}}]}]`,
		"as an init container":              `[{strategic: {spec: {template: {spec: {initContainers: [{name: hotrd, image: x}]}}}}}]`,
		"after a patch that is as it ought": `[{merge: {spec: {replicas: 2}}}, ` + strings.TrimPrefix(strategic("hotrd", image), "["),
	} {
		t.Run(name, func(t *testing.T) {
			_, problem := fork.Clone(live, fork.Plan{Identity: identity(), Patches: patches(t, text)})
			if problem == nil || problem.Reason != fork.ReasonPatchFailed {
				t.Fatalf("%+v", problem)
			}
			mustContain(t, problem.Message, "for Deployment hotrod/customer names container", `did you mean "hotrod"?`)
			if strings.Contains(problem.Message, "power") {
				t.Error(problem.Message)
			}
		})
	}
	for name, text := range map[string]string{
		"a number":                       strategic("hotrod2", image),
		"a number after a hyphen":        strategic("hotrod-2", image),
		"another word":                   strategic("hotrod-proxy", image),
		"something else":                 strategic("redis", image),
		"a JSON patch adds it by itself": `[{json: [{op: add, path: /spec/template/spec/containers/-, value: {name: hotrods, image: x}}]}]`,
		"it takes the place of the one that it is like": `[{strategic: {spec: {template: {spec: {containers: [
  {$patch: delete, name: hotrod}, {name: hotrods, image: x}]}}}}}]`,
	} {
		t.Run("not about one whose name is meant: "+name, func(t *testing.T) {
			if _, problem := fork.Clone(live, fork.Plan{Identity: identity(), Patches: patches(t, text)}); problem != nil {
				t.Error(problem.Message)
			}
		})
	}
	t.Run("short words differ on purpose", func(t *testing.T) {
		live := subjects()[0].live(t, func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Name, p.Spec.Containers[1].Name = "api", "db-ro" })
		for _, name := range []string{"app", "db-rw"} {
			if _, problem := fork.Clone(live, fork.Plan{Identity: identity(), Patches: patches(t, strategic(name, image))}); problem != nil {
				t.Error(problem.Message)
			}
		}
	})
}
