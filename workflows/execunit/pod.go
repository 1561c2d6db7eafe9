package execunit

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/protos/problems"
	"switchyard.dev/workflows/iocontext"
)

// Names that the operator adds to the pod of a unit; a template must not use them.
const (
	VolumeIO      = "signadot-execunit-io"
	VolumeToken   = "signadot-execunit-token" //nolint:gosec // A name.
	InputManager  = "signadot-execunit-input-manager"
	OutputManager = "signadot-execunit-output-manager"
)

// tokenSeconds is the lifetime of a token; the kubelet renews it in time.
const tokenSeconds = 3600

// user is the user ID of the managers, which no image is expected to use.
const user = 65532

// PodName returns a name for the pod of an attempt that ends with random, which is lower-case
// letters and digits. The name cannot be predicted before it is recorded.
func PodName(who Identity, random string) string {
	return crdv1.ObjectName(crdv1.MaxServiceName-len(random)-1, who.Lifecycle, who.Unit, strconv.Itoa(int(who.Attempt))) + "-" + random
}

// Pod returns the pod of an attempt of a unit that Accept accepts.
func Pod(u crdv1.WorkUnit, who Identity, s Settings) *corev1.Pod {
	u.ExecUnitTemplate = cmp.Or(u.ExecUnitTemplate, &crdv1.ExecUnitTemplate{})
	template := u.ExecUnitTemplate.PodTemplate.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: who.Pod, Namespace: Namespace(u, s),
			Labels: withLabels(template.Labels, who), Annotations: withAnnotations(template.Annotations, template.Spec, who.Attempt),
			Finalizers: []string{crdv1.Finalizer},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: crdv1.APIVersion, Kind: crdv1.KindLifecycleMethods, Name: who.Lifecycle, UID: who.UID, Controller: new(true),
			}},
		},
		Spec: template.Spec,
	}
	spec := &pod.Spec
	spec.RestartPolicy = corev1.RestartPolicyNever
	Prepare(spec, s.PullSecrets)
	bound(spec, s.Deadline)
	if i := MainIndex(*spec); i >= 0 {
		runWrapped(&spec.Containers[i], u)
	}
	spec.Volumes = append(spec.Volumes, volumes()...)
	spec.InitContainers = append(spec.InitContainers, manager(InputManager, s.InitImage, s.InitPullPolicy, s.InitResources, who, s))
	spec.Containers = append(spec.Containers, manager(OutputManager, s.SidecarImage, s.SidecarPullPolicy, s.SidecarResources, who, s))
	return pod
}

// withLabels returns the labels of a template, and the operator's.
func withLabels(labels map[string]string, who Identity) map[string]string {
	out := map[string]string{}
	maps.Copy(out, labels)
	out[crdv1.LabelUnit] = crdv1.LabelValue(who.Unit)
	out[crdv1.LabelLifecycle] = crdv1.LabelValue(who.Lifecycle)
	for label, value := range map[string]string{crdv1.LabelSandbox: who.Sandbox, crdv1.LabelResource: who.Resource} {
		delete(out, label)
		if value != "" {
			out[label] = crdv1.LabelValue(value)
		}
	}
	return out
}

// AnnotationDefaultContainer names the container that kubectl logs shows by default.
const AnnotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// withAnnotations returns the annotations of a template, the attempt, and the default container,
// unless the template has one.
func withAnnotations(annotations map[string]string, pod corev1.PodSpec, attempt int32) map[string]string {
	out := map[string]string{}
	maps.Copy(out, annotations)
	out[crdv1.AnnotationAttempt] = strconv.Itoa(int(attempt))
	if i := MainIndex(pod); i >= 0 && out[AnnotationDefaultContainer] == "" {
		out[AnnotationDefaultContainer] = pod.Containers[i].Name
	}
	return out
}

// handingIn is how long after its deadline a pod may still try to deliver the outputs of a script
// that has ended in time.
const handingIn = 24 * time.Hour

// bound limits the lifetime of a pod, unless its template has a shorter limit. The controller
// ends a script at its deadline; this limit is for when no controller runs.
func bound(pod *corev1.PodSpec, deadline time.Duration) {
	seconds := int64((deadline + handingIn + time.Second - 1) / time.Second)
	if deadline > 0 && (pod.ActiveDeadlineSeconds == nil || *pod.ActiveDeadlineSeconds > seconds) {
		pod.ActiveDeadlineSeconds = &seconds
	}
}

// mainName is the name of the container that runs the script, if there is one of this name.
const mainName = "main"

// MainIndex returns the index of a template's main container; -1 when there is none.
func MainIndex(pod corev1.PodSpec) int {
	if i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == mainName }); i >= 0 {
		return i
	}
	return min(0, len(pod.Containers)-1)
}

// runWrapped makes a container run the wrapper, which runs the script or the command.
func runWrapped(c *corev1.Container, u crdv1.WorkUnit) {
	command := []string{iocontext.RunPath}
	if u.ExecUnitTemplate.Script == "" {
		command = slices.Concat(command, []string{"--"}, c.Command, c.Args)
	}
	c.Command, c.Args = command, nil
	// The wrapper's result; the container's log could contain values.
	c.TerminationMessagePath, c.TerminationMessagePolicy = corev1.TerminationMessagePathDefault, corev1.TerminationMessageReadFile
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: VolumeIO, MountPath: iocontext.Root})
	for _, in := range u.ExecUnitTemplate.InputInjects {
		if in.Dst.LocalPath != "" {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
				Name: VolumeIO, MountPath: in.Dst.LocalPath, SubPath: inputSubPath(in.InputName), ReadOnly: true,
			})
		}
	}
}

// inputSubPath returns the path of an input's file in the volume.
func inputSubPath(name string) string {
	return iocontext.InputsDir[len(iocontext.Root)+1:] + "/" + name
}

// volumes returns the shared volume, and the volume with the token.
func volumes() []corev1.Volume {
	return []corev1.Volume{
		{Name: VolumeIO, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		TokenVolume(VolumeToken, iocontext.Audience, tokenFile),
	}
}

// The folder of the token, and its file.
const (
	tokenDir  = "/var/run/secrets/io-context" //nolint:gosec // A path.
	tokenFile = "token"
)

// manager returns the container of one of the managers.
func manager(name, image string, pull corev1.PullPolicy, uses *corev1.ResourceRequirements, who Identity, s Settings) corev1.Container {
	c := Container(name, image, pull, uses)
	c.Env = []corev1.EnvVar{
		{Name: iocontext.EnvAddress, Value: s.Address},
		{Name: iocontext.EnvCA, Value: s.CA},
		{Name: iocontext.EnvLifecycle, Value: who.Lifecycle},
		{Name: iocontext.EnvUnit, Value: who.Unit},
	}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: VolumeIO, MountPath: iocontext.Root},
		{Name: VolumeToken, MountPath: tokenDir, ReadOnly: true},
	}
	return c
}

// Container returns a container of the operator's in the pod of a user. It is accepted by Pod Security
// restricted. Without resources it has at most 256Mi of memory.
func Container(name, image string, pull corev1.PullPolicy, uses *corev1.ResourceRequirements) corev1.Container {
	if uses == nil {
		uses = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		}
	}
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: pull,
		Resources: *uses.DeepCopy(),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
			RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
}

// TokenVolume returns a volume with a token of the pod's account for an audience, in a file of this name.
func TokenVolume(name, audience, file string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: audience, ExpirationSeconds: new(int64(tokenSeconds)), Path: file,
		}}},
	}}}
}

// Prepare completes a pod of a user's template with what the API server would otherwise choose: the account
// that tokens are issued for, no token unless the template asks for one, and pull secrets.
func Prepare(spec *corev1.PodSpec, pullSecrets []string) {
	spec.EphemeralContainers = nil
	if account(*spec) == "" && spec.AutomountServiceAccountToken == nil {
		spec.AutomountServiceAccountToken = new(false)
	}
	spec.ServiceAccountName = cmp.Or(account(*spec), "default")
	for _, name := range pullSecrets {
		if !slices.Contains(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name}) {
			spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
		}
	}
}

// account returns the service account that a pod names; empty when it names none.
func account(pod corev1.PodSpec) string {
	if pod.ServiceAccountName != "" {
		return pod.ServiceAccountName
	}
	return pod.DeprecatedServiceAccount
}

// Settings are the operator's settings for all units.
type Settings struct {
	// InitImage and SidecarImage are the images of the managers of inputs and outputs.
	InitImage, SidecarImage           string
	InitPullPolicy, SidecarPullPolicy corev1.PullPolicy
	// InitResources and SidecarResources are their resources. Nil: 256Mi of memory at most.
	InitResources, SidecarResources *corev1.ResourceRequirements
	// PullSecrets are for these images, in the namespace of the pod.
	PullSecrets []string
	// Address is that of the IO context server, as https://host:port, and CA the certificates
	// that verify it, in PEM.
	Address string
	CA      string
	// OperatorNamespace is the namespace of units that name none.
	OperatorNamespace string
	// Namespaces are those in which units may run; empty: all.
	Namespaces []string
	// Allow are the powers beyond Pod Security baseline that units may have.
	Allow Powers
	// AuthorAsked: the API server asks, when a unit is written, whether its author may create pods in
	// its namespace, which includes service accounts, and read the Secrets, ConfigMaps and claims that
	// its template names.
	AuthorAsked bool
	// Deadline is how long an attempt may take until its script has ended; 0: no limit.
	Deadline time.Duration
}

// Identity is the attempt of a unit that a pod is for.
type Identity struct {
	// Lifecycle is the name of the SignadotObjectLifecycleMethods, UID its UID.
	Lifecycle string
	UID       types.UID
	// Unit is the name of the unit, Attempt the number of the attempt, counted from 1.
	Unit    string
	Attempt int32
	// Pod is the name of the pod.
	Pod string
	// Sandbox and Resource are the names of the unit's sandbox and resource; they may be empty.
	Sandbox, Resource string
}

// Problem is why a unit cannot run. Its message has at most two sentences: the problem and the remedy.
type Problem = problems.Problem

// Namespace returns the namespace of a unit's pod.
func Namespace(u crdv1.WorkUnit, s Settings) string {
	if u.ExecUnitTemplate != nil && u.ExecUnitTemplate.PodTemplate.Namespace != "" {
		return u.ExecUnitTemplate.PodTemplate.Namespace
	}
	return s.OperatorNamespace
}
