package jobpod

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/protos/problems"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/jobexec/layout"
)

// Setting is the setting of the operator's chart with the powers of runners.
const Setting = "jobs.allow"

// Reasons for which a group has no pods, in addition to those of execunit.
const (
	ReasonInvalidImage    = "InvalidImage"
	ReasonInvalidReplicas = "InvalidReplicas"
	ReasonInvalidTimeout  = "InvalidTimeout"
)

// Settings are the operator's settings for all runners.
type Settings struct {
	// InitImage and ProxyImage are the images of the operator's containers.
	InitImage, ProxyImage           string
	InitPullPolicy, ProxyPullPolicy corev1.PullPolicy
	// InitResources and ProxyResources are their resources. Nil: 256Mi of memory at most.
	InitResources, ProxyResources *corev1.ResourceRequirements
	// Redirector is the init container layout.RedirectContainer, which redirects the connections of scripts with NET_ADMIN.
	// Nil: they are not redirected.
	Redirector *corev1.Container
	// ProxyLogLevel is that of the container job-executor-proxy: debug, info, warn or error. Empty: info.
	ProxyLogLevel string
	// PullSecrets are for these images, in the namespace of the pod.
	PullSecrets []string
	// Labels and Annotations are for pods of templates that do not set them.
	Labels, Annotations map[string]string
	// Authority is the address of the service Runners of the manager, as host:port, and CA the certificates that
	// verify it, in PEM.
	Authority string
	CA        string
	// ArtifactBytes is how many bytes of artifacts a pod keeps.
	ArtifactBytes int64
	// OperatorNamespace is the namespace of the operator.
	OperatorNamespace string
	// Allow are the powers beyond Pod Security baseline that runners may have.
	Allow execunit.Powers
	// AuthorAsked is as in execunit.Settings.
	AuthorAsked bool
	// SmartTest is the interpreter of Smart Tests.
	SmartTest SmartTest
}

// SmartTest is the main container of the groups in crdv1.SmartTestsNamespace, whatever their specification has.
type SmartTest struct {
	Image      string
	PullPolicy corev1.PullPolicy
	Resources  *corev1.ResourceRequirements
	// Elide are the headers that captures do not have, with commas.
	Elide string
}

// OwnerOf returns a group as an owner of pods, for messages.
func OwnerOf(g *crdv1.JobRunnerGroup) execunit.Owner {
	return execunit.Owner{
		Noun: "runner group", Name: g.Name, Containers: []string{layout.InitContainer, layout.ProxyContainer, layout.RedirectContainer},
		Resources: "jobExecutorInit.resources and jobExecutorProxy.resources",
	}
}

// ObservedOf returns what execunit.Observe observes of a pod of a group.
func ObservedOf(g *crdv1.JobRunnerGroup, pod *corev1.Pod) execunit.Observed {
	return execunit.Observed{Owner: OwnerOf(g), Main: execunit.MainOf(pod.Spec, layout.ProxyContainer)}
}

// Accept returns the problem of a group; nil when its pods can be created.
func Accept(g *crdv1.JobRunnerGroup, s Settings) *problems.Problem {
	owner := OwnerOf(g)
	if p := fields(g, owner); p != nil {
		return p
	}
	if p := form(template(g), g.Namespace, owner); p != nil {
		return p
	}
	t := execunit.Template{
		Owner: owner, Pod: template(g), Namespace: g.Namespace, Elsewhere: "create the group in another one",
		Volumes: []string{layout.VolumeJob, layout.VolumeStore, layout.VolumeToken},
		Allow:   s.Allow, Setting: Setting, OperatorNamespace: s.OperatorNamespace, AuthorAsked: s.AuthorAsked,
	}
	if p := t.Form(); p != nil {
		return p
	}
	return t.Bounds()
}

// refuse returns a problem of a group.
func refuse(reason, format string, args ...any) *problems.Problem {
	return &problems.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// fields checks the fields beside the pod template.
func fields(g *crdv1.JobRunnerGroup, owner execunit.Owner) *problems.Problem {
	switch {
	case g.Spec.Image == "":
		return refuse(ReasonInvalidImage, "%s has no image. Set spec.image.", owner)
	case g.Spec.Replicas != nil && *g.Spec.Replicas < 0:
		return refuse(ReasonInvalidReplicas, "%s asks for %d replicas. Set spec.replicas to 0 or more, or remove it for 1.", owner, *g.Spec.Replicas)
	}
	if text := g.Spec.JobExecutionTimeout; text != "" {
		if d, err := time.ParseDuration(text); err != nil || d <= 0 {
			return refuse(ReasonInvalidTimeout, "jobExecutionTimeout of %s is %.80q. Set a duration, such as 30m, or remove it for 30m.", owner, text)
		}
	}
	return nil
}

// form refuses fields of a template that only pods of runners cannot have.
func form(t corev1.PodTemplateSpec, namespace string, owner execunit.Owner) *problems.Problem {
	no := func(format string, args ...any) *problems.Problem {
		return refuse(execunit.ReasonTemplateRefused, "the pod template of %s "+format, append([]any{owner}, args...)...)
	}
	pod := t.Spec
	switch {
	case t.Namespace != "" && t.Namespace != namespace:
		return no("names the namespace %q. Remove it, since runners are in the namespace of their group.", t.Namespace)
	case pod.RestartPolicy != "" && pod.RestartPolicy != corev1.RestartPolicyAlways:
		return no("sets restartPolicy %q. Remove it, since runners restart.", pod.RestartPolicy)
	case pod.ActiveDeadlineSeconds != nil:
		return no("sets activeDeadlineSeconds. Remove it: jobExecutionTimeout limits jobs.")
	case pod.ShareProcessNamespace != nil && *pod.ShareProcessNamespace:
		return no("sets shareProcessNamespace. Remove it, since scripts could read the keys of the container %s.", layout.ProxyContainer)
	}
	main := pod.Containers[execunit.MainIndex(pod)]
	if main.RestartPolicy != nil || len(main.RestartPolicyRules) > 0 {
		return no("sets restartPolicy or restartPolicyRules of the container %q. Remove them, since runners restart.", main.Name)
	}
	return nil
}
