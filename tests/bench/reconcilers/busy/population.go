package busy

import (
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/devmesh"
)

// Watched returns the kinds of which there are objects, but for pods.
func Watched() []client.Object {
	return []client.Object{
		&crdv1.SignadotSandbox{}, &crdv1.ForkedWorkload{}, &crdv1.RoutingConfig{},
		&appsv1.Deployment{}, &corev1.Service{},
	}
}

// Containers of a workload: the one that sandboxes patch, and one that they leave as
// it is.
const (
	mainContainer   = "main"
	besideContainer = "exporter"
)

// deployment returns a realistic workload: two containers with environment, probes and resources,
// and the annotation of kubectl apply.
func (w *workload) deployment() *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: w.name, Namespace: w.namespace, Labels: w.labels()},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(w.replicas),
			Selector: &metav1.LabelSelector{MatchLabels: w.selector()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: w.labels(), Annotations: map[string]string{
					crdv1.AnnotationInject: "true", "prometheus.io/scrape": "true", "checksum/config": strings.Repeat("c0ffee", 10),
				}},
				Spec: w.pod(),
			},
		},
	}
	applied, _ := json.Marshal(d) // Texts and numbers: that cannot fail.
	d.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: string(applied), "meta.helm.sh/release-name": w.name}
	return d
}

func (w *workload) selector() map[string]string {
	return map[string]string{"app.kubernetes.io/name": w.name}
}

func (w *workload) labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": w.name, "app.kubernetes.io/part-of": "shop", "team": w.namespace, "helm.sh/chart": w.name + "-1.2.3"}
}

// image is the image of a container in its newest form.
func (w *workload) image(container string) string {
	return fmt.Sprintf("registry.example/%s/%s-%s:v%d", w.namespace, w.name, container, w.version)
}

// pod is what the pods of a workload run.
func (w *workload) pod() corev1.PodSpec {
	return corev1.PodSpec{
		Containers: []corev1.Container{w.container(mainContainer, 8080), w.container(besideContainer, 9100)},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: w.name}}}},
			{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: w.name}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
}

func (w *workload) container(name string, port int32) corev1.Container {
	c := corev1.Container{
		Name: name, Image: w.image(name),
		Args:  []string{"--listen", fmt.Sprintf(":%d", port), "--config", "/etc/config/config.yaml"},
		Ports: []corev1.ContainerPort{{Name: "http-" + name[:4], ContainerPort: port}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}, {Name: "secret", MountPath: "/etc/secret"}, {Name: "scratch", MountPath: "/tmp"}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 5, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(port)}}},
	}
	for i := range 12 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: fmt.Sprintf("value-%d-of-%s.%s.svc", i, w.name, w.namespace)})
	}
	return c
}

// services are the Services of a workload: one, or two for every fourth.
func (w *workload) services() []*corev1.Service {
	out := []*corev1.Service{w.service(w.name, 80, intstr.FromString("http-main"))}
	out[0].Spec.Ports = append(out[0].Spec.Ports, w.morePorts()...)
	if w.two {
		out = append(out, w.service(w.name+"-metrics", 9100, intstr.FromInt32(9100)))
	}
	return out
}

func (w *workload) service(name string, port int32, target intstr.IntOrString) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace, Labels: w.labels()},
		Spec: corev1.ServiceSpec{Selector: w.selector(), Ports: []corev1.ServicePort{
			{Name: "http", Port: port, TargetPort: target, AppProtocol: new("http")}}},
	}
}

// newPod returns a pod of a workload, with the sidecar that the webhook injects.
func (w *workload) newPod(name string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: w.namespace, Labels: w.labels(),
			Annotations: map[string]string{crdv1.AnnotationProcessed: "", "prometheus.io/scrape": "true", "checksum/config": strings.Repeat("c0ffee", 10)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: w.name + "-" + podHash, UID: "6f1c", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: w.pod(),
	}
	p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = podHash
	if w.fork {
		p.Labels[crdv1.LabelForkedWorkload] = crdv1.LabelValue(w.made)
	} else {
		p.Labels[crdv1.LabelInjected] = "true"
	}
	p.Spec.InitContainers = []corev1.Container{{
		Name: devmesh.ContainerName, Image: "sidecar", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
	}}
	return p
}

// podHash is the hash of a pod template, as a ReplicaSet is named by.
const podHash = "6d4cf56db6"

// object is a sandbox that forks these workloads.
func (s *sandbox) object() *crdv1.SignadotSandbox {
	o := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{"signadot.com/team": "team"}}}
	o.Spec.ID = s.name
	o.Spec.Name = s.name
	o.Spec.Customization = &crdv1.SandboxCustomization{}
	for _, f := range s.forks {
		o.Spec.Customization.Patches = append(o.Spec.Customization.Patches, crdv1.TargetedPatch{
			Target: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: f.baseline.namespace, Name: f.baseline.name},
			Patch:  crdv1.Patch{Strategic: &runtime.RawExtension{Raw: []byte(f.patch())}},
		})
	}
	return o
}

// patch makes for the fork another image, and a setting.
func (f *forked) patch() string {
	return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q,"env":[{"name":"FEATURE","value":"on"},{"name":"SETTING_1","value":"changed"}]}]}}}}`,
		mainContainer, f.image())
}
