package externalworkload_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/tunnelholders/holders"
)

// reportBy is the report of a proxy in tunnel-proxy-1. Its workstation sent its last message that long
// ago; change may be nil.
func reportBy(connected bool, heard time.Duration, change func(*holders.Holder)) *externalworkload.ProxyReport {
	h := &holders.Holder{Pod: "tunnel-proxy-1", IP: "10.1.2.3", Tunnel: &tunnelv1.Tunnel{
		Namespace: "ns", Name: "sb-a-1", Uid: "xw", Session: "s", Epoch: 1, Connected: connected, Heard: timestamppb.New(now.Add(-heard)),
		Ports: []*tunnelv1.ProxyPort{{Baseline: 9090, Proxy: 31001}, {Baseline: 8080, Proxy: 31000}}, Labels: map[string]string{"user": "ann"},
	}}
	if change != nil {
		change(h)
	}
	return &externalworkload.ProxyReport{Holder: h}
}

// hears is turn with what proxies tell, as the reconciler has it, at some time after now.
func (w *world) hears(told *externalworkload.ProxyReport, after time.Duration) (externalworkload.Decision, *crdv1.SignadotExternalWorkload) {
	w.in.Now = now.Add(after)
	w.in.Report, w.in.Written = told, nil
	w.in.TakeHolder()
	w.in.NoteLost()
	d, _, status := w.turn()
	return d, status
}

func TestTheStatusHasTheReportOfTheProxy(t *testing.T) {
	w := newWorld()
	w.in.Workload.Status.Tunnel = nil
	d, after := w.hears(reportBy(true, 0, nil), 500*time.Millisecond)
	want := &crdv1.TunnelStatus{
		Health: &crdv1.TunnelHealth{Connected: true, LastCheckTime: ago(0), LastConnectedTime: ago(0)},
		Info: &crdv1.TunnelInfo{
			ControlPort: 7780, TunnelProxyPodName: "tunnel-proxy-1", TunnelProxyPodIP: "10.1.2.3", Labels: map[string]string{"user": "ann"},
			WorkloadPorts: []crdv1.TunnelWorkloadPort{{Baseline: 8080, Proxy: 31000}, {Baseline: 9090, Proxy: 31001}},
		},
	}
	if diff := cmp.Diff(want, after.Status.Tunnel); diff != "" {
		t.Error(diff)
	}
	if s := sliceOf(t, d); !*s.Endpoints[0].Conditions.Ready || s.Endpoints[0].Addresses[0] != "10.1.2.3" || *s.Ports[0].Port != 31000 {
		t.Errorf("requests are led to %+v", s)
	}
	checkCondition(t, after, crdv1.ConditionReady, "True", "Ready", "")
}

// A workstation that stays is written of well before the last check is too old, and seldom.
func TestATunnelThatGoesOnIsWrittenSeldom(t *testing.T) {
	w := newWorld()
	w.hears(reportBy(true, 0, nil), 0)
	last, written, fresh := w.in.Workload, []time.Duration{}, w.in.Limits.Fresh
	for at := time.Second; at <= 5*fresh; at += time.Second {
		_, after := w.hears(reportBy(true, 0, nil), at)
		checkCondition(t, after, crdv1.ConditionTunnelConnected, "True", "TunnelConnected", "")
		if !cmp.Equal(last, after) {
			written = append(written, at)
			last = after
		}
		if age := w.in.Now.Sub(after.Status.Tunnel.Health.LastCheckTime.Time); age > fresh/2 {
			t.Fatalf("after %s the last check that is told is %s old", at, age)
		}
	}
	if len(written) < 10 || len(written) > 15 {
		t.Errorf("in five times the age at which a check is too old it is written %d times: %s", len(written), written)
	}
}

func TestALostTunnelIsReportedAtOnceAndKeepsItsPorts(t *testing.T) {
	gone := func(h *holders.Holder) { h.Gone = true }
	for name, tt := range map[string]struct {
		told   *externalworkload.ProxyReport
		change func(w *world)
		// down: the status says that the workstation is not connected, since so long before
		// now; otherwise it stays as it was.
		down bool
		last time.Duration
	}{
		"its workstation is disconnected":                     {reportBy(false, 7*time.Second, nil), nil, true, 7 * time.Second},
		"its proxy does not answer":                           {reportBy(true, 5*time.Second, gone), nil, true, 5 * time.Second},
		"no proxy holds it":                                   {&externalworkload.ProxyReport{}, nil, true, 10 * time.Second},
		"the proxy that held it has not reported yet":         {&externalworkload.ProxyReport{Awaited: true}, nil, false, 0},
		"another has reported, and that one not yet":          {reportOf("tunnel-proxy-2", true), nil, false, 0},
		"proxies are not polled":                              {nil, nil, false, 0},
		"the pod that holds it is no proxy":                   {&externalworkload.ProxyReport{}, func(w *world) { w.in.Holders[0].Labels = nil }, false, 0},
		"the pod that holds it is of its own":                 {&externalworkload.ProxyReport{}, func(w *world) { w.in.Holders[0].Namespace = "ns" }, false, 0},
		"its pod is no more, and was no proxy":                {&externalworkload.ProxyReport{}, func(w *world) { w.in.Holders = nil }, false, 0},
		"its pod is no more, and was a proxy of the operator": {&externalworkload.ProxyReport{}, func(w *world) { w.in.Holders = nil; w.tunnel().Info.ControlPort = 7780 }, true, 10 * time.Second},
		"the clock of the proxy goes before":                  {reportBy(false, -time.Hour, nil), nil, true, 0},
		"it was lost before, and the time is kept": {&externalworkload.ProxyReport{}, func(w *world) {
			w.tunnel().Health.Connected = false
			w.tunnel().Health.LastConnectedTime = ago(time.Minute)
		}, true, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if tt.change != nil {
				tt.change(w)
			}
			before := w.tunnel().DeepCopy()
			d, after := w.hears(tt.told, 0)
			if !tt.down {
				if diff := cmp.Diff(before, after.Status.Tunnel); diff != "" {
					t.Errorf("it says something else:\n%s", diff)
				}
				return
			}
			h := after.Status.Tunnel.Health
			if h.Connected || !h.LastConnectedTime.Equal(ago(tt.last)) || after.Status.Tunnel.Info.TunnelProxyPodName != "tunnel-proxy-1" {
				t.Errorf("it says %+v, not connected since %s", h, ago(tt.last))
			}
			if len(d.Slices) > 0 && *sliceOf(t, d).Endpoints[0].Conditions.Ready {
				t.Error("connections are still led there")
			}
			gone := tt.told.Holder != nil && tt.told.Holder.Gone
			if c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionTunnelConnected); c.Status != "False" || strings.Contains(c.Message, "does not answer") != gone {
				t.Errorf("%+v", c)
			}
		})
	}
}

// reportOf is the report of one proxy, while that of the status has not reported.
func reportOf(pod string, awaited bool) *externalworkload.ProxyReport {
	told := reportBy(true, 0, func(h *holders.Holder) { h.Pod, h.IP = pod, "10.1.2.4" })
	told.Awaited = awaited
	return told
}

func TestATunnelMovesToAnotherProxy(t *testing.T) {
	w := newWorld()
	other := w.in.Holders[0].DeepCopy()
	other.Name, other.Status.PodIPs = "tunnel-proxy-2", []corev1.PodIP{{IP: "10.1.2.4"}}
	w.in.Holders = []corev1.Pod{*other}
	d, after := w.hears(reportOf("tunnel-proxy-2", false), 0)
	if info := after.Status.Tunnel.Info; info.TunnelProxyPodName != "tunnel-proxy-2" || sliceOf(t, d).Endpoints[0].Addresses[0] != "10.1.2.4" {
		t.Errorf("it ends at %+v", info)
	}
	checkCondition(t, after, crdv1.ConditionReady, "True", "Ready", "")
}

// A tunnel that was collected is not told of again for as long as its proxy keeps its ports.
func TestATunnelThatWasCollectedStaysSo(t *testing.T) {
	w := newWorld()
	_, after := w.hears(reportBy(false, 0, nil), 0)
	if after.Status.Tunnel.Info == nil {
		t.Fatal("it is collected at once")
	}
	_, after = w.hears(reportBy(false, 0, nil), w.in.Limits.Grace)
	if after.Status.Tunnel.Info != nil {
		t.Fatal("it is not collected")
	}
	for at := w.in.Limits.Grace; at < 4*w.in.Limits.Grace; at += time.Minute {
		if _, then := w.hears(reportBy(false, 0, nil), at); !cmp.Equal(after, then) {
			t.Fatalf("after %s: %s", at, cmp.Diff(after, then))
		}
	}
	_, after = w.hears(reportBy(true, 0, nil), 4*w.in.Limits.Grace)
	checkCondition(t, after, crdv1.ConditionReady, "True", "Ready", "")
}

func TestLabelsBeyondTheirBoundsAreNotTaken(t *testing.T) {
	many := map[string]string{}
	for i := range 17 {
		many[string('a'+rune(i))] = ""
	}
	for name, labels := range map[string]map[string]string{"many": many, "long": {"a": string(make([]byte, 257))}} {
		w := newWorld()
		_, after := w.hears(reportBy(true, 0, func(h *holders.Holder) { h.Tunnel.Labels = labels }), 0)
		if after.Status.Tunnel.Info.Labels != nil {
			t.Errorf("%s: %d labels are taken", name, len(after.Status.Tunnel.Info.Labels))
		}
	}
}
