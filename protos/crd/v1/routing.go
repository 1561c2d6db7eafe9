package v1

import "slices"

// WorkloadRoutingInfo is a member's report about how traffic can reach it. The controller of
// the member writes it, that of the RoutingConfig reads it.
type WorkloadRoutingInfo struct {
	// Whether every pod of the baseline has a ready DevMesh sidecar.
	DevMeshSidecarPresent bool `json:"devMeshSidecarPresent"`

	// One entry for each Service of the baseline.
	// +optional
	Services []ServiceMapping `json:"services,omitempty"`

	// Names of Services that have selected the baseline and no longer do.
	// +optional
	FormerServices []string `json:"formerServices,omitempty"`
}

// Former reports whether a Service has selected the baseline and no longer does. i may be nil.
func (i *WorkloadRoutingInfo) Former(service string) bool {
	return i != nil && slices.Contains(i.FormerServices, service)
}

// ServiceMapping maps a baseline Service to the Service that replaces it.
type ServiceMapping struct {
	// Name of the baseline Service.
	From string `json:"from"`

	// Ports of the baseline Service that could not be mapped.
	// +optional
	MissingPorts []int32 `json:"missingPorts,omitempty"`

	// Ports that are mapped.
	// +optional
	Ports []MappedPort `json:"ports,omitempty"`

	// Name of the Service that was made for the member; empty when no port of
	// the baseline Service could be mapped, and so none was made.
	// +optional
	To string `json:"to,omitempty"`
}

// MappedPort is one port of a Service.
type MappedPort struct {
	// The port that the Service listens on.
	Port int32 `json:"port"`

	// The port that the workload listens on.
	TargetPort int32 `json:"targetPort"`

	// Whether requests to this port stay at the baseline although the Service is replaced: those of a virtual
	// workload are not recorded.
	// +optional
	KeptAtBaseline bool `json:"keptAtBaseline,omitempty"`
}

// SandboxRoutingStatus describes how the traffic of one member is routed.
type SandboxRoutingStatus struct {
	// Routing by DevMesh sidecars.
	// +optional
	DevMesh *DevMeshRouting `json:"devMesh,omitempty"`

	// Routing by Istio, for each Service of the baseline.
	// +optional
	Istio []IstioServiceRouting `json:"istio,omitempty"`
}

// DevMeshRouting reports whether DevMesh sidecars route.
type DevMeshRouting struct {
	// True only when no pod of the baseline lacks a ready DevMesh sidecar.
	Enabled bool `json:"enabled"`
}

// IstioServiceRouting lists the VirtualServices that route one baseline Service.
type IstioServiceRouting struct {
	// Name of the baseline Service.
	BaselineService string `json:"baselineService"`

	// The VirtualServices that route to it.
	// +optional
	MatchedVirtualServices []VirtualServiceMatch `json:"matchedVirtualServices,omitempty"`
}

// VirtualServiceMatch is a VirtualService that carries our routes.
type VirtualServiceMatch struct {
	// What happened, for people.
	// +optional
	Message string `json:"message,omitempty"`

	// Name of the VirtualService.
	Name string `json:"name"`

	// Namespace of the VirtualService.
	Namespace string `json:"namespace"`

	// How it went, in one word.
	Status string `json:"status"`
}

// RouteLocation is one end of a route.
type RouteLocation struct {
	// Host name or address.
	Host string `json:"host"`

	// Port of the Service.
	Port int32 `json:"port"`

	// The port that the workload itself listens on (the Service's target port).
	// +optional
	WorkloadPort int32 `json:"workloadPort,omitempty"`
}
