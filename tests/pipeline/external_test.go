package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tools/traffic"
)

// Where the tunnel's pod is, and which of its ports stands for that of the workload.
const (
	tunnelAddress = "10.231.7.9"
	tunnelPort    = 31000
)

func TestARequestReachesAWorkstation(t *testing.T) {
	const key = "workstation"
	w := newWorld(t)
	w.Make(&crdv1.SignadotSandbox{}, `
metadata: {name: `+key+`}
spec:
  id: `+key+`
  externalWorkloads:
    - name: local
      baseline: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: cart}
      tunnel: {baselineToLocals: [{baselinePort: 8080, localAddress: "localhost:3000"}]}`)
	w.Eventually("without a workstation the key fails visibly", func() error { return failsVisibly(w, key) })

	external := w.external()
	w.route(external)
	if err := podnet.ServeAddress(net.ParseIP(tunnelAddress)); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(tunnelAddress, fmt.Sprint(tunnelPort)))
	if err != nil {
		t.Fatal(err)
	}
	w.application(listener, traffic.Fork)
	w.tunnel(external, true)
	w.Eventually("the workstation serves the key", func() error { return w.serves(key, traffic.Fork) })
	ledger := w.sender.Count(w.Context(), 200, 4, []traffic.Want{{Key: key, Side: traffic.Fork}, {Key: "", Side: traffic.Baseline}})
	if !ledger.Clean() {
		t.Error(ledger)
	}
	w.tunnel(external, false)
	w.Eventually("when it has gone the key fails visibly", func() error { return failsVisibly(w, key) })
	if err := w.serves("", traffic.Baseline); err != nil {
		t.Error(err)
	}
}

// external waits for the external workload of the sandbox, and its Service.
func (w *path) external() *crdv1.SignadotExternalWorkload {
	w.Helper()
	var list crdv1.SignadotExternalWorkloadList
	w.Eventually("there is an external workload with a Service", func() error {
		if err := w.Client.List(w.Context(), &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Status.RoutingConfig == nil || len(list.Items[0].Status.RoutingConfig.Services) != 1 {
			return fmt.Errorf("%+v", list.Items)
		}
		return nil
	})
	return &list.Items[0]
}

// tunnelProxy makes sure that there is a pod at which the tunnel ends.
func (w *path) tunnelProxy(namespace string) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tunnel-proxy-1"}}
	pod.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "none"}}
	if err := w.Client.Create(w.Context(), pod); client.IgnoreAlreadyExists(err) != nil {
		w.Fatal(err)
	}
	patch := []byte(`{"status": {"podIP": "` + tunnelAddress + `", "podIPs": [{"ip": "` + tunnelAddress + `"}]}}`)
	w.Must(w.Client.Status().Patch(w.Context(), pod, client.RawPatch(types.MergePatchType, patch)))
}

// tunnel tells of the tunnel as its controller would.
func (w *path) tunnel(x *crdv1.SignadotExternalWorkload, connected bool) {
	w.Helper()
	w.tunnelProxy(x.Namespace)
	w.Must(w.Client.Status().Patch(w.Context(), x, client.RawPatch(types.MergePatchType, w.checked(connected))))
}

// checked is the status of a tunnel that was checked now.
func (w *path) checked(connected bool) []byte {
	w.Helper()
	now := metav1.NewTime(time.Now())
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"tunnel": crdv1.TunnelStatus{
		Health: &crdv1.TunnelHealth{Connected: connected, LastCheckTime: &now, LastConnectedTime: &now},
		Info: &crdv1.TunnelInfo{
			ControlPort: 31999, TunnelProxyPodIP: tunnelAddress, TunnelProxyPodName: "tunnel-proxy-1",
			WorkloadPorts: []crdv1.TunnelWorkloadPort{{Baseline: workloadPort, Proxy: tunnelPort}},
		},
	}}})
	w.Must(err)
	return patch
}

// route does for the Service of an external workload what proxies on the nodes would:
// connections to its address go to a ready endpoint of its EndpointSlices, and are
// refused while there is none.
func (w *path) route(x *crdv1.SignadotExternalWorkload) {
	w.Helper()
	service := &corev1.Service{}
	w.get(service, x.Status.RoutingConfig.Services[0].To)
	w.routeService(service)
}

// routeService does so for a Service without selector.
func (w *path) routeService(service *corev1.Service) {
	w.Helper()
	ip := net.ParseIP(service.Spec.ClusterIP)
	w.Must(podnet.ServeAddress(ip))
	listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), fmt.Sprint(service.Spec.Ports[0].Port)))
	w.Must(err)
	var connections sync.WaitGroup
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go func() {
				defer connections.Done()
				defer conn.Close()
				if err := w.forward(conn, service.Name); err != nil && w.Context().Err() == nil && !errors.Is(err, net.ErrClosed) {
					w.logger.Info("a connection was not forwarded", "reason", err)
				}
			}()
		}
	}()
	w.Cleanup(func() {
		_ = listener.Close() // Only to end the loop.
		<-done
		connections.Wait()
	})
}

// forward carries one connection to a ready endpoint of the Service.
func (w *path) forward(conn net.Conn, service string) error {
	var slices discoveryv1.EndpointSliceList
	err := w.Client.List(w.Context(), &slices, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service})
	if err != nil {
		return err
	}
	if len(slices.Items) != 1 || !*slices.Items[0].Endpoints[0].Conditions.Ready {
		return errors.New("there is no ready endpoint")
	}
	s := slices.Items[0]
	to, err := (&net.Dialer{}).DialContext(w.Context(), "tcp", net.JoinHostPort(s.Endpoints[0].Addresses[0], fmt.Sprint(*s.Ports[0].Port)))
	if err != nil {
		return err
	}
	defer to.Close()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(conn, to) // Either side may end first.
		_ = conn.Close()
	}()
	_, err = io.Copy(to, conn)
	_ = to.Close()
	<-back
	return err
}
