package v1

// Member is a sandboxed workload of any kind (a ForkedWorkload, a
// SignadotExternalWorkload or a VirtualWorkload), as those read it that route to it:
// RoutingConfigs, sandboxes and route groups.
//
// +kubebuilder:object:generate=false
type Member interface {
	Object
	// MemberKind returns its kind, one of MemberKinds. The TypeMeta of objects from a cache is
	// empty.
	MemberKind() string
	// BaselineRef returns the workload that it receives the requests of, with its namespace,
	// which is that of the member where the spec names none. It returns false when there is no
	// such workload: for an external workload without baseline, or with a fake one.
	BaselineRef() (ObjectRef, bool)
	// ObservedBaseline returns the last observed state of the baseline; nil before that. It is
	// part of the status.
	ObservedBaseline() *WorkloadBaseline
	// RoutingInfo returns how requests can reach it; nil as long as that is not known.
	// It is part of the status.
	RoutingInfo() *WorkloadRoutingInfo
}

// MemberKind is ForkedWorkload.
func (*ForkedWorkload) MemberKind() string { return KindForkedWorkload }

// BaselineRef returns the workload that is forked.
func (w *ForkedWorkload) BaselineRef() (ObjectRef, bool) {
	return besideMember(w.Spec.Baseline, w.Namespace), true
}

// ObservedBaseline returns its last observed state.
func (w *ForkedWorkload) ObservedBaseline() *WorkloadBaseline { return w.Status.Baseline }

// RoutingInfo returns how requests can reach the fork.
func (w *ForkedWorkload) RoutingInfo() *WorkloadRoutingInfo { return w.Status.RoutingConfig }

// MemberKind is SignadotExternalWorkload.
func (*SignadotExternalWorkload) MemberKind() string { return KindExternalWorkload }

// BaselineRef returns the workload with requests that are forwarded to the workstation, if any.
func (w *SignadotExternalWorkload) BaselineRef() (ObjectRef, bool) {
	if w.Spec.Baseline == nil || w.Spec.Baseline.Fake {
		return ObjectRef{}, false
	}
	return besideMember(w.Spec.Baseline.ObjectRef, w.Namespace), true
}

// ObservedBaseline returns its last observed state.
func (w *SignadotExternalWorkload) ObservedBaseline() *WorkloadBaseline { return w.Status.Baseline }

// RoutingInfo returns how requests can reach the tunnel.
func (w *SignadotExternalWorkload) RoutingInfo() *WorkloadRoutingInfo { return w.Status.RoutingConfig }

// MemberKind is VirtualWorkload.
func (*VirtualWorkload) MemberKind() string { return KindVirtualWorkload }

// BaselineRef returns the workload that it receives the requests of.
func (w *VirtualWorkload) BaselineRef() (ObjectRef, bool) {
	return besideMember(w.Spec.Baseline, w.Namespace), true
}

// ObservedBaseline returns its last observed state.
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
