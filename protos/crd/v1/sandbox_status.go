package v1

import "cmp"

// SignadotSandboxStatus is how far a sandbox is.
type SignadotSandboxStatus struct {
	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// How many workloads were cloned.
	// +optional
	CustomizedDeployments int32 `json:"customizedDeployments"`

	// The members outside the cluster.
	// +optional
	ExternalWorkloads []SandboxExternalWorkloadStatus `json:"externalWorkloads,omitempty"`

	// The forks.
	// +optional
	ForkedWorkloads []SandboxForkStatus `json:"forkedWorkloads,omitempty"`

	// The resources.
	// +optional
	ManagedResources []SandboxResourceStatus `json:"managedResources,omitempty"`

	// The generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// How many clones are complete.
	// +optional
	ReadyDeployments int32 `json:"readyDeployments"`

	// Deprecated: see managedResources.
	// +optional
	ReadyManagedResources map[string]bool `json:"readyManagedResources,omitempty"`

	// The members without pods of their own.
	// +optional
	VirtualWorkloads []SandboxVirtualWorkloadStatus `json:"virtualWorkloads,omitempty"`
}

// SandboxExternalWorkloadStatus is how far a member outside the cluster is.
type SandboxExternalWorkloadStatus struct {
	// Name of the member.
	Name string `json:"name"`

	// How its traffic is routed.
	// +optional
	Routing *SandboxRoutingStatus `json:"routing,omitempty"`

	// Its tunnel.
	// +optional
	Tunnel *TunnelStatus `json:"tunnel,omitempty"`
}

// SandboxForkStatus is how the traffic of a fork is routed.
type SandboxForkStatus struct {
	// The baseline that was forked.
	ForkTarget ObjectRef `json:"forkTarget"`

	// How its traffic is routed.
	// +optional
	Routing *SandboxRoutingStatus `json:"routing,omitempty"`
}

// SandboxResourceStatus is how far a resource is.
type SandboxResourceStatus struct {
	// Whether it failed for good.
	Failed bool `json:"failed"`

	// Name of the resource.
	Name string `json:"name"`

	// Whether it can be used.
	Ready bool `json:"ready"`
}

// SandboxVirtualWorkloadStatus is how the traffic of a virtual member is routed.
type SandboxVirtualWorkloadStatus struct {
	// The baseline that it stands before.
	Baseline ObjectRef `json:"baseline"`

	// How its traffic is routed.
	// +optional
	Routing *SandboxRoutingStatus `json:"routing,omitempty"`
}

// Condition types of a SignadotSandbox, beside Ready and Accepted.
const (
	// ConditionWorkloadsReady: every fork, external and virtual member is ready.
	ConditionWorkloadsReady = "WorkloadsReady"
	// ConditionResourcesReady: every managed resource is made; also when there
	// is none.
	ConditionResourcesReady = "ResourcesReady"
	// ConditionRoutingReady: the routing of every member is known to the data
	// plane. A SignadotRouteGroup has it too.
	ConditionRoutingReady = "RoutingReady"
)

// DisplayName is what users call the sandbox: spec.name, else metadata.name.
// Forked pods find it in SIGNADOT_SANDBOX_NAME.
func (s *SignadotSandbox) DisplayName() string {
	return cmp.Or(s.Spec.Name, s.Name)
}

// StatusConditions returns the place of the object's conditions, never nil.
func (s *SignadotSandbox) StatusConditions() *[]StatusCondition { return &s.Status.Conditions }

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*SignadotSandbox) ConditionTypes() []string {
	return []string{ConditionReady, ConditionAccepted, ConditionWorkloadsReady, ConditionResourcesReady, ConditionRoutingReady}
}
