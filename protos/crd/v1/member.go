package v1

// Member is a sandboxed workload of any kind (a ForkedWorkload, a
// SignadotExternalWorkload or a VirtualWorkload), as those read it that route to it:
// RoutingConfigs, sandboxes and route groups.
//
// +kubebuilder:object:generate=false
type Member interface {
	Object
	// MemberKind is its kind, one of MemberKinds. Objects out of a cache have
	// forgotten theirs.
	MemberKind() string
	// BaselineRef names the workload whose requests it takes, with its namespace,
	// which is that of the member where the spec says none. False when it takes no
	// workload's requests: an external workload without baseline, or with one that
	// stands for no real object.
	BaselineRef() (ObjectRef, bool)
	// ObservedBaseline is what was last seen of the baseline; nil before that. It is
	// part of the status.
	ObservedBaseline() *WorkloadBaseline
	// RoutingInfo returns how requests can reach it; nil as long as that is not known.
	// It is part of the status.
	RoutingInfo() *WorkloadRoutingInfo
}

// MemberKind is ForkedWorkload.
func (*ForkedWorkload) MemberKind() string { return KindForkedWorkload }

// BaselineRef names the workload that is forked.
func (w *ForkedWorkload) BaselineRef() (ObjectRef, bool) {
	return besideMember(w.Spec.Baseline, w.Namespace), true
}

// ObservedBaseline is what was last seen of it.
func (w *ForkedWorkload) ObservedBaseline() *WorkloadBaseline { return w.Status.Baseline }

// RoutingInfo returns how requests can reach the fork.
func (w *ForkedWorkload) RoutingInfo() *WorkloadRoutingInfo { return w.Status.RoutingConfig }

// MemberKind is SignadotExternalWorkload.
func (*SignadotExternalWorkload) MemberKind() string { return KindExternalWorkload }

// BaselineRef names the workload whose requests go to the workstation, if any.
func (w *SignadotExternalWorkload) BaselineRef() (ObjectRef, bool) {
	if w.Spec.Baseline == nil || w.Spec.Baseline.Fake {
		return ObjectRef{}, false
	}
	return besideMember(w.Spec.Baseline.ObjectRef, w.Namespace), true
}

// ObservedBaseline is what was last seen of it.
func (w *SignadotExternalWorkload) ObservedBaseline() *WorkloadBaseline { return w.Status.Baseline }

// RoutingInfo returns how requests can reach the tunnel.
func (w *SignadotExternalWorkload) RoutingInfo() *WorkloadRoutingInfo { return w.Status.RoutingConfig }

// MemberKind is VirtualWorkload.
func (*VirtualWorkload) MemberKind() string { return KindVirtualWorkload }

// BaselineRef names the workload that it stands before.
func (w *VirtualWorkload) BaselineRef() (ObjectRef, bool) {
	return besideMember(w.Spec.Baseline, w.Namespace), true
}

// ObservedBaseline is what was last seen of it.
func (w *VirtualWorkload) ObservedBaseline() *WorkloadBaseline { return w.Status.Baseline }

// RoutingInfo returns how requests can reach it.
func (w *VirtualWorkload) RoutingInfo() *WorkloadRoutingInfo { return w.Status.RoutingConfig }

// besideMember returns the reference with its namespace.
func besideMember(ref ObjectRef, namespace string) ObjectRef {
	if ref.Namespace == "" {
		ref.Namespace = namespace
	}
	return ref
}
