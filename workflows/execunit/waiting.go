package execunit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// waiting returns the observation of a pod with a main container that has not started.
func (l view) waiting() Observation {
	unit := l.Owner
	o := Observation{State: Waiting, Reason: ReasonStarting}
	for _, c := range l.pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			o.Reason = ReasonUnschedulable
			o.Message = fmt.Sprintf("no node takes the pod %s of %s: %s Change what its template asks of nodes, or add a node.", l.name(), unit, sentence(c.Message))
			return o
		}
	}
	if reason, message := l.stuck(); reason != "" {
		o.Reason, o.Message = reason, message
		return o
	}
	if l.pod.Spec.NodeName == "" {
		o.Message = fmt.Sprintf("the pod %s of %s waits for a node.", l.name(), unit)
		return o
	}
	for _, s := range l.pod.Status.InitContainerStatuses {
		if s.State.Running != nil && s.Name != InputManager && !restarts(l.pod.Spec, s.Name) {
			o.Reason, o.Message = ReasonInitRunning, fmt.Sprintf("the pod %s of %s is starting: its init container %s runs.", l.name(), unit, s.Name)
			return o
		}
	}
	if o.Message = fmt.Sprintf("the pod %s of %s is starting.", l.name(), unit); l.Pull != nil {
		o.Message = l.pulling()
	}
	return o
}

// stuck returns why the kubelet does not start one of the containers; empty when none is blocked.
func (l view) stuck() (reason, message string) {
	for _, s := range slices.Concat(l.pod.Status.InitContainerStatuses, l.pod.Status.ContainerStatuses) {
		if s.State.Waiting == nil {
			continue
		}
		if reason, message = l.refused(s, *s.State.Waiting); reason != "" {
			return reason, message
		}
	}
	return "", ""
}

// restarts reports whether an init container is a sidecar.
func restarts(pod corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(pod.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}

// Messages of the kubelet about a missing object that a container refers to.
var (
	missing    = regexp.MustCompile(`^(secret|configmap) "([^"]{1,253})" not found`)
	missingKey = regexp.MustCompile(`^couldn't find key (\S{1,253}) in (Secret|ConfigMap) (\S{1,520})`)
)

// Reasons of the kubelet for a container that waits.
var (
	noImage = []string{
		"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed",
	}
	noStart = []string{"CreateContainerError", "RunContainerError", crashLoop, "PreCreateHookError", "PreStartHookError", "PostStartHookError"}
)

// refused returns why the kubelet does not start a container; empty when it is about to.
func (l view) refused(s corev1.ContainerStatus, w corev1.ContainerStateWaiting) (reason, message string) {
	unit := l.Owner
	switch {
	case slices.Contains(noImage, w.Reason):
		where := "the pod template"
		if slices.Contains(l.Containers, s.Name) {
			where = "the operator's chart"
		}
		return ReasonImagePullFailed, fmt.Sprintf("the image %s of the container %s of %s cannot be pulled: %s Change the image or the imagePullSecrets of %s.",
			quoted(imageOf(l.pod, s)), s.Name, unit, sentence(w.Message), where)
	case w.Reason == "CreateContainerConfigError":
		return l.configError(s.Name, w.Message)
	case w.Reason == crashLoop && l.beforeMain(s.Name):
		return ReasonInitFailed, fmt.Sprintf("the init container %s of %s fails each time, last with exit code %d. Check its log: kubectl logs -n %s %s -c %s.",
			s.Name, unit, lastCode(s), l.pod.Namespace, l.pod.Name, s.Name)
	case slices.Contains(noStart, w.Reason):
		return ReasonContainerStart, fmt.Sprintf("the container %s of %s cannot be started: %s Change the pod template.", s.Name, unit, sentence(w.Message))
	}
	return "", ""
}

// crashLoop is the reason of the kubelet for a container that has ended several times.
const crashLoop = "CrashLoopBackOff"

// beforeMain reports whether a container has to end before the main one starts.
func (l view) beforeMain(name string) bool {
	return !restarts(l.pod.Spec, name) && slices.ContainsFunc(l.pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name })
}

// lastCode returns the exit code of the last end of a container.
func lastCode(s corev1.ContainerStatus) int32 {
	if t := s.LastTerminationState.Terminated; t != nil {
		return t.ExitCode
	}
	return 0
}

// configError returns the reason and message for a container that refers to a missing object.
func (l view) configError(container, text string) (reason, message string) {
	unit := l.Owner
	reasons := map[string]string{"secret": ReasonSecretMissing, "configmap": ReasonConfigMapMissing}
	if m := missing.FindStringSubmatch(text); m != nil {
		kind := map[string]string{"secret": "Secret", "configmap": "ConfigMap"}[m[1]]
		return reasons[m[1]], fmt.Sprintf("the container %s of %s needs the %s %s/%s, which is not there. Create it, or take it out of the pod template.",
			container, unit, kind, l.pod.Namespace, m[2])
	}
	if m := missingKey.FindStringSubmatch(text); m != nil {
		return reasons[strings.ToLower(m[2])], fmt.Sprintf("the container %s of %s needs the key %s of the %s %s, which has none. Add it, or name another one in the pod template.",
			container, unit, m[1], m[2], m[3])
	}
	return ReasonContainerConfig, fmt.Sprintf("the container %s of %s cannot be created from the pod template: %s", container, unit, sentence(text))
}

// imageOf returns the image of a container in its template.
func imageOf(pod *corev1.Pod, s corev1.ContainerStatus) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == s.Name {
			return c.Image
		}
	}
	return s.Image
}

// mounted returns the objects in volumes, which a pod waits for before any container starts.
func mounted(pod corev1.PodSpec) []string {
	var out []string
	add := func(kind, name string, optional *bool) {
		if text := kind + " " + name; name != "" && (optional == nil || !*optional) && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, v := range pod.Volumes {
		switch {
		case v.Secret != nil:
			add("Secret", v.Secret.SecretName, v.Secret.Optional)
		case v.ConfigMap != nil:
			add("ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional)
		case v.PersistentVolumeClaim != nil:
			add("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName, nil)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.Secret != nil {
					add("Secret", s.Secret.Name, s.Secret.Optional)
				}
				if s.ConfigMap != nil {
					add("ConfigMap", s.ConfigMap.Name, s.ConfigMap.Optional)
				}
			}
		}
	}
	return out
}

// Refused returns one sentence about a pod that the API server refuses in a namespace,
// with its message and the remedy. The creation is retried, so that the owner starts once the
// cause is removed.
func Refused(o Owner, namespace, words string) string {
	// Conditions have two sentences, of which this is one.
	words = strings.TrimSuffix(sentence(words), ".")
	return fmt.Sprintf("The API server refuses the pod of %s in namespace %s (%s): %s; the %s then starts by itself.", o, namespace, words, o.remedy(words), o.Noun)
}

// WithoutNamespace is Refused for a namespace that does not exist, or is being deleted.
func WithoutNamespace(o Owner, namespace string, terminating bool) string {
	state, todo := "does not exist", "create it"
	if terminating {
		state, todo = "is being deleted", "create it again once it is deleted"
	}
	text := o.String()
	return fmt.Sprintf("%s waits, since its namespace %s %s: %s; the %s then starts by itself.", strings.ToUpper(text[:1])+text[1:], namespace, state, todo, o.Noun)
}

// noAccount is in the message of the API server that refuses a pod without its service account.
const noAccount = "error looking up service account"

// LacksAccount reports whether a step waits, with this message, for the service account of its pod.
func LacksAccount(message string) bool { return strings.Contains(message, noAccount) }

// remedy returns the remedy for a pod that the API server refused with this message.
func (o Owner) remedy(words string) string {
	values := "the containers " + strings.Join(o.Containers, " and ") + " are the operator's: " + o.Resources + " of the chart set their resources"
	has := func(some ...string) bool {
		return slices.ContainsFunc(some, func(s string) bool { return strings.Contains(words, s) })
	}
	switch {
	case has("failed quota"):
		return "set the resources that it asks for in the pod template, or defaults in a LimitRange of the namespace; " + values
	case has("exceeded quota"):
		return "raise that quota, or delete objects that it counts"
	case has("usage per Container", "usage per Pod", "limit to request ratio"):
		return "change that LimitRange, or the resources in the pod template; " + values
	case has("PodSecurity"):
		return "change the pod template, or the Pod Security level of the namespace"
	case has(noAccount):
		return "create that service account, or name another one in the pod template"
	case has(`cannot create resource "pods"`):
		return "give the operator that right: with allowedNamespaces of the chart it works in these namespaces alone"
	}
	return "change the pod template, or the policy that this message names"
}

// asking returns what a pod in this state waits for: io-context-server, or its volumes; nil for none.
func (l view) asking(state State) *Asking {
	log := func(container string) string {
		return fmt.Sprintf("cannot reach io-context-server, or it answers with errors. The log has each attempt: kubectl logs -n %s %s -c %s (check the proxy of a mesh in the pod, and NetworkPolicies).",
			l.pod.Namespace, l.pod.Name, container)
	}
	switch {
	case state == Delivering && l.output.State.Running != nil:
		return &Asking{l.main.State.Terminated.FinishedAt.Time, ReasonOutputsUndelivered,
			fmt.Sprintf("the script of %s has ended; its outputs cannot be delivered: %s", l.Owner, log(OutputManager))}
	case state == Waiting:
		if input := statusOf(l.pod.Status.InitContainerStatuses, InputManager).State.Running; input != nil {
			return &Asking{input.StartedAt.Time, ReasonInputsUndelivered,
				fmt.Sprintf("the script of %s has not begun; its inputs cannot be delivered: %s", l.Owner, log(InputManager))}
		}
		return l.volumes()
	}
	return nil
}

// volumes returns the wait of a pod on a node for its volumes; nil once a container has started.
func (l view) volumes() *Asking {
	names, since := mounted(l.pod.Spec), l.pod.CreationTimestamp
	if c := l.condition(corev1.PodScheduled); c != nil {
		since = c.LastTransitionTime
	}
	started := slices.ContainsFunc(l.pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil
	})
	if l.pod.Spec.NodeName == "" || started || len(names) == 0 {
		return nil
	}
	return &Asking{since.Time, ReasonVolumesPending, fmt.Sprintf(
		"the pod %s of %s waits for its volumes: %s. If it stays so, see that they are in the namespace %s.", l.name(), l.Owner, list(names), l.pod.Namespace)}
}
