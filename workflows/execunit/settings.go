package execunit

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/protos/problems"
)

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
