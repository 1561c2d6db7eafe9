package fork_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	livebaseline "switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/power"
)

// waysToRead are all fields of a pod by which it gets the content of an object.
func waysToRead() []wayToPower {
	const secrets = power.Secrets
	named := corev1.LocalObjectReference{Name: "other"}
	projected := func(s corev1.VolumeProjection) func(*corev1.PodTemplateSpec) {
		return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{s}}})
	}
	variable := func(s corev1.EnvVarSource) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			main(p).Env = append(main(p).Env, corev1.EnvVar{Name: "V", ValueFrom: &s})
		}
	}
	return []wayToPower{
		{"a Secret as volume", secrets, "volumes[v] (Secret other)", volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "other"}})},
		{"a ConfigMap as volume", secrets, "volumes[v] (ConfigMap other)", volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named}})},
		{"a claim", secrets, "(PersistentVolumeClaim other)", volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "other"}})},
		{"a projected Secret", secrets, "projected (Secret other)", projected(corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: named}})},
		{"a projected ConfigMap", secrets, "projected (ConfigMap other)", projected(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named}})},
		{"a variable of a Secret", secrets, "env[V] (Secret other)", variable(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named, Key: "k", Optional: ref(true)}})},
		{"a variable of a ConfigMap", secrets, "env[V] (ConfigMap other)", variable(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named, Key: "k"}})},
		{"all variables of a Secret", secrets, "envFrom (Secret other)", func(p *corev1.PodTemplateSpec) {
			main(p).EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named}}}
		}},
		{"all variables of a ConfigMap for an init container", secrets, "initContainers[init].envFrom (ConfigMap other)", func(p *corev1.PodTemplateSpec) {
			p.Spec.InitContainers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named}}}
		}},
		{"a Secret to pull images with", secrets, "imagePullSecrets (Secret other)", func(p *corev1.PodTemplateSpec) {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, named)
		}},
		{"a copy of a claim", secrets, "dataSource (PersistentVolumeClaim other)", volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
				DataSource: &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "other"},
			}},
		}})},
		{"a device", power.ResourceClaims, "resourceClaims[gpu]", func(p *corev1.PodTemplateSpec) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ref("theirs")}}
		}},
	}
}

// latePatch makes a pod privileged, in a volume of the node or of a named user, and has a
// patch change it.
type latePatch struct {
	name   string
	base   func(*corev1.PodTemplateSpec)
	patch  string
	power  power.Power // Empty: it is allowed.
	naming string
}

func privilegedMain(p *corev1.PodTemplateSpec) { context(p).Privileged = ref(true) }

func nodeInMain(p *corev1.PodTemplateSpec) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "node", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/log"}}})
	main(p).VolumeMounts = append(main(p).VolumeMounts, corev1.VolumeMount{Name: "node", MountPath: "/n"})
}

func latePatches() []latePatch {
	to := func(fields string) string {
		return `[{strategic: {spec: {template: {spec: {containers: [` + fields + `]}}}}}]`
	}
	user := func(id int64) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) { podContext(p).RunAsUser = ref(id) }
	}
	const programs, root = power.NodePrograms, power.Root
	return []latePatch{
		{"another image where nothing of the node is in reach", func(*corev1.PodTemplateSpec) {}, to(`{name: main, image: "evil:1"}`), "", ""},
		{"another image of a privileged container", privilegedMain, to(`{name: main, image: "evil:1"}`), programs, "containers[main] (its image or commands)"},
		{"another command of a privileged container", privilegedMain, to(`{name: main, command: [sh]}`), programs, "containers[main]"},
		{"other arguments of a privileged container", privilegedMain, to(`{name: main, args: [-x]}`), programs, "containers[main]"},
		{"a hook in a privileged container", privilegedMain, to(`{name: main, lifecycle: {postStart: {exec: {command: [sh]}}}}`), programs, "containers[main]"},
		{"a probe in a privileged container", privilegedMain, to(`{name: main, livenessProbe: {exec: {command: [sh]}}}`), programs, "containers[main]"},
		{"a variable of a privileged container", privilegedMain, to(`{name: main, env: [{name: A, value: b}]}`), "", ""},
		{"a container beside a privileged one", privilegedMain, to(`{name: new, image: "any:1"}`), "", ""},
		{"a privileged container that is not privileged any more", privilegedMain, to(`{name: main, image: "any:1", securityContext: {privileged: false}}`), "", ""},
		{"another image where a directory of the node is mounted", nodeInMain, to(`{name: main, image: "evil:1"}`), programs, "containers[main]"},
		{"a new container that mounts the directory of the node", nodeInMain, to(`{name: new, image: "evil:1", volumeMounts: [{name: node, mountPath: /n}]}`), programs, "containers[new]"},
		{"an image where the directory is mounted no more", nodeInMain, to(`{name: main, image: "any:1", volumeMounts: [{$patch: delete, mountPath: /n}]}`), "", ""},
		{"root in place of a user", user(1000), to(`{name: main, securityContext: {runAsUser: 0}}`), root, "containers[main].securityContext.runAsUser"},
		{"root for the whole pod", user(1000), `[{merge: {spec: {template: {spec: {securityContext: {runAsUser: 0}}}}}}]`, root, "runAsUser"},
		{"the user of the image in place of a user", user(1000), `[{merge: {spec: {template: {spec: {securityContext: {runAsUser: null}}}}}}]`, root, "runAsUser"},
		{"root in a new container where all are a user", user(1000), to(`{name: new, image: i, securityContext: {runAsUser: 0}}`), root, "containers[new]"},
		{"another user who is not root", user(1000), to(`{name: main, securityContext: {runAsUser: 7}}`), "", ""},
		{"root where the baseline names nobody", func(*corev1.PodTemplateSpec) {}, to(`{name: main, securityContext: {runAsUser: 0}}`), "", ""},
		{"root where the baseline is root", user(0), to(`{name: main, securityContext: {runAsUser: 0}}`), "", ""},
	}
}

func TestHostAccessAndRootNeedPower(t *testing.T) {
	for _, tt := range latePatches() {
		t.Run(tt.name, func(t *testing.T) {
			live := subjects()[0].live(t, tt.base)
			plan := fork.Plan{Identity: identity(), Patches: patches(t, tt.patch), AuthorAsked: true}
			got, problem := fork.Clone(live, plan)
			if tt.power == "" {
				if problem != nil {
					t.Fatal(problem.Message)
				}
				return
			}
			if problem == nil {
				t.Fatalf("not refused: %+v", got)
			}
			mustContain(t, problem.Message, tt.naming, "sandboxes.patches.allow: ["+string(tt.power)+"]")
			plan.Powers = power.Powers{tt.power}
			made, problem := fork.Clone(live, plan)
			if problem != nil {
				t.Fatal(problem.Message)
			}
			// A fork that runs goes on as it is, and does not become another one.
			plan.Powers, plan.Running = nil, &made.Template.Spec
			if _, problem := fork.Clone(live, plan); problem != nil {
				t.Errorf("a fork that runs does not go on: %s", problem.Message)
			}
			if tt.power == power.NodePrograms {
				plan.Patches = append(plan.Patches, patches(t, `[{strategic: {spec: {template: {spec: {containers: [{name: main, image: "worse:1"}, {name: new, image: "worse:1"}]}}}}}]`)...)
				if _, problem := fork.Clone(live, plan); problem == nil {
					t.Error("a fork that runs may run something else now")
				}
			}
		})
	}
}

func TestAForkThatRunsGoesOnReading(t *testing.T) {
	plan := fork.Plan{Patches: patches(t, `[{strategic: {spec: {template: {spec: {containers: [{name: main, envFrom: [{secretRef: {name: other}}]}]}}}}}]`)}
	if p := refusal(t, plan); !strings.Contains(p.Message, "[secrets]") {
		t.Error(p.Message)
	}
	plan.AuthorAsked = true
	running := clone(t, plan).Spec.Template.Spec
	plan.AuthorAsked, plan.Running = false, &running
	clone(t, plan)
	plan.Patches = append(plan.Patches, patches(t, `[{strategic: {spec: {template: {spec: {containers: [{name: main, envFrom: [{secretRef: {name: third}}]}]}}}}}]`)...)
	mustContain(t, refusal(t, plan).Message, "(Secret third)", "[secrets]")
}

// Whoever writes a ForkedWorkload writes as well what it says of resources.
func TestOutputsOfResourcesAreNotTrusted(t *testing.T) {
	plan := fork.Plan{
		Patches:   patches(t, `[{template: true, strategic: {spec: {template: {spec: {containers: [{name: main, envFrom: [{secretRef: {name: "{{ .resources.db.objectName }}"}}]}]}}}}}]`),
		Resources: map[string]crdv1.ResourceTemplateData{"db": {Name: "db", ObjectName: "sb-db"}},
	}
	mustContain(t, refusal(t, plan).Message, "(Secret sb-db)", "[secrets]")
	plan.AuthorAsked = true
	clone(t, plan)
	if !plan.Outputs()[power.Read{Kind: power.KindSecret, Name: "sb-db"}] {
		t.Errorf("the resources give %v", plan.Outputs())
	}
	plan.Resources["db"] = crdv1.ResourceTemplateData{Name: "db", ObjectName: "sb-db", OutputKind: "ConfigMap"}
	if got := plan.Outputs(); len(got) != 1 || !got[power.Read{Kind: power.KindConfigMap, Name: "sb-db"}] {
		t.Errorf("the resources give %v", got)
	}
}

func TestWishes(t *testing.T) {
	live := subjects()[0].live(t, func(p *corev1.PodTemplateSpec) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "own"}}})
	})
	wishes := func(text string) (fork.Wishes, *fork.Problem) {
		return fork.WishesOf(live, fork.Plan{Identity: identity(), Patches: patches(t, text)})
	}
	tests := []struct {
		name, patches string
		want          fork.Wishes
	}{
		{"nothing", `[]`, fork.Wishes{Replicas: 1}},
		{"what the baseline has", `[{strategic: {spec: {template: {spec: {containers: [{name: main, envFrom: [{secretRef: {name: own}}]}]}}}}}]`, fork.Wishes{Replicas: 1}},
		{"privileges, which are for others to refuse", `[{merge: {spec: {replicas: 3, template: {spec: {hostPID: true}}}}}]`, fork.Wishes{Replicas: 3}},
		{"one object in two places", `[{merge: {spec: {template: {spec: {imagePullSecrets: [{name: a}], volumes: [{name: v, secret: {secretName: a}}, {name: w, configMap: {name: a}}]}}}}}]`,
			fork.Wishes{Replicas: 1, Reads: []power.Read{{Kind: "Secret", Name: "a"}, {Kind: "ConfigMap", Name: "a"}}}},
		{"what a later patch takes away", `[{merge: {spec: {template: {spec: {imagePullSecrets: [{name: a}]}}}}}, {merge: {spec: {template: {spec: {imagePullSecrets: [{name: b}]}}}}},
			{json: [{op: remove, path: /spec/template/spec/imagePullSecrets/0}]}]`,
			fork.Wishes{Replicas: 1, Reads: []power.Read{{Kind: "Secret", Name: "a"}, {Kind: "Secret", Name: "b"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, p := wishes(tt.patches)
			if p != nil || !cmp.Equal(got, tt.want) {
				t.Errorf("%+v, %+v", got, p)
			}
		})
	}
	if _, p := wishes(`[{json: [{op: test, path: /spec/replicas, value: 7}]}]`); p == nil {
		t.Error("what does not apply now may apply later, and says nothing about what it asks for then")
	}
	if _, p := fork.WishesOf(&livebaseline.Workload{Ref: crdv1.ObjectRef{Kind: "Any"}}, fork.Plan{}); p == nil {
		t.Error("what is no workload asks for something")
	}
}

// Who is asked about a patch, and what is refused where nobody is, are the same objects.
func TestWishesAreWhatIsRefused(t *testing.T) {
	without := subjects()[0].live(t, podWithoutPower)
	for _, way := range append(waysToRead(), waysByVolumes()...) {
		with := without.Template.DeepCopy()
		way.give(with)
		for form, patch := range formsOf(t, without.Template, with) {
			plan := fork.Plan{Identity: identity(), Patches: []crdv1.Patch{patch}}
			wishes, problem := fork.WishesOf(without, plan)
			if problem != nil {
				t.Fatal(problem.Message)
			}
			plan.Powers = power.All()[:len(power.All())-4]
			_, refused := fork.Clone(without, plan)
			reads := refused != nil && strings.Contains(refused.Message, string(power.Secrets))
			if (len(wishes.Reads) > 0) != reads || (way.power == power.Secrets) && !reads {
				t.Errorf("%s by a %s patch wishes for %v, and is refused for that: %t", way.name, form, wishes.Reads, reads)
			}
		}
	}
}
