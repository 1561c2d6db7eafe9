package externalworkload

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
)

// Reasons of TunnelConnected.
const (
	// ReasonNoTunnel: no tunnel was reported, or it was collected.
	ReasonNoTunnel = "NoTunnel"
	// ReasonTunnelAddressRefused: requests are not forwarded to the reported address.
	ReasonTunnelAddressRefused = "TunnelAddressRefused"
	ReasonTunnelUnchecked      = "TunnelUnchecked"
	ReasonTunnelDisconnected   = "TunnelDisconnected"
	ReasonTunnelStale          = "TunnelStale"
)

// Tunnel is status.tunnel after validation.
type Tunnel struct {
	// Connected is the condition for TunnelConnected. Unknown: there is no tunnel. False: requests cannot
	// pass through it.
	Connected condition.Condition
	// Address is the end of the tunnel in the cluster; the zero Addr if there is none.
	Address netip.Addr
	// Pod is the name of the pod that has that address.
	Pod string
	// Ports maps container ports to ports of the proxy pod.
	Ports map[int32]int32
	// PortsProblem describes the problem with reported ports, which are not in Ports; "" if there is none.
	PortsProblem string
	// Turns is the time at which Connected can change or the tunnel is to be collected without any write.
	// Zero: never.
	Turns time.Time
}

// tunnelOf validates the tunnel, and reports whether it is to be collected; the returned Tunnel is then
// the empty one that remains.
func tunnelOf(in Input) (t Tunnel, collect bool) {
	status := cmp.Or(in.Workload.Status.Tunnel, &crdv1.TunnelStatus{})
	if t = noTunnel(status.Health); status.Info == nil {
		return t, false
	}
	t = heldBy(*status.Info, in)
	if t.Connected.IsTrue() {
		t.Connected, t.Turns = t.judge(status.Health, in)
	}
	if t.Connected.IsTrue() {
		return t, false
	}
	since, known := downSince(in.Workload, status.Health)
	if !known {
		since = in.Now
	}
	if end := since.Add(in.Limits.Grace); in.Now.Before(end) {
		if t.Turns.IsZero() || end.Before(t.Turns) {
			t.Turns = end
		}
		return t, false
	}
	return noTunnel(status.Health), true
}

// noTunnel returns the Tunnel for a status without one.
func noTunnel(h *crdv1.TunnelHealth) Tunnel {
	message := crdv1.NoWorkstation + ": run `switchyard connect` there."
	if h != nil && h.LastConnectedTime != nil {
		message = fmt.Sprintf(crdv1.NoWorkstation+"; one was until %s. Run `switchyard connect` there again.", at(h.LastConnectedTime.Time))
	}
	return Tunnel{Connected: condition.Unknown(ReasonNoTunnel, message)}
}

// heldBy reads where a tunnel ends, which may be at none of the API servers.
func heldBy(info crdv1.TunnelInfo, in Input) Tunnel {
	t := Tunnel{Connected: condition.True("TunnelConnected", ""), Pod: info.TunnelProxyPodName}
	end, problem := endOf(info)
	todo := "it has to be the address of the pod that holds the tunnel"
	if problem == "" {
		if problem = holderProblem(in, info, end); problem != "" {
			todo = holderWanted(in)
		}
	}
	switch {
	case problem != "":
	case among(in.Servers, end):
		problem = "is that of an API server"
	case in.ServersRefused != "":
		problem, todo = "may be that of an API server", fmt.Sprintf(
			"the right to get EndpointSlice default/kubernetes is lacking (%s): grant it to the controller manager, as the chart does", in.ServersRefused)
		t.Turns = in.Now.Add(apply.RefusedAgain)
	}
	if problem != "" {
		t.Connected = condition.False(ReasonTunnelAddressRefused, fmt.Sprintf(
			"status.tunnel.info.tunnelProxyPodIP %.80q %s, so no request is routed there: %s", info.TunnelProxyPodIP, problem, todo))
		return t
	}
	t.Address = end
	t.Ports, t.PortsProblem = portsOf(info)
	return t
}

// endOf returns the address at which a tunnel ends, or why it cannot be a pod's.
func endOf(info crdv1.TunnelInfo) (end netip.Addr, problem string) {
	end, err := netip.ParseAddr(info.TunnelProxyPodIP)
	if err != nil {
		return end, "is no address"
	}
	return end, addressProblem(end)
}

// among reports whether an address is one of all, independent of notation.
func among(all []string, one netip.Addr) bool {
	return slices.ContainsFunc(all, func(s string) bool {
		a, err := netip.ParseAddr(s)
		return err == nil && a.Unmap() == one.Unmap()
	})
}

// neverPods are addresses at which no pod of a network is: this network, the
// reserved ones with the broadcast, and those in which an IPv4 address is hidden.
var neverPods = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16"),
}

// addressProblem returns why requests must not be forwarded to an address, "" if it can be the IP of a
// pod. Proxies on the nodes use the endpoints that the operator writes, and a loopback or link-local
// address there is one of the node or of its cloud provider.
func addressProblem(a netip.Addr) string {
	switch {
	case a.Zone() != "":
		return "has a zone"
	case a.Is4In6():
		return "is an IPv4 address written as IPv6"
	case a.IsUnspecified():
		return "is the unspecified address"
	case a.IsLoopback():
		return "is a loopback address"
	case a.IsLinkLocalUnicast(), a.IsLinkLocalMulticast(), a.IsInterfaceLocalMulticast():
		return "is a link-local address"
	case a.IsMulticast():
		return "is a multicast address"
	case slices.ContainsFunc(neverPods, func(p netip.Prefix) bool { return p.Contains(a) }):
		return "cannot be that of a pod"
	}
	return ""
}

// portsOf returns the port of the proxy pod for each container port. A port that is listed twice or is not
// valid is left out, because a guess could forward requests to another port.
func portsOf(info crdv1.TunnelInfo) (ports map[int32]int32, problem string) {
	ports = map[int32]int32{}
	used := map[int32]int32{info.ControlPort: 0}
	dropped := map[int32]bool{}
	for _, p := range info.WorkloadPorts {
		_, told := ports[p.Baseline]
		other, taken := used[p.Proxy]
		valid := isPort(p.Baseline) && isPort(p.Proxy)
		switch {
		case valid && taken:
			dropped[other] = true // also when this entry is dropped for another reason
		case valid:
			used[p.Proxy] = p.Baseline
		}
		switch {
		case !valid:
			problem = fmt.Sprintf("port %d of the tunnel's pod for container port %d: one of them is no port", p.Proxy, p.Baseline)
		case told:
			problem = fmt.Sprintf("two ports of the tunnel's pod are mapped to container port %d", p.Baseline)
		case taken && other == 0:
			problem = fmt.Sprintf("port %d of the tunnel's pod is its control port", p.Proxy)
		case taken:
			problem = fmt.Sprintf("port %d of the tunnel's pod is mapped to container ports %d and %d", p.Proxy, other, p.Baseline)
		default:
			ports[p.Baseline] = p.Proxy
			continue
		}
		dropped[p.Baseline] = true
	}
	for p := range dropped {
		delete(ports, p)
	}
	return ports, problem
}

// judge returns whether the workstation is connected, and when that changes without a write.
func (t Tunnel) judge(h *crdv1.TunnelHealth, in Input) (condition.Condition, time.Time) {
	if h == nil || h.LastCheckTime == nil {
		return condition.False(ReasonTunnelUnchecked, fmt.Sprintf("The tunnel at pod %s has not been checked yet.", t.Pod)), time.Time{}
	}
	checked := h.LastCheckTime.Time
	switch until := checked.Add(in.Limits.Fresh); {
	case !h.Connected:
		message := fmt.Sprintf("The tunnel at pod %s has lost its workstation", t.Pod)
		if in.holderGone() {
			message = fmt.Sprintf("Tunnel proxy %s does not answer, so requests do not reach the workstation", t.Pod)
		}
		if h.LastConnectedTime != nil {
			message += ", which was connected until " + at(h.LastConnectedTime.Time)
		}
		return condition.False(ReasonTunnelDisconnected, message+"."), time.Time{}
	case !in.Now.Before(until):
		return condition.False(ReasonTunnelStale, fmt.Sprintf(
			"The tunnel at pod %s was checked at %s for the last time, which is not enough to count on it: after %s it has to be checked again.",
			t.Pod, at(checked), in.Limits.Fresh)), time.Time{}
	case checked.Sub(in.Now) > in.Limits.Fresh:
		return condition.False(ReasonTunnelStale, fmt.Sprintf(
			"The tunnel at pod %s was checked at %s, which is still to come: set the clocks of the nodes right.", t.Pod, at(checked))), checked.Add(-in.Limits.Fresh)
	default:
		return condition.True("TunnelConnected", fmt.Sprintf("A workstation is connected; its tunnel ends at pod %s, %s.", t.Pod, t.Address)), until
	}
}

// downSince returns the time since which an unusable tunnel has been unusable: the last connection of the
// workstation, or the transition of the condition TunnelConnected to False if that is later or no
// connection is recorded. It returns false if the condition is not False yet and no connection is
// recorded, or if it is Unknown: there was no tunnel until now, and the health in the status is that of
// the previous one.
func downSince(w *crdv1.SignadotExternalWorkload, h *crdv1.TunnelHealth) (time.Time, bool) {
	var last time.Time
	if h != nil {
		if h.LastConnectedTime != nil {
			last = h.LastConnectedTime.Time
		}
		if c := h.LastCheckTime; h.Connected && c != nil && c.After(last) {
			last = c.Time
		}
	}
	c := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionTunnelConnected)
	switch {
	case c == nil, c.Status == string(metav1.ConditionTrue):
		return last, !last.IsZero()
	case c.Status != string(metav1.ConditionFalse):
		return time.Time{}, false
	case c.LastTransitionTime.After(last):
		return c.LastTransitionTime.Time, true
	}
	return last, true
}

// at writes a time for a message.
func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }
