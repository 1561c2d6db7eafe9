package inject

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect/spec"
)

// The API server mounts a service-account token into every container of a pod, and does so
// again after a webhook has added containers, unless its path is taken. The sidecar's
// containers need none: an empty volume is mounted there.
const (
	noTokenVolume = "sd-sidecar-no-token"
	apiTokenPath  = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// noToken is the mount that keeps the token for the API out of a container.
func noToken() corev1.VolumeMount {
	return corev1.VolumeMount{Name: noTokenVolume, MountPath: apiTokenPath, ReadOnly: true}
}

// OwnPorts returns the ports that the sidecar listens on for other pods: no workload may use
// them, and nothing redirects them.
func OwnPorts() []uint16 { return []uint16{devmesh.ListenerPort, devmesh.ReadinessPort} }

// putIn writes the additions that give a pod its sidecar, and returns warnings
// about settings without effect.
func putIn(p *patcher, pod *corev1.Pod, d Decision, cfg Config) (warnings []string) {
	level, unknown := LogLevel(pod.Annotations[AnnotationLogLevel], devmesh.ContainerName)
	for _, word := range unknown {
		warnings = append(warnings, "annotation "+AnnotationLogLevel+": "+word+
			" is not a level: use "+strings.Join(levels, ", "))
	}
	if value := pod.Annotations[AnnotationEdge]; d.Edge && value != devmesh.EdgeYes {
		warnings = append(warnings, fmt.Sprintf("annotation %s: %q is neither \"true\" nor \"false\"; it is taken for \"true\"", AnnotationEdge, value))
	}
	cfg, _ = cfg.sizedFor(pod)
	sidecar, redirect := sidecarContainer(d, level, cfg), redirectContainer(d.Ports, cfg)
	if pod.Spec.Resources != nil {
		if _, set := pod.Annotations[AnnotationResources]; set {
			warnings = append(warnings, "annotation "+AnnotationResources+" has no effect: the pod has resources of its own (spec.resources), which its containers share")
		}
		// Requests of the whole pod must cover those of its containers, which the sidecar's
		// could exceed; without any of its own it shares the pod's.
		sidecar.Resources, redirect.Resources = corev1.ResourceRequirements{}, corev1.ResourceRequirements{}
	}
	askForProbes(p, pod, d.Ports) // before containers are added, which moves the others
	p.prepend("initContainers", sidecar, redirect)
	for _, v := range volumes() {
		p.append("volumes", v)
	}
	for _, name := range pullSecrets(cfg) {
		ref := corev1.LocalObjectReference{Name: name}
		if !slices.Contains(pod.Spec.ImagePullSecrets, ref) {
			p.append("imagePullSecrets", ref)
		}
	}
	p.annotate(AnnotationProcessed, Injected)
	p.label(LabelInjected, labelValue)
	return warnings
}

func sidecarContainer(d Decision, level string, cfg Config) corev1.Container {
	c := corev1.Container{
		Name:            devmesh.ContainerName,
		Image:           cfg.Sidecar.Image,
		ImagePullPolicy: cfg.Sidecar.PullPolicy,
		Env: []corev1.EnvVar{
			{Name: devmesh.EnvWorkloadKind, Value: d.Workload.Kind},
			{Name: devmesh.EnvWorkloadNamespace, Value: d.Workload.Namespace},
			{Name: devmesh.EnvWorkloadName, Value: d.Workload.Name},
			{Name: devmesh.EnvXDSAddress, Value: cfg.XDSAddress},
			{Name: devmesh.EnvPlainPorts, Value: plainValue(d.Plain)},
			{Name: devmesh.EnvForms, Value: devmesh.FormsRecorded},
			{Name: devmesh.EnvLogLevel, Value: cmp.Or(level, cfg.LogLevel)},
			fromPod(devmesh.EnvPodName, "metadata.name"),
			fromPod(devmesh.EnvPodNamespace, "metadata.namespace"),
			fromPod(devmesh.EnvPodUID, "metadata.uid"),
			fromPod(devmesh.EnvPodIP, "status.podIP"),
		},
		Resources:     *cfg.Sidecar.Resources,
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		VolumeMounts: []corev1.VolumeMount{
			{Name: devmesh.RunVolume, MountPath: devmesh.RunPath},
			{Name: devmesh.TokenVolume, MountPath: devmesh.TokenPath, ReadOnly: true},
			noToken(),
		},
		Lifecycle:       preStop(),
		StartupProbe:    probe(1, 60),
		ReadinessProbe:  probe(5, 3),
		SecurityContext: restricted(),
	}
	if d.Edge {
		c.Env = append(c.Env, corev1.EnvVar{Name: devmesh.EnvEdge, Value: devmesh.EdgeYes})
	}
	// Without a limit the kubelet would report the memory of the whole node.
	if !c.Resources.Limits.Memory().IsZero() {
		c.Env = append(c.Env, corev1.EnvVar{Name: devmesh.EnvMemoryLimit, ValueFrom: &corev1.EnvVarSource{
			ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1")}}})
	}
	if cfg.TLS {
		c.Env = append(c.Env, corev1.EnvVar{Name: devmesh.EnvTrust, Value: cfg.Trust})
	}
	return c
}

// preStop notifies the sidecar that its pod ends. The kubelet runs it at the start of the
// termination, and sends SIGTERM to the sidecar only after the application has ended.
func preStop() *corev1.Lifecycle {
	command := []string{devmesh.ProgramPath, devmesh.DrainCommand}
	return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}}
}

func fromPod(name, field string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: field}}}
}

func probe(periodSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: devmesh.ReadinessPath, Port: intstr.FromInt32(devmesh.ReadinessPort), Scheme: corev1.URISchemeHTTP}},
		TimeoutSeconds: 1, PeriodSeconds: periodSeconds, SuccessThreshold: 1, FailureThreshold: failures,
	}
}

// restricted is a security context that the pod security level "restricted"
// allows.
func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsUser:                new(int64(devmesh.UID)),
		RunAsGroup:               new(int64(devmesh.UID)),
		RunAsNonRoot:             new(true),
		Privileged:               new(false),
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// redirectContainer is the only one that holds a capability: a rule in the
// pod's own network namespace needs NET_ADMIN, and the kernel gives added
// capabilities to no user but root. It ends before the workload starts.
func redirectContainer(ports spec.Spec, cfg Config) corev1.Container {
	c := corev1.Container{
		Name:            devmesh.InitContainerName,
		Image:           cfg.Redirect.Image,
		ImagePullPolicy: cfg.Redirect.PullPolicy,
		Resources:       *cfg.Redirect.Resources,
		VolumeMounts:    []corev1.VolumeMount{noToken()},
		SecurityContext: restricted(),
	}
	ports.Mode = cfg.IptablesMode
	env := ports.Env()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: env[name]})
	}
	c.SecurityContext.RunAsUser, c.SecurityContext.RunAsGroup = new(int64(0)), new(int64(0))
	c.SecurityContext.RunAsNonRoot = new(false)
	c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	return c
}

// RedirectOutgoing returns the init container that redirects connections that a pod opens, for pods that get no sidecar.
func RedirectOutgoing(name string, of spec.Spec, cfg Config) corev1.Container {
	c := redirectContainer(of, cfg)
	c.Name, c.VolumeMounts = name, nil
	return c
}

func volumes() []corev1.Volume {
	limit := resource.MustParse(devmesh.RunSizeLimit)
	return []corev1.Volume{
		{Name: devmesh.RunVolume, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}},
		{Name: devmesh.TokenVolume, VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{
				DefaultMode: new(int32(0o444)),
				Sources: []corev1.VolumeProjection{{
					ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
						Audience:          devmesh.TokenAudience,
						ExpirationSeconds: new(int64(devmesh.TokenSeconds)),
						Path:              devmesh.TokenFile,
					}}}}}},
		{Name: noTokenVolume, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1Mi"))}}},
	}
}

func pullSecrets(cfg Config) []string {
	names := slices.Compact([]string{cfg.Sidecar.PullSecret, cfg.Redirect.PullSecret})
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// askForProbes turns the tcpSocket probes of redirected ports into requests to
// the sidecar, which connects to the workload: a connection from outside is taken
// by the sidecar's listener, whether the workload listens or not. It is the one
// place where the patch does not only add (ADR 0011), so it leaves alone whatever
// it does not know all of.
func askForProbes(p *patcher, pod *corev1.Pod, ports spec.Spec) {
	for i, c := range pod.Spec.Containers {
		askForProbesOf(p, "containers", i, c, ports)
	}
	for i, c := range pod.Spec.InitContainers {
		if restarts(c) {
			askForProbesOf(p, "initContainers", i, c, ports)
		}
	}
}

func askForProbesOf(p *patcher, list string, i int, c corev1.Container, ports spec.Spec) {
	for _, probe := range []struct {
		name  string
		probe *corev1.Probe
	}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}} {
		port, ok := probedPort(c, probe.probe)
		if !ok || !(!slices.Contains(ports.Except, port) && (ports.All || slices.Contains(ports.Ports, port))) {
			continue
		}
		p.exchange(list, i, probe.name, "tcpSocket", []string{"port", "host"}, "httpGet", corev1.HTTPGetAction{
			Path:   devmesh.ProbePath + strconv.Itoa(int(port)),
			Port:   intstr.FromInt32(devmesh.ReadinessPort),
			Scheme: corev1.URISchemeHTTP,
		})
	}
}

// probedPort returns the port that a tcpSocket probe connects to on the pod's own
// address; ok is false for any other probe. A name is looked up as the kubelet
// does it: among the container's own ports, and then it may be a number.
func probedPort(c corev1.Container, probe *corev1.Probe) (port uint16, ok bool) {
	if probe == nil || probe.TCPSocket == nil || probe.TCPSocket.Host != "" ||
		probe.HTTPGet != nil || probe.GRPC != nil || probe.Exec != nil {
		return 0, false
	}
	number := int64(probe.TCPSocket.Port.IntVal)
	if probe.TCPSocket.Port.Type == intstr.String {
		name := probe.TCPSocket.Port.StrVal
		at := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name != "" && p.Name == name })
		if at >= 0 {
			number = int64(c.Ports[at].ContainerPort)
		} else if n, err := strconv.ParseUint(name, 10, 16); err == nil {
			number = int64(n)
		}
	}
	return uint16(number), 0 < number && number <= 65535
}

// exchange takes a member out of a probe and puts another in its place, but only
// if the one that goes has no members but those that are known: what a newer API
// may have put there would be lost.
func (p *patcher) exchange(list string, i int, probe, old string, known []string, member string, value any) {
	containers, _ := p.member("spec", list).([]any)
	if i >= len(containers) {
		return // it is written in letters that only Go's reader takes for these
	}
	container, _ := containers[i].(map[string]any)
	parent, _ := container[probe].(map[string]any)
	gone, there := parent[old].(map[string]any)
	for name := range gone {
		there = there && slices.Contains(known, name)
	}
	if !there {
		return
	}
	path := fmt.Sprintf("/spec/%s/%d/%s/", list, i, probe)
	delete(parent, old)
	parent[member] = value
	p.operations = append(p.operations, Operation{Op: "remove", Path: path + old})
	p.add(path+member, value)
}
