package fork_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	crdv1 "switchyard.dev/protos/crd/v1"
	livebaseline "switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/power"
)

// wayToPower is one way in which a pod comes to power, on top of podWithEverything.
type wayToPower struct {
	name  string
	power power.Power
	path  string // A part of the path that the refusal names.
	give  func(*corev1.PodTemplateSpec)
}

// main returns the container that is called main.
func main(p *corev1.PodTemplateSpec) *corev1.Container { return &p.Spec.Containers[0] }

// context returns the security context of the container that is called main.
func context(p *corev1.PodTemplateSpec) *corev1.SecurityContext { return contextOf(main(p)) }

func contextOf(c *corev1.Container) *corev1.SecurityContext {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	return c.SecurityContext
}

func podContext(p *corev1.PodTemplateSpec) *corev1.PodSecurityContext {
	if p.Spec.SecurityContext == nil {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	return p.Spec.SecurityContext
}

func volume(source corev1.VolumeSource) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
	}
}

func ref[T any](v T) *T { return &v }

// waysToPower are all that we know of, in pods and in containers of all kinds.
func waysToPower() []wayToPower {
	ways := []wayToPower{
		{"the network of the node", power.HostNamespaces, "hostNetwork", func(p *corev1.PodTemplateSpec) { p.Spec.HostNetwork = true }},
		{"the processes of the node", power.HostNamespaces, "hostPID", func(p *corev1.PodTemplateSpec) { p.Spec.HostPID = true }},
		{"the IPC of the node", power.HostNamespaces, "hostIPC", func(p *corev1.PodTemplateSpec) { p.Spec.HostIPC = true }},
		{"the users of the node", power.HostNamespaces, "hostUsers", func(p *corev1.PodTemplateSpec) { p.Spec.HostUsers = ref(true) }},
		{"another service account", power.ServiceAccount, "serviceAccountName", func(p *corev1.PodTemplateSpec) { p.Spec.ServiceAccountName = "admin" }},
		{"another service account by the older field", power.ServiceAccount, "serviceAccountName", func(p *corev1.PodTemplateSpec) {
			p.Spec.ServiceAccountName, p.Spec.DeprecatedServiceAccount = "", "admin"
		}},
		{"the service account that all have who name none", power.ServiceAccount, "serviceAccountName", func(p *corev1.PodTemplateSpec) { p.Spec.ServiceAccountName = "" }},
		{"the token of its service account", power.ServiceAccount, "automountServiceAccountToken", func(p *corev1.PodTemplateSpec) {
			p.Spec.AutomountServiceAccountToken = ref(true)
		}},
		{"a token for somebody else", power.ServiceAccount, "serviceAccountToken", volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "t"}}},
		}})},
		{"a certificate of its service account", power.ServiceAccount, "podCertificate", volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{SignerName: "a.b/c", KeyType: "ED25519"}}},
		}})},
		{"a Windows account", power.ServiceAccount, "gmsaCredentialSpecName", func(p *corev1.PodTemplateSpec) {
			podContext(p).WindowsOptions = &corev1.WindowsSecurityContextOptions{GMSACredentialSpecName: ref("admin")}
		}},
		{"a node", power.NodeName, "nodeName", func(p *corev1.PodTemplateSpec) { p.Spec.NodeName = "control-plane" }},
		{"another runtime", power.RuntimeClass, "runtimeClassName", func(p *corev1.PodTemplateSpec) { p.Spec.RuntimeClassName = ref("runc") }},
		{"the priority of the cluster by name", power.Priority, "priorityClassName", func(p *corev1.PodTemplateSpec) {
			p.Spec.PriorityClassName = "system-node-critical"
		}},
		{"the priority of the cluster by number", power.Priority, "priority", func(p *corev1.PodTemplateSpec) { p.Spec.Priority = ref(int32(2000001000)) }},
		{"a setting of the kernel", power.Sysctls, "sysctls[kernel.msgmax]", func(p *corev1.PodTemplateSpec) {
			podContext(p).Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax", Value: "65536"}}
		}},
		{"a setting of the kernel by annotation", power.Sysctls, "unsafe-sysctls", func(p *corev1.PodTemplateSpec) {
			p.Annotations["security.alpha.kubernetes.io/unsafe-sysctls"] = "kernel.msgmax=1"
		}},
		{"no seccomp for the pod", power.SecurityProfiles, "securityContext.seccompProfile", func(p *corev1.PodTemplateSpec) {
			podContext(p).SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		}},
		{"no word about seccomp where the baseline has one", power.SecurityProfiles, "securityContext.seccompProfile", func(p *corev1.PodTemplateSpec) {
			podContext(p).SeccompProfile = nil
		}},
		{"no AppArmor for the pod", power.SecurityProfiles, "securityContext.appArmorProfile", func(p *corev1.PodTemplateSpec) {
			podContext(p).AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		}},
		{"no AppArmor by annotation", power.SecurityProfiles, "container.apparmor", func(p *corev1.PodTemplateSpec) {
			p.Annotations["container.apparmor.security.beta.kubernetes.io/main"] = "unconfined"
		}},
		{"no seccomp by annotation", power.SecurityProfiles, "seccomp.security.alpha", func(p *corev1.PodTemplateSpec) {
			p.Annotations["seccomp.security.alpha.kubernetes.io/pod"] = "unconfined"
		}},
		{"another SELinux type for the pod", power.SecurityProfiles, "securityContext.seLinuxOptions", func(p *corev1.PodTemplateSpec) {
			podContext(p).SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
		}},
		{"processes of a Windows node for the pod", power.Privileged, "windowsOptions.hostProcess", func(p *corev1.PodTemplateSpec) {
			podContext(p).WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: ref(true)}
		}},
		{"a directory of the node", power.HostPath, "volumes[v]", volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})},
	}
	ways = append(ways, waysByVolumes()...)
	ways = append(ways, waysByMounts()...)
	ways = append(ways, waysOutOfConfinement()...)
	ways = append(ways, waysToRead()...)
	ways = append(ways, waysOfContainers("containers[main]", main)...)
	ways = append(ways, waysOfContainers("initContainers[init]", func(p *corev1.PodTemplateSpec) *corev1.Container { return &p.Spec.InitContainers[0] })...)
	ways = append(ways, waysOfContainers("containers[new]", func(p *corev1.PodTemplateSpec) *corev1.Container {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "new", Image: "new:1"})
		return &p.Spec.Containers[len(p.Spec.Containers)-1]
	})...)
	return append(ways, waysOfContainers("initContainers[new]", func(p *corev1.PodTemplateSpec) *corev1.Container {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "new", Image: "new:1"})
		return &p.Spec.InitContainers[len(p.Spec.InitContainers)-1]
	})...)
}

// waysByVolumes are all volumes that reach beyond the namespace.
func waysByVolumes() []wayToPower {
	var ways []wayToPower
	for name, source := range map[string]corev1.VolumeSource{
		"csi":                  {CSI: &corev1.CSIVolumeSource{Driver: "d"}},
		"nfs":                  {NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}},
		"iscsi":                {ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "s", IQN: "q"}},
		"flexVolume":           {FlexVolume: &corev1.FlexVolumeSource{Driver: "d"}},
		"gitRepo":              {GitRepo: &corev1.GitRepoVolumeSource{Repository: "r"}},
		"gcePersistentDisk":    {GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d"}},
		"awsElasticBlockStore": {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "d"}},
		"glusterfs":            {Glusterfs: &corev1.GlusterfsVolumeSource{EndpointsName: "e", Path: "/"}},
		"rbd":                  {RBD: &corev1.RBDVolumeSource{CephMonitors: []string{"m"}, RBDImage: "i"}},
		"cinder":               {Cinder: &corev1.CinderVolumeSource{VolumeID: "d"}},
		"cephfs":               {CephFS: &corev1.CephFSVolumeSource{Monitors: []string{"m"}}},
		"flocker":              {Flocker: &corev1.FlockerVolumeSource{DatasetName: "d"}},
		"fc":                   {FC: &corev1.FCVolumeSource{WWIDs: []string{"w"}}},
		"azureFile":            {AzureFile: &corev1.AzureFileVolumeSource{SecretName: "s", ShareName: "s"}},
		"azureDisk":            {AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "u"}},
		"vsphereVolume":        {VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "p"}},
		"quobyte":              {Quobyte: &corev1.QuobyteVolumeSource{Registry: "r", Volume: "v"}},
		"photonPersistentDisk": {PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{PdID: "d"}},
		"portworxVolume":       {PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "d"}},
		"scaleIO":              {ScaleIO: &corev1.ScaleIOVolumeSource{Gateway: "g", System: "s", SecretRef: &corev1.LocalObjectReference{Name: "s"}, VolumeName: "v"}},
		"storageos":            {StorageOS: &corev1.StorageOSVolumeSource{VolumeName: "v"}},
	} {
		ways = append(ways, wayToPower{"a volume of kind " + name, power.Volumes, "volumes[v]", volume(source)})
	}
	return ways
}

// waysByMounts make more of the directory of the node that the baseline reads in part.
func waysByMounts() []wayToPower {
	mount := func(m corev1.VolumeMount) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) {
			m.Name, m.MountPath = "logs", "/more"
			p.Spec.Containers[1].VolumeMounts = append(p.Spec.Containers[1].VolumeMounts, m)
		}
	}
	return []wayToPower{
		{"to write what was only read", power.HostPath, "containers[cache].volumeMounts[/more]", mount(corev1.VolumeMount{SubPath: "app"})},
		{"to read another part", power.HostPath, "containers[cache].volumeMounts[/more]", mount(corev1.VolumeMount{ReadOnly: true})},
		{"to read it as root", power.HostPath, "(the user at volume logs)", func(p *corev1.PodTemplateSpec) { context(p).RunAsUser = ref(int64(0)) }},
		{"to read it with the group of others", power.HostPath, "(the user at volume logs)", func(p *corev1.PodTemplateSpec) {
			podContext(p).SupplementalGroups = []int64{999}
		}},
		{"to see what is mounted later", power.HostPath, "containers[cache].volumeMounts[/more]",
			mount(corev1.VolumeMount{ReadOnly: true, SubPath: "app", MountPropagation: ref(corev1.MountPropagationHostToContainer)})},
	}
}

// waysOutOfConfinement leave out what confines the container strict, which no other
// container of podWithoutPower has.
func waysOutOfConfinement() []wayToPower {
	strict := func(give func(*corev1.SecurityContext)) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) { give(contextOf(&p.Spec.Containers[2])) }
	}
	return []wayToPower{
		{"no word about the escalation of privileges", power.Confinement, "leaving out spec.template.spec.containers[strict].securityContext.allowPrivilegeEscalation",
			strict(func(s *corev1.SecurityContext) { s.AllowPrivilegeEscalation = nil })},
		{"the capabilities that were dropped", power.Confinement, "capabilities.drop[ALL]", strict(func(s *corev1.SecurityContext) { s.Capabilities = nil })},
		{"all capabilities but some that are dropped", power.Confinement, "capabilities.drop[ALL]", strict(func(s *corev1.SecurityContext) {
			s.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"NET_RAW"}}
		})},
		{"the users that it had not", power.Confinement, "runAsNonRoot", strict(func(s *corev1.SecurityContext) { s.RunAsNonRoot = nil })},
		{"root by its number", power.Confinement, "runAsNonRoot", strict(func(s *corev1.SecurityContext) { s.RunAsNonRoot, s.RunAsUser = ref(false), ref(int64(0)) })},
		{"nothing of what confines it", power.Confinement, "containers[strict]", func(p *corev1.PodTemplateSpec) { p.Spec.Containers[2].SecurityContext = nil }},
	}
}

// waysOfContainers are those of one container.
func waysOfContainers(path string, of func(*corev1.PodTemplateSpec) *corev1.Container) []wayToPower {
	set := func(give func(*corev1.SecurityContext)) func(*corev1.PodTemplateSpec) {
		return func(p *corev1.PodTemplateSpec) { give(contextOf(of(p))) }
	}
	ways := []wayToPower{
		{"privileged", power.Privileged, ".privileged", set(func(s *corev1.SecurityContext) { s.Privileged = ref(true) })},
		{"allowPrivilegeEscalation", power.Privileged, ".allowPrivilegeEscalation", set(func(s *corev1.SecurityContext) { s.AllowPrivilegeEscalation = ref(true) })},
		{"an unmasked /proc", power.Privileged, ".procMount", set(func(s *corev1.SecurityContext) { s.ProcMount = ref(corev1.UnmaskedProcMount) })},
		{"processes of a Windows node", power.Privileged, ".hostProcess", set(func(s *corev1.SecurityContext) {
			s.WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: ref(true)}
		})},
		{"a Windows account written out", power.ServiceAccount, ".gmsaCredentialSpec", set(func(s *corev1.SecurityContext) {
			s.WindowsOptions = &corev1.WindowsSecurityContextOptions{GMSACredentialSpec: ref("{}")}
		})},
		{"a capability", power.Capabilities, "capabilities.add[SYS_ADMIN]", set(func(s *corev1.SecurityContext) {
			s.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}
		})},
		{"a capability as the kernel writes it", power.Capabilities, "capabilities.add[NET_ADMIN]", set(func(s *corev1.SecurityContext) {
			s.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"cap_net_admin"}}
		})},
		{"all capabilities", power.Capabilities, "capabilities.add[ALL]", set(func(s *corev1.SecurityContext) {
			s.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"ALL"}}
		})},
		{"no seccomp", power.SecurityProfiles, ".seccompProfile", set(func(s *corev1.SecurityContext) {
			s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		})},
		{"a seccomp profile of the node", power.SecurityProfiles, ".seccompProfile", set(func(s *corev1.SecurityContext) {
			s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ref("all.json")}
		})},
		{"no AppArmor", power.SecurityProfiles, ".appArmorProfile", set(func(s *corev1.SecurityContext) {
			s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		})},
		{"an AppArmor profile of the node", power.SecurityProfiles, ".appArmorProfile", set(func(s *corev1.SecurityContext) {
			s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: ref("all")}
		})},
		{"another SELinux label", power.SecurityProfiles, ".seLinuxOptions", set(func(s *corev1.SecurityContext) {
			s.SELinuxOptions = &corev1.SELinuxOptions{User: "system_u"}
		})},
		{"a port of the node", power.HostPorts, ".ports.hostPort", func(p *corev1.PodTemplateSpec) {
			c := of(p)
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 7070, HostPort: 7070})
		}},
		{"a probe of another host", power.ProbeHosts, "host 169.254.169.254", func(p *corev1.PodTemplateSpec) {
			of(p).LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "169.254.169.254"}}}
		}},
		{"a hook to another host", power.ProbeHosts, "host 10.0.0.1", func(p *corev1.PodTemplateSpec) {
			of(p).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Host: "10.0.0.1"}}}
		}},
	}
	for i := range ways {
		ways[i].name = path + ": " + ways[i].name
	}
	return ways
}

// podWithoutPower is a pod as careful people write one, with one directory of the
// node of which it reads a part.
func podWithoutPower(p *corev1.PodTemplateSpec) {
	p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "init", Image: "init:1"})
	p.Spec.HostUsers, p.Spec.AutomountServiceAccountToken = ref(false), ref(false)
	p.Spec.RuntimeClassName = ref("gvisor")
	podContext(p).SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	contextOf(&p.Spec.InitContainers[0]).AllowPrivilegeEscalation = ref(false)
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "strict", Image: "strict:1", SecurityContext: &corev1.SecurityContext{
		AllowPrivilegeEscalation: ref(false), RunAsNonRoot: ref(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}})
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
		Name: "logs", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/log"}},
	})
	main(p).VolumeMounts = []corev1.VolumeMount{{Name: "logs", MountPath: "/logs", ReadOnly: true, SubPath: "app"}}
	main(p).LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/"}}}
}

// subject is a baseline of one kind, with and without a way to power.
type subject struct {
	kind string
	// live makes the baseline with a change to its pods.
	live func(t testing.TB, change func(*corev1.PodTemplateSpec)) *livebaseline.Workload
}

func subjects() []subject {
	return []subject{
		{"Deployment", func(t testing.TB, change func(*corev1.PodTemplateSpec)) *livebaseline.Workload {
			d := baseline(t)
			change(&d.Spec.Template)
			return livebaseline.OfDeployment(d)
		}},
		{"Rollout", func(t testing.TB, change func(*corev1.PodTemplateSpec)) *livebaseline.Workload {
			template := baseline(t).Spec.Template
			change(&template)
			w := rollout(t)
			setTemplate(t, w, &template)
			return w
		}},
	}
}

// formsOf returns patches of each form that make one pod template of another.
func formsOf(t testing.TB, from, to *corev1.PodTemplateSpec) map[string]crdv1.Patch {
	t.Helper()
	before, after := document(t, from), document(t, to)
	merge, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		t.Fatal(err)
	}
	strategic, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.PodTemplateSpec{})
	if err != nil {
		t.Fatal(err)
	}
	inSpec := func(template []byte) string { return `{"spec":{"template":` + string(template) + `}}` }
	return map[string]crdv1.Patch{
		"strategic": {Strategic: raw(inSpec(strategic))},
		"merge":     {Merge: raw(inSpec(merge))},
		"json":      operations(`{"op":"replace","path":"/spec/template","value":` + string(after) + `}`),
		"template":  {Strategic: raw(inSpec(strategic)), Template: true},
	}
}

func document(t testing.TB, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// operations is a JSON patch.
func operations(list ...string) crdv1.Patch {
	var p crdv1.Patch
	for _, text := range list {
		p.JSON = append(p.JSON, *raw(text))
	}
	return p
}

// images lets patches have another image where the baseline mounts a directory of the node,
// as it does here.
var images = power.Powers{power.NodePrograms}

func TestNoPatchGivesPower(t *testing.T) {
	for _, s := range subjects() {
		without := s.live(t, podWithoutPower)
		for _, way := range waysToPower() {
			with := without.Template.DeepCopy()
			way.give(with)
			for form, patch := range formsOf(t, without.Template, with) {
				t.Run(s.kind+" gets "+way.name+" by a "+form+" patch", func(t *testing.T) {
					tryPower(t, without, patch, way)
				})
			}
			t.Run(s.kind+" that has "+way.name+" keeps it", func(t *testing.T) {
				have := s.live(t, func(p *corev1.PodTemplateSpec) { podWithoutPower(p); way.give(p) })
				if _, problem := fork.Clone(have, fork.Plan{Identity: identity(), Patches: patches(t, patchImage), Powers: images}); problem != nil {
					t.Error(problem.Message)
				}
			})
		}
	}
}

// tryPower patches a baseline: refused, unless the configuration allows exactly that,
// and refused again when it allows all else.
func tryPower(t *testing.T, without *livebaseline.Workload, patch crdv1.Patch, way wayToPower) {
	plan := fork.Plan{Identity: identity(), Patches: append(patches(t, patchImage), patch), Powers: images, AuthorAsked: way.power != power.Secrets}
	got, problem := fork.Clone(without, plan)
	if problem == nil || problem.Reason != fork.ReasonPatchNotAllowed {
		t.Fatalf("not refused: %+v, %+v", problem, got)
	}
	if in, _, ofContainer := strings.Cut(way.name, ": "); ofContainer {
		mustContain(t, problem.Message, in)
	}
	mustContain(t, problem.Message, "patch 2 of 2", without.String(), way.path, string(way.power), "sandboxes.patches.allow: [")

	plan.Powers = slices.DeleteFunc(power.All(), func(p power.Power) bool { return p == way.power })
	if _, problem := fork.Clone(without, plan); problem == nil || problem.Reason != fork.ReasonPatchNotAllowed {
		t.Errorf("allowed by another power: %+v", problem)
	}
	plan.Powers = append(power.Powers{way.power}, images...)
	if _, problem := fork.Clone(without, plan); problem != nil {
		t.Errorf("refused although %s is allowed: %s", way.power, problem.Message)
	}
}

func TestHarmlessPatchesNeedNoPower(t *testing.T) {
	ways := map[string]func(*corev1.PodTemplateSpec){
		"a Secret, a ConfigMap and a claim of the namespace that its author may read": func(p *corev1.PodTemplateSpec) {
			p.Spec.Volumes = append(p.Spec.Volumes,
				corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
				corev1.Volume{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
				corev1.Volume{Name: "p", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
				corev1.Volume{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				corev1.Volume{Name: "j", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{}}},
				}}})
			main(p).EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}
		},
		"less than the baseline has": func(p *corev1.PodTemplateSpec) {
			context(p).AllowPrivilegeEscalation, context(p).Privileged = ref(false), ref(false)
			context(p).Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_BIND_SERVICE"}}
			context(p).SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
		},
		"a container like any other": func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "debug", Image: "debug:1"})
		},
		"a part that the baseline reads, in another place": func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers[1].VolumeMounts = []corev1.VolumeMount{{Name: "logs", MountPath: "/l", ReadOnly: true, SubPath: "app"}}
		},
		"the same directory by another name": func(p *corev1.PodTemplateSpec) {
			p.Spec.Volumes[0].Name, main(p).VolumeMounts[0].Name = "renamed", "renamed"
		},
		"another user where no volume of the node is": func(p *corev1.PodTemplateSpec) {
			contextOf(&p.Spec.Containers[1]).RunAsUser = ref(int64(0))
		},
		"a user who is not root, by its number": func(p *corev1.PodTemplateSpec) {
			contextOf(&p.Spec.Containers[2]).RunAsNonRoot, contextOf(&p.Spec.Containers[2]).RunAsUser = nil, ref(int64(1000))
		},
		"a capability that hurts nobody": func(p *corev1.PodTemplateSpec) {
			contextOf(&p.Spec.Containers[2]).Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"}
		},
		"probes of its own port":                   func(p *corev1.PodTemplateSpec) { main(p).LivenessProbe.HTTPGet.Path = "/live" },
		"a priority that the cluster's owner made": func(p *corev1.PodTemplateSpec) { p.Spec.PriorityClassName = "low" },
	}
	for _, s := range subjects() {
		without := s.live(t, podWithoutPower)
		for name, give := range ways {
			with := without.Template.DeepCopy()
			give(with)
			for form, patch := range formsOf(t, without.Template, with) {
				t.Run(s.kind+" may get "+name+" by a "+form+" patch", func(t *testing.T) {
					if _, problem := fork.Clone(without, fork.Plan{Identity: identity(), Patches: []crdv1.Patch{patch}, AuthorAsked: true}); problem != nil {
						t.Error(problem.Message)
					}
				})
			}
		}
	}
}

func TestTheRefusalOfPowerNamesWhoGivesIt(t *testing.T) {
	const give = `merge: {spec: {template: {spec: {hostPID: true}}}}`
	tests := []struct {
		name, patches string
		says          []string
	}{
		{"the patch that gives it", `[{merge: {spec: {replicas: 2}}}, {` + give + `}, {merge: {spec: {replicas: 3}}}]`, []string{"patch 2 of 3", "hostPID"}},
		{"the last one that gives it, where one between takes it away", `[{` + give + `}, {merge: {spec: {template: {spec: {hostPID: null}}}}}, {` + give + `}]`, []string{"patch 3 of 3"}},
		{"how much more there is", `[{merge: {spec: {template: {spec: {hostPID: true, hostIPC: true, nodeName: node-1}}}}}]`, []string{"and 2 more fields", "[hostNamespaces, nodeName]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := refusal(t, fork.Plan{Patches: patches(t, tt.patches)})
			if p.Reason != fork.ReasonPatchNotAllowed {
				t.Error(p.Reason)
			}
			mustContain(t, p.Message, tt.says...)
		})
	}
	t.Run("and nobody when what was given is taken away", func(t *testing.T) {
		clone(t, fork.Plan{Patches: patches(t, `[{`+give+`}, {merge: {spec: {template: {spec: {hostPID: null}}}}}]`)})
	})
}

func TestANewContainerIsConfinedByWhatConfinesAll(t *testing.T) {
	hard := func(drop ...corev1.Capability) *corev1.SecurityContext {
		return &corev1.SecurityContext{AllowPrivilegeEscalation: ref(false), RunAsNonRoot: ref(true), Capabilities: &corev1.Capabilities{Drop: drop}}
	}
	live := subjects()[0].live(t, func(p *corev1.PodTemplateSpec) {
		p.Spec.Containers[0].SecurityContext, p.Spec.Containers[1].SecurityContext = hard("ALL"), hard("NET_RAW", "CAP_CHOWN")
	})
	tests := []struct{ name, adds, refused string }{
		{"what all have is enough", `{allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [net_raw, CHOWN]}}`, ""},
		{"more than all have is enough", `{allowPrivilegeEscalation: false, runAsUser: 1000, capabilities: {drop: [ALL]}}`, ""},
		{"nothing is enough, since it is inherited", `{}`, ""},
		{"a word that it may be root is not", `{runAsNonRoot: false}`, "runAsNonRoot"},
		{"root by its number is not", `{runAsUser: 0}`, "runAsNonRoot"},
		{"a list of no capabilities is not", `{capabilities: {drop: []}}`, "capabilities.drop[CHOWN]"},
		{"one of the capabilities is not", `{allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [NET_RAW]}}`, "capabilities.drop[CHOWN]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, p := fork.Clone(live, fork.Plan{Identity: identity(), Patches: patches(t, `
- strategic: {spec: {template: {spec: {containers: [{name: new, image: i, securityContext: `+tt.adds+`}]}}}}`)})
			switch {
			case tt.refused == "" && p != nil:
				t.Error(p.Message)
			case tt.refused != "" && p == nil:
				t.Error("not refused")
			case tt.refused != "":
				mustContain(t, p.Message, "leaving out spec.template.spec.containers[new].securityContext."+tt.refused, "[confinement]")
			}
		})
	}
}

func TestEphemeralContainersAreLookedAtAsWell(t *testing.T) {
	p := refusal(t, fork.Plan{Patches: patches(t, `
- merge: {spec: {template: {spec: {ephemeralContainers: [{name: debug, image: d, securityContext: {privileged: true}}]}}}}`)})
	if p.Reason != fork.ReasonPatchNotAllowed {
		t.Error(p.Reason)
	}
	mustContain(t, p.Message, "ephemeralContainers[debug].securityContext.privileged")
}

func TestPowersAreReadByName(t *testing.T) {
	var all []string
	for _, p := range power.All() {
		all = append(all, string(p))
	}
	if got, err := power.Parse(all); err != nil || len(got) != len(all) {
		t.Error(got, err)
	}
	if _, err := power.Parse([]string{"hostPath", "root"}); err == nil {
		t.Error("a power that does not exist is taken")
	} else {
		mustContain(t, err.Error(), `"root"`, "hostPath", "probeHosts")
	}
}
