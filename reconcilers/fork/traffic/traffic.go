// Package traffic renders the container of a fork that records its requests. It is pure.
package traffic

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/reconcilers/fork/power"
)

// ContainerName is the name of the container of a fork that records its requests while a TrafficCapture is attached.
// It is the only one that mounts its volumes, and their names begin with its own.
const ContainerName = "signadot-traffic"

// Audience is the audience of the token of the traffic container.
const Audience = "traffic.signadot.com"

const (
	tokenSeconds   = 3600
	tokenFolder    = "/var/run/secrets/traffic"
	stateFolder    = "/var/lib/traffic"
	apiTokenFolder = "/var/run/secrets/kubernetes.io/serviceaccount"
	user           = 65532
)

// Part is what a fork has beside the clone of its baseline. The zero value: nothing.
type Part struct {
	Container  *corev1.Container
	Volumes    []corev1.Volume
	PullSecret string
}

// Settings configure the traffic container.
type Settings struct {
	Image      string
	PullPolicy corev1.PullPolicy
	// PullSecret is the name of a Secret in the fork's namespace; it may be empty.
	PullSecret string
	Resources  corev1.ResourceRequirements
	// Manager is the host:port of traffic-manager, and CA the authorities of its certificate, in PEM.
	Manager, CA string
}

// Part returns the traffic container of a pod. A pod in which other containers or pods of the node could interfere with
// it gets none: one with the network of its node, or with one process namespace for all containers.
func (s Settings) Part(pod corev1.PodSpec) Part {
	if s.Image == "" || s.CA == "" || pod.HostNetwork || pod.ShareProcessNamespace != nil && *pod.ShareProcessNamespace {
		return Part{}
	}
	token, state, noToken := ContainerName+"-token", ContainerName+"-state", ContainerName+"-no-api-token"
	return Part{
		PullSecret: s.PullSecret,
		Container: &corev1.Container{
			Name: ContainerName, Image: s.Image, ImagePullPolicy: s.PullPolicy,
			Args:          []string{"-manager", s.Manager, "-token", tokenFolder + "/token", "-state", stateFolder + "/attachments"},
			Env:           []corev1.EnvVar{{Name: "TRAFFIC_MANAGER_CA", Value: s.CA}},
			Resources:     s.Resources,
			RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
			StartupProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/traffic-sidecar", "started", "-state", stateFolder + "/attachments"}}},
				PeriodSeconds: 1, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 60,
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: token, MountPath: tokenFolder, ReadOnly: true},
				{Name: state, MountPath: stateFolder},
				{Name: noToken, MountPath: apiTokenFolder, ReadOnly: true}, // keeps the token for the API out of the container
			},
			SecurityContext: &corev1.SecurityContext{
				RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)), RunAsNonRoot: new(true), Privileged: new(false),
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		},
		Volumes: []corev1.Volume{
			{Name: token, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				DefaultMode: new(int32(0o444)),
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
					Audience: Audience, ExpirationSeconds: new(int64(tokenSeconds)), Path: "token",
				}}},
			}}},
			emptyVolume(state, "16Mi"), emptyVolume(noToken, "1Mi"),
		},
	}
}

func emptyVolume(name, limit string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse(limit))}}}
}

// reserved reports whether a name is of the traffic container or one of its volumes.
func reserved(name string) bool {
	return name == ContainerName || strings.HasPrefix(name, ContainerName+"-")
}

// Conflict returns why a pod cannot get the traffic container: it uses a name of the container or of its volumes, and could read
// the container's token; "" if there is no conflict.
func Conflict(pod corev1.PodSpec) string {
	for _, c := range power.Containers(pod) {
		mounts := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return reserved(m.Name) })
		if reserved(c.Name) || mounts {
			return fmt.Sprintf("container %q has a name, or mounts a volume, that begins with %s, which is the operator's: rename it", c.Name, ContainerName)
		}
	}
	if i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return reserved(v.Name) }); i >= 0 {
		return fmt.Sprintf("volume %q has a name that begins with %s, which is the operator's: rename it", pod.Volumes[i].Name, ContainerName)
	}
	return ""
}

// Object is a fork, an *appsv1.Deployment or a Rollout as *unstructured.Unstructured.
type Object interface {
	metav1.Object
	runtime.Object
}

// annotation, on a fork, is its Part as JSON, as it was written.
const annotation = "switchyard.dev/traffic-container"

// PartOf returns the traffic container that an existing fork was written with; o may be nil.
func PartOf(o Object) (out Part) {
	if o == nil || json.Unmarshal([]byte(o.GetAnnotations()[annotation]), &out) != nil {
		return Part{}
	}
	return out
}

// With returns a copy of a clone with the traffic container; the clone itself if there is none, or if it cannot be
// converted, so that the API server reports the reason.
func (t Part) With(o Object) Object {
	if t.Container == nil {
		return o
	}
	out, err := t.with(o)
	if err != nil {
		return o
	}
	return out
}

func (t Part) with(o Object) (Object, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	fields = runtime.DeepCopyJSON(fields) // A Rollout is its fields.
	out := &unstructured.Unstructured{Object: fields}
	out.SetAnnotations(lists.Merged(o.GetAnnotations(), map[string]string{annotation: string(text)}))
	at, _, err := unstructured.NestedFieldNoCopy(fields, "spec", "template", "spec")
	if err != nil {
		return nil, err
	}
	pod, is := at.(map[string]any)
	if !is {
		return nil, errors.New("the fork has no pod template")
	}
	container, err := runtime.DefaultUnstructuredConverter.ToUnstructured(t.Container)
	if err != nil {
		return nil, err
	}
	first, _ := pod["initContainers"].([]any)
	pod["initContainers"] = append([]any{container}, first...)
	volumes, _ := pod["volumes"].([]any)
	for i := range t.Volumes {
		v, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&t.Volumes[i])
		if err != nil {
			return nil, err
		}
		volumes = append(volumes, v)
	}
	pod["volumes"] = volumes
	if t.PullSecret != "" {
		pulls, _ := pod["imagePullSecrets"].([]any)
		pod["imagePullSecrets"] = append(pulls, map[string]any{"name": t.PullSecret}) // Writable removes duplicates.
	}
	if _, typed := o.(*appsv1.Deployment); !typed {
		return out, nil
	}
	d := &appsv1.Deployment{}
	return d, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, d)
}
