package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TunnelSpec lists the ports that are forwarded through a tunnel to a workstation.
type TunnelSpec struct {
	// One entry for each port.
	// +optional
	BaselineToLocals []TunnelPort `json:"baselineToLocals,omitempty"`
}

// TunnelPort forwards one port to an address at the workstation.
type TunnelPort struct {
	// Protocol of the port; it only matters when there is no baseline to take
	// it from.
	// +optional
	AppProtocol string `json:"appProtocol,omitempty"`

	// Container port of the baseline.
	BaselinePort int32 `json:"baselinePort"`

	// The address that the workstation connects to, as host:port.
	LocalAddress string `json:"localAddress"`
}

// TunnelStatus is the observed state of a tunnel.
type TunnelStatus struct {
	// Whether the tunnel works.
	// +optional
	Health *TunnelHealth `json:"health,omitempty"`

	// Where the tunnel ends in the cluster.
	// +optional
	Info *TunnelInfo `json:"info,omitempty"`
}

// TunnelHealth reports whether a tunnel works.
type TunnelHealth struct {
	// Whether the workstation is connected.
	Connected bool `json:"connected"`

	// The last time it was checked.
	// +optional
	LastCheckTime *metav1.Time `json:"lastCheckTime,omitempty"`

	// The last time it was connected.
	// +optional
	LastConnectedTime *metav1.Time `json:"lastConnectedTime,omitempty"`
}

// TunnelInfo describes where a tunnel ends in the cluster.
type TunnelInfo struct {
	// Port of the proxy on which the tunnel's health is asked.
	ControlPort int32 `json:"controlPort"`

	// Labels that the client gave.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Address of the proxy pod that holds the tunnel.
	TunnelProxyPodIP string `json:"tunnelProxyPodIP"`

	// Name of the proxy pod that holds the tunnel.
	TunnelProxyPodName string `json:"tunnelProxyPodName"`

	// The proxy port for each baseline port.
	// +optional
	WorkloadPorts []TunnelWorkloadPort `json:"workloadPorts,omitempty"`
}

// TunnelWorkloadPort is the proxy port for a baseline port.
type TunnelWorkloadPort struct {
	// Container port of the baseline.
	Baseline int32 `json:"baseline"`

	// Port of the proxy pod.
	Proxy int32 `json:"proxy"`
}
