package externalworkload

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/reconcilers/tunnelholders/holders"
)

// controlPort is the control port of the operator's tunnel proxies.
const controlPort = 7780

// Bounds of the labels that a workstation may have in a status.
const maxLabels, maxLabelBytes = 16, 256

// ProxyReport is the report of the operator's tunnel proxies about one external workload.
type ProxyReport struct {
	// Holder is the proxy that holds the tunnel; nil if no proxy has reported to hold it.
	Holder *holders.Holder
	// Awaited is set if the proxy that the status names has not reported yet.
	Awaited bool
}

// TakeHolder sets status.tunnel from the report of the operator's proxy that holds the tunnel, if one
// does. A report of a tunnel without a connected workstation is ignored if the status has no tunnel: it
// was collected.
func (in *Input) TakeHolder() {
	if in.Report == nil || in.Report.Holder == nil {
		return
	}
	h, info := in.Report.Holder, tunnelInfo(in.Workload)
	if info == nil && !h.Connected() || info != nil && info.TunnelProxyPodName != h.Pod && in.Report.Awaited {
		return
	}
	in.setTunnel(infoOf(*h), h.Connected(), h.Tunnel.GetHeard().AsTime())
}

// NoteLost records in status.tunnel that the workstation is not connected, if the named pod is or was a
// proxy of the operator and no proxy holds the tunnel.
func (in *Input) NoteLost() {
	info := tunnelInfo(in.Workload)
	if in.Report == nil || in.Written != nil || info == nil || in.Report.Awaited || !in.endsAtOperatorProxy(info) {
		return
	}
	in.setTunnel(info, false, time.Time{})
}

// endsAtOperatorProxy reports whether a tunnel ends or ended at a proxy of the operator: its pod is one, or no pod of
// that name exists and its control port is that of the operator's proxies.
func (in *Input) endsAtOperatorProxy(info *crdv1.TunnelInfo) bool {
	for i := range in.Holders {
		if p := &in.Holders[i]; in.OperatorNamespace != "" && p.Namespace == in.OperatorNamespace {
			return p.Labels[proxyLabel] == proxyName
		}
	}
	return len(in.Holders) == 0 && info.ControlPort == controlPort && in.OperatorNamespace != ""
}

// holderGone reports whether the proxy that holds the tunnel does not answer.
func (in Input) holderGone() bool {
	return in.Written != nil && in.Report != nil && in.Report.Holder != nil && in.Report.Holder.Gone
}

// setTunnel sets status.tunnel in a copy of the external workload. heard is the time of the last message of the
// workstation, zero if it is not known.
func (in *Input) setTunnel(info *crdv1.TunnelInfo, connected bool, heard time.Time) {
	w := in.Workload.DeepCopy()
	w.Status.Tunnel = cmp.Or(w.Status.Tunnel, &crdv1.TunnelStatus{})
	before, now := w.Status.Tunnel.Health, metav1.NewTime(in.Now)
	health := &crdv1.TunnelHealth{Connected: connected, LastCheckTime: &now}
	switch {
	case connected:
		health.LastConnectedTime = &now
	case heard.Unix() > 0:
		health.LastConnectedTime = &metav1.Time{Time: minTime(heard, in.Now)}
	case before != nil && before.Connected:
		health.LastConnectedTime = cmp.Or(before.LastCheckTime, before.LastConnectedTime)
	case before != nil:
		health.LastConnectedTime = before.LastConnectedTime
	}
	w.Status.Tunnel.Info, w.Status.Tunnel.Health = info.DeepCopy(), health
	in.Written, in.Workload = in.Workload, w
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// tunnelInfo returns the end of the tunnel from the status, nil if there is none.
func tunnelInfo(w *crdv1.SignadotExternalWorkload) *crdv1.TunnelInfo {
	if w.Status.Tunnel == nil {
		return nil
	}
	return w.Status.Tunnel.Info
}

// infoOf returns the end of a tunnel in the form of the status.
func infoOf(h holders.Holder) *crdv1.TunnelInfo {
	out := &crdv1.TunnelInfo{ControlPort: controlPort, TunnelProxyPodName: h.Pod, TunnelProxyPodIP: h.IP, Labels: labelsOf(h.Tunnel)}
	for _, p := range h.Tunnel.GetPorts() {
		out.WorkloadPorts = append(out.WorkloadPorts, crdv1.TunnelWorkloadPort{Baseline: p.GetBaseline(), Proxy: p.GetProxy()})
	}
	slices.SortStableFunc(out.WorkloadPorts, func(a, b crdv1.TunnelWorkloadPort) int {
		return cmp.Or(cmp.Compare(a.Baseline, b.Baseline), cmp.Compare(a.Proxy, b.Proxy))
	})
	return out
}

// labelsOf returns the displayed labels of a workstation; none if they exceed the limits.
func labelsOf(t *tunnelv1.Tunnel) map[string]string {
	if len(t.GetLabels()) > maxLabels {
		return nil
	}
	for name, value := range t.GetLabels() {
		if len(name) > maxLabelBytes || len(value) > maxLabelBytes {
			return nil
		}
	}
	return t.GetLabels()
}

// refreshAfter returns the interval at which the time of the last check is written: well before it is too
// old, and spread over external workloads.
func (in Input) refreshAfter() time.Duration {
	spread := fnv.New32a()
	_, _ = spread.Write([]byte(in.Workload.UID))
	third := in.Limits.Fresh / 3
	return third + third/2*time.Duration(spread.Sum32()%1024)/1024
}

// refreshAt returns the time of the next write of the last check; zero: never.
func (in Input) refreshAt(t *crdv1.TunnelStatus) time.Time {
	if in.Written == nil || t == nil || t.Info == nil || t.Health == nil || t.Health.LastCheckTime == nil {
		return time.Time{}
	}
	return t.Health.LastCheckTime.Add(in.refreshAfter())
}

// settle keeps the written times of a proxy's report while nothing else has changed and they are recent,
// so that the status of a steady tunnel is rarely written.
func (in Input) settle(t *crdv1.TunnelStatus) {
	if in.Written == nil || t == nil || t.Health == nil {
		return
	}
	for _, at := range []**metav1.Time{&t.Health.LastCheckTime, &t.Health.LastConnectedTime} {
		if *at != nil {
			seconds := (*at).Rfc3339Copy() // as it is read again
			*at = &seconds
		}
	}
	was := in.Written.Status.Tunnel
	if was == nil || was.Health == nil || was.Health.Connected != t.Health.Connected || !equality.Semantic.DeepEqual(was.Info, t.Info) {
		return
	}
	if again := in.refreshAt(was); t.Info == nil || !again.IsZero() && in.Now.Before(again) {
		t.Health.LastCheckTime, t.Health.LastConnectedTime = was.Health.LastCheckTime, was.Health.LastConnectedTime
	}
}
