package jobpod

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/socket"
	"switchyard.dev/workflows/smarttest"
)

// mainName is the name of the main container of a group without a template.
const mainName = "main"

// PodName returns a name for a pod of a group that ends with random, which is lower-case letters and digits.
func PodName(group, random string) string {
	return crdv1.ObjectName(crdv1.MaxServiceName-len(random)-1, group) + "-" + random
}

// Version returns the hash of what the pods of a group are created from, except the certificates of the
// manager's authority.
func Version(g *crdv1.JobRunnerGroup, s Settings) string {
	s.CA = ""
	pod := render(g, s)
	text, err := json.Marshal(struct {
		Labels, Annotations map[string]string
		Spec                corev1.PodSpec
	}{pod.Labels, pod.Annotations, pod.Spec})
	if err != nil {
		return "" // Never: a pod has no value that JSON has not.
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:5])
}

// Pod returns the pod of this name of a group that Accept accepts.
func Pod(g *crdv1.JobRunnerGroup, name string, s Settings) *corev1.Pod {
	pod := render(g, s)
	pod.Name, pod.Namespace = name, g.Namespace
	pod.Labels[crdv1.JobRunnerGroupVersionLabel] = Version(g, s)
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: crdv1.APIVersion, Kind: crdv1.KindJobRunnerGroup, Name: g.Name, UID: g.UID, Controller: new(true),
	}}
	return pod
}

// CAOf returns the certificates that a pod verifies the manager with.
func CAOf(pod *corev1.Pod) string {
	for _, c := range pod.Spec.Containers {
		if c.Name != layout.ProxyContainer {
			continue
		}
		for _, v := range c.Env {
			if v.Name == layout.EnvCA {
				return v.Value
			}
		}
	}
	return ""
}

// Labels returns the labels that select the pods of a group.
func Labels(group string) map[string]string {
	return map[string]string{crdv1.JobRunnerGroupLabel: crdv1.LabelValue(group)}
}

// template returns the pod template of a group, with its main container and the image of that.
func template(g *crdv1.JobRunnerGroup) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{}
	if g.Spec.PodTemplate != nil {
		t = *g.Spec.PodTemplate.DeepCopy()
	}
	if len(t.Spec.Containers) == 0 {
		t.Spec.Containers = []corev1.Container{{Name: mainName}}
	}
	t.Spec.Containers[execunit.MainIndex(t.Spec)].Image = g.Spec.Image
	return t
}

// render returns a pod of a group without a name, an owner and a version.
func render(g *crdv1.JobRunnerGroup, s Settings) *corev1.Pod {
	t := template(g)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: metadata(s.Labels, t.Labels), Annotations: metadata(s.Annotations, t.Annotations)},
		Spec:       t.Spec,
	}
	maps.Copy(pod.Labels, Labels(g.Name))
	spec := &pod.Spec
	spec.RestartPolicy = corev1.RestartPolicyAlways
	execunit.Prepare(spec, s.PullSecrets)
	main := &spec.Containers[execunit.MainIndex(*spec)]
	if pod.Annotations[execunit.AnnotationDefaultContainer] == "" {
		pod.Annotations[execunit.AnnotationDefaultContainer] = main.Name
	}
	if g.Namespace == crdv1.SmartTestsNamespace && s.SmartTest.Image != "" {
		*main = execunit.Container(main.Name, s.SmartTest.Image, s.SmartTest.PullPolicy, s.SmartTest.Resources)
		main.Env = []corev1.EnvVar{{Name: smarttest.EnvElide, Value: s.SmartTest.Elide}}
	}
	main.Command, main.Args = []string{socket.Program, "serve"}, nil
	main.VolumeMounts = append(main.VolumeMounts, jobMount(), programMount())
	spec.InitContainers = append(spec.InitContainers, installer(s))
	server := proxy(s)
	if Redirects(g, s) {
		spec.InitContainers = append(spec.InitContainers, redirector(s))
		if names := others(template(g).Spec); len(names) > 0 {
			server.Env = append(server.Env, corev1.EnvVar{Name: layout.EnvOthers, Value: strings.Join(names, ", ")})
		}
		server.SecurityContext.RunAsUser, server.SecurityContext.RunAsGroup = new(int64(layout.ProxyUser)), new(int64(layout.ProxyUser))
	}
	spec.Containers = append(spec.Containers, server)
	spec.Volumes = append(spec.Volumes, volumes(s)...)
	return pod
}

// others returns the names of the containers of a template that run beside the main one.
func others(t corev1.PodSpec) (names []string) {
	for _, c := range t.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			names = append(names, c.Name)
		}
	}
	main := execunit.MainIndex(t)
	for i, c := range t.Containers {
		if i != main {
			names = append(names, c.Name)
		}
	}
	return names
}

// metadata returns labels or annotations: those of the operator's configuration, then those of a template
// that are not the operator's own.
func metadata(configured, template map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, configured)
	maps.Copy(out, template)
	maps.DeleteFunc(out, func(key, _ string) bool { return strings.HasPrefix(key, crdv1.Group+"/") })
	return out
}

// jobMount mounts the volume that all three containers share.
func jobMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: layout.VolumeJob, MountPath: socket.Root}
}

// programMount mounts the executor again, read-only: a script that runs as root must not replace it.
func programMount() corev1.VolumeMount {
	dir := path.Dir(socket.Program)
	return corev1.VolumeMount{Name: layout.VolumeJob, MountPath: dir, SubPath: path.Base(dir), ReadOnly: true}
}

// installer returns the init container.
func installer(s Settings) corev1.Container {
	c := execunit.Container(layout.InitContainer, s.InitImage, s.InitPullPolicy, s.InitResources)
	c.Args = []string{"install", socket.Program}
	c.VolumeMounts = []corev1.VolumeMount{jobMount()}
	return c
}

// Redirects reports whether the pods of a group redirect the connections of scripts. A pod in the network of its node
// cannot: it would redirect those of the node.
func Redirects(g *crdv1.JobRunnerGroup, s Settings) bool {
	return s.Redirector != nil && !template(g).Spec.HostNetwork
}

// redirector returns the init container that redirects connections, and records it for the proxy. It is the last one, so
// that no other init container is redirected.
func redirector(s Settings) corev1.Container {
	c := *s.Redirector.DeepCopy()
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: layout.VolumeStore, MountPath: layout.Store})
	return c
}

// How often the kubelet asks a proxy whether it is ready, in seconds, and how many failures make it unready.
const probeSeconds, probeFailures = 1, 3

// proxy returns the container that serves the executor.
func proxy(s Settings) corev1.Container {
	c := execunit.Container(layout.ProxyContainer, s.ProxyImage, s.ProxyPullPolicy, s.ProxyResources)
	c.Env = []corev1.EnvVar{
		{Name: layout.EnvAuthority, Value: s.Authority},
		{Name: layout.EnvCA, Value: s.CA},
		{Name: layout.EnvArtifactBytes, Value: strconv.FormatInt(s.ArtifactBytes, 10)},
		{Name: layout.EnvPodUID, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"}}},
	}
	if s.ProxyLogLevel != "" {
		c.Args = []string{"--log-level=" + s.ProxyLogLevel}
	}
	c.Ports = []corev1.ContainerPort{{Name: layout.PortName, ContainerPort: layout.Port, Protocol: corev1.ProtocolTCP}}
	c.ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: layout.ReadyPath, Port: intstr.FromInt32(layout.HealthPort)}},
		PeriodSeconds: probeSeconds, FailureThreshold: probeFailures,
	}
	c.VolumeMounts = []corev1.VolumeMount{
		jobMount(),
		{Name: layout.VolumeStore, MountPath: layout.Store},
		{Name: layout.VolumeToken, MountPath: layout.TokenDir, ReadOnly: true},
	}
	return c
}

// slack is the part of the volume for results and for what a file system needs, in bytes.
const slack = 64 << 20

// volumes returns the volumes that the operator adds.
func volumes(s Settings) []corev1.Volume {
	return []corev1.Volume{
		{Name: layout.VolumeJob, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: layout.VolumeStore, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			SizeLimit: resource.NewQuantity(s.ArtifactBytes+layout.StreamBytes*layout.KeptExecutions+slack, resource.BinarySI),
		}}},
		execunit.TokenVolume(layout.VolumeToken, layout.Audience, layout.TokenFile),
	}
}

// Ready reports whether a pod is ready, and not being deleted.
func Ready(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
