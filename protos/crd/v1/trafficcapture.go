package v1

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TrafficCapture requests the recording of the requests that members of a sandbox receive, in the namespace of
// the object. Deleting it ends the recording.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=trafficcaptures,singular=trafficcapture,shortName=sdtc,scope=Namespaced,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="Sandbox",type=string,JSONPath=`.spec.sandbox`,description="The SignadotSandbox object."
// +kubebuilder:printcolumn:name="Workload",type=string,JSONPath=`.spec.workload`,description="The member; all of the sandbox in this namespace if empty."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="Time since Ready last changed."
// +kubebuilder:printcolumn:name="Ended",type=string,JSONPath=`.status.conditions[?(@.type=="Ended")].status`
// +kubebuilder:printcolumn:name="Seen",type=integer,JSONPath=`.status.counts.seen`,description="Requests since it began."
// +kubebuilder:printcolumn:name="Stored",type=integer,JSONPath=`.status.counts.stored`,description="Those of them that can be read."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type TrafficCapture struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +kubebuilder:validation:XValidation:rule="self.sandbox == oldSelf.sandbox && has(self.workload) == has(oldSelf.workload) && (!has(self.workload) || self.workload == oldSelf.workload) && has(self.port) == has(oldSelf.port) && (!has(self.port) || self.port == oldSelf.port) && has(self.lease) == has(oldSelf.lease) && self.limits == oldSelf.limits && self.samplePercent == oldSelf.samplePercent && has(self.traces) == has(oldSelf.traces) && (!has(self.traces) || self.traces == oldSelf.traces) && has(self.elide) == has(oldSelf.elide) && (!has(self.elide) || self.elide == oldSelf.elide)",message="only the lease, routingKeys and exceptRoutingKeys can be changed: create another TrafficCapture"
	// +kubebuilder:validation:Required
	Spec TrafficCaptureSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status TrafficCaptureStatus `json:"status,omitzero"`
}

// TrafficCaptureList is a list of TrafficCapture objects.
//
// +kubebuilder:object:root=true
type TrafficCaptureList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []TrafficCapture `json:"items"`
}

// TrafficCaptureSpec is the desired state. Clients can change the lease, routingKeys and exceptRoutingKeys.
type TrafficCaptureSpec struct {
	// Name of the SignadotSandbox object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Sandbox string `json:"sandbox"`

	// A member of the sandbox: the name of its baseline workload, of its object, or, for external and virtual
	// workloads, the name that the sandbox gives it. Absent: all members of the sandbox in this namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Workload string `json:"workload,omitempty"`

	// The port that the application listens on. Absent: all ports of the Services of the member.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// The client that records, which renews it. The capture ends when it does not, and one hour after its
	// creation. Absent: the capture goes on until it is deleted.
	// +optional
	Lease *CaptureLease `json:"lease,omitempty"`

	// Limits of the recording.
	// +optional
	// +kubebuilder:default={}
	Limits CaptureLimits `json:"limits,omitzero"`

	// The part of the traces that is recorded, in percent. The others are counted.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=100
	SamplePercent int32 `json:"samplePercent,omitempty"`

	// The first 16 digits of the IDs of traces (W3C Trace Context). Only requests of these traces are recorded, all of them; the
	// others are counted. samplePercent has no effect then.
	// +optional
	// +kubebuilder:validation:MinLength=16
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern="^[0-9a-f]+$"
	Traces string `json:"traces,omitempty"`

	// The routing keys of the requests that are recorded, or overridden. Absent: all. Keys in custom headers do not count.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	RoutingKeys []string `json:"routingKeys,omitempty"`

	// The routing keys of requests that are neither recorded nor overridden.
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	ExceptRoutingKeys []string `json:"exceptRoutingKeys,omitempty"`

	// Parts of requests and responses that are removed before they are recorded, beside the headers that are
	// always removed.
	// +optional
	Elide *CaptureElision `json:"elide,omitempty"`

	// Another address that answers the requests first. This object records nothing then; other captures of the fork do. The
	// operator writes it for the middleware override of a sandbox.
	// +optional
	Override *CaptureOverride `json:"override,omitempty"`
}

// CaptureOverride is an address that answers the requests of a fork first, and which of its answers count. The fork
// answers all others.
type CaptureOverride struct {
	// The addresses, as the pods of the fork reach them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Targets []OverrideTarget `json:"targets"`

	// Whether answers count by their status. Otherwise those with the header or the gRPC metadata sd-override: true do.
	// +optional
	ByStatus bool `json:"byStatus,omitempty"`

	// With byStatus, the statuses of answers that do not count. Those below 100 are statuses of gRPC.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	ExceptStatuses []int32 `json:"exceptStatuses,omitempty"`
}

// OverrideTarget is the address that answers the requests for a port of an application.
type OverrideTarget struct {
	// The port that the application listens on.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// The address, as host:port.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=260
	Address string `json:"address"`
}

// CaptureLease is the sign of life of a client that records.
type CaptureLease struct {
	// A value that the client changes at least every 30 seconds. The operator measures the time since the
	// change with its own clock.
	RenewTime metav1.MicroTime `json:"renewTime"`

	// Seconds without a change after which the capture ends.
	// +optional
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=120
	// +kubebuilder:default=120
	Seconds int32 `json:"seconds,omitempty"`
}

// CaptureLimits are the limits of a recording.
type CaptureLimits struct {
	// Bytes of each body that are recorded. The rest is counted and hashed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1048576
	// +kubebuilder:default=65536
	BodyBytes *int32 `json:"bodyBytes,omitempty"`
}

// CaptureElision names parts of requests and responses that are not recorded.
type CaptureElision struct {
	// Headers of requests.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	RequestHeaders []HeaderName `json:"requestHeaders,omitempty"`

	// Headers of responses.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	ResponseHeaders []HeaderName `json:"responseHeaders,omitempty"`

	// JSON paths in bodies of requests and responses.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	JSONPaths []JSONPath `json:"jsonPaths,omitempty"`
}

// HeaderName is the name of an HTTP header.
//
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:Pattern="^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
type HeaderName string

// JSONPath is a path of fields, such as $.user.password or $.items[*].card.
//
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^\$[.\[]`
type JSONPath string

// TrafficCaptureStatus is the observed state.
type TrafficCaptureStatus struct {
	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// The generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The routing key of the sandbox.
	// +optional
	RoutingKey string `json:"routingKey,omitempty"`

	// The other routing keys with requests that are routed to the members, as those of route groups.
	// +optional
	OtherRoutingKeys []string `json:"otherRoutingKeys,omitempty"`

	// The last change of the lease.
	// +optional
	Lease *CaptureLeaseStatus `json:"lease,omitempty"`

	// The time at which the operator stopped sending requests to the containers that record. After a drain
	// the capture is detached.
	// +optional
	Draining *metav1.Time `json:"draining,omitempty"`

	// The members with Services that send requests to the containers that record, or to traffic-manager.
	// +optional
	Redirected []CapturedFork `json:"redirected,omitempty"`

	// The pods that the capture is attached to. Only the operator writes this field: it decides which pods
	// get the capture.
	// +optional
	Pods []CapturedPod `json:"pods,omitempty"`

	// Requests since the capture began.
	// +optional
	Counts *CaptureCounts `json:"counts,omitempty"`
}

// CaptureLeaseStatus is the last change of a lease that the operator has seen.
type CaptureLeaseStatus struct {
	// The value of the lease.
	RenewTime metav1.MicroTime `json:"renewTime"`

	// The time at which the operator saw it first.
	SeenTime metav1.Time `json:"seenTime"`
}

// CapturedFork is a member with requests that are recorded.
type CapturedFork struct {
	// Name of the ForkedWorkload, in the namespace of the capture. For another member, its kind, a slash, and its name.
	Name string `json:"name"`

	// The ports that are recorded.
	Ports []CapturedPort `json:"ports"`

	// The time at which the operator began to send requests to the containers that record.
	Since metav1.Time `json:"since"`
}

// CapturedPort is a port with requests that are recorded.
type CapturedPort struct {
	// The port that the application listens on.
	Application int32 `json:"application"`

	// The port that the container listens on that records.
	Listening int32 `json:"listening"`

	// For a member without pods: host:port to which traffic-manager passes connections on; as host, caller is the address of the client.
	// +optional
	To string `json:"to,omitempty"`
}

// CapturedPod is a pod that a capture is attached to.
type CapturedPod struct {
	// Name of the pod, in the namespace of the capture; for a member without pods, of a pod of traffic-manager.
	Name string `json:"name"`

	// UID of the pod.
	UID types.UID `json:"uid"`

	// The member, as in redirected.
	Workload string `json:"workload"`

	// The addresses of the pod, if it is one of traffic-manager.
	// +optional
	Addresses []string `json:"addresses,omitempty"`

	// The ports that are recorded.
	Ports []CapturedPort `json:"ports"`

	// Whether the pod has applied the capture: its container is listening.
	Applied bool `json:"applied"`
}

// CaptureCounts are numbers of requests: seen is the sum of the others.
type CaptureCounts struct {
	// Requests that containers saw.
	Seen int64 `json:"seen"`

	// Requests that can be read.
	Stored int64 `json:"stored"`

	// Requests of traces that are not recorded.
	// +optional
	SampledOut int64 `json:"sampledOut,omitempty"`

	// Requests that were replaced by later ones.
	// +optional
	Evicted int64 `json:"evicted,omitempty"`

	// Requests that were not recorded, by reason.
	// +optional
	Lost map[string]int64 `json:"lost,omitempty"`
}

// ConditionEnded is True when a TrafficCapture has ended and is attached to no pod.
const ConditionEnded = "Ended"

// StatusConditions returns the place of the object's conditions, never nil.
func (c *TrafficCapture) StatusConditions() *[]StatusCondition { return &c.Status.Conditions }

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*TrafficCapture) ConditionTypes() []string {
	return []string{ConditionReady, ConditionAccepted, ConditionEnded}
}

// CapturedName returns the name of a member in the status of captures.
func CapturedName(kind, name string) string {
	return strings.TrimPrefix(kind+"/"+name, KindForkedWorkload+"/")
}

// CapturedMember returns the kind and the name of a member from its name in the status of captures.
func CapturedMember(member string) (kind, name string) {
	if kind, name, other := strings.Cut(member, "/"); other {
		return kind, name
	}
	return KindForkedWorkload, member
}

// Redirects returns the member (CapturedName) with requests that the capture records; nil: its Services send requests to
// the application.
func (c *TrafficCapture) Redirects(member string) *CapturedFork {
	if i := slices.IndexFunc(c.Status.Redirected, func(f CapturedFork) bool { return f.Name == member }); i >= 0 {
		return &c.Status.Redirected[i]
	}
	return nil
}

// AttachedTo reports whether the capture is attached to a pod for a member, or was before its drain ends.
func (c *TrafficCapture) AttachedTo(member string) bool {
	return slices.ContainsFunc(c.Status.Pods, func(p CapturedPod) bool { return p.Workload == member })
}
