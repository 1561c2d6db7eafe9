package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/traffic/override/policy"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tools/traffic"
)

// The answer of the workstation, and of the fork when the workstation is down.
const workstation, unreachable = "workstation", "unreachable"

func TestRequestsOfAForkAreOverridden(t *testing.T) {
	const key = "overridden"
	w, token := newRecordingWorld(t)
	sandbox := w.sandbox(key)
	f := w.forkInPod(key, token)
	w.Eventually("Ready", func() error { return isReady(w, sandbox) })
	before := f.deployment()
	load := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}} // one connection, from before the override until after its end
	defer load.CloseIdleConnections()
	ask := func() (traffic.Answer, error) {
		a, err := traffic.Get(w.Context(), load, w.sender.URL, [2]string{"Baggage", "sd-routing-key=" + key})
		if err == nil && a.Status != http.StatusOK {
			err = fmt.Errorf("status %d: %.200s", a.Status, a.Body)
		}
		return a, err
	}
	expect := func(body, skipped string) error {
		a, err := ask()
		if err != nil {
			t.Fatalf("a request failed: %v", err)
		}
		marked := a.Header.Get(policy.Header) == "true"
		if string(a.Body) != body || a.Header.Get(policy.SkippedHeader) != skipped || marked != (body == workstation) {
			return fmt.Errorf("%s, %v", a.Body, a.Header)
		}
		return nil
	}
	w.Must(expect(string(traffic.Fork), ""))

	w.middlewares(sandbox, crdv1.SandboxExternalWorkload{
		Name: "override-1", Tunnel: &crdv1.TunnelSpec{BaselineToLocals: []crdv1.TunnelPort{{BaselinePort: workloadPort, LocalAddress: "localhost:9999"}}},
	})
	local := w.workstation()
	capture := &crdv1.TrafficCapture{}
	w.Eventually("the override is attached", func() error {
		var all crdv1.TrafficCaptureList
		if err := w.Client.List(w.Context(), &all, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(all.Items) != 1 || all.Items[0].Spec.Override == nil {
			return fmt.Errorf("%d TrafficCaptures", len(all.Items))
		}
		*capture = all.Items[0]
		return expect(workstation, "")
	})
	w.Condition(capture, crdv1.ConditionReady, "True", "Overriding")
	w.Eventually("the sandbox is ready", func() error { return isReady(w, sandbox) })
	for range 50 {
		w.Must(expect(workstation, ""))
	}

	w.Must(local.Close())
	w.Must(expect(string(traffic.Fork), unreachable))

	w.middlewares(sandbox)
	w.Gone(capture)
	for range 50 {
		w.Must(expect(string(traffic.Fork), ""))
	}
	if now := f.deployment(); now.Generation != before.Generation || now.UID != before.UID {
		t.Errorf("the fork was changed: generation %d, then %d", before.Generation, now.Generation)
	}
}

// middlewares gives a sandbox an override with each of these targets, and takes all others away.
func (w *path) middlewares(s *crdv1.SignadotSandbox, targets ...crdv1.SandboxExternalWorkload) {
	w.Helper()
	w.Eventually("the sandbox is changed", func() error {
		if err := w.Look(s); err != nil {
			return err
		}
		s.Spec.ExternalWorkloads, s.Spec.RequestMiddlewares = targets, nil
		for _, to := range targets {
			s.Spec.RequestMiddlewares = append(s.Spec.RequestMiddlewares, crdv1.MiddlewareMatch{
				Workload: &crdv1.WorkloadRef{Kind: "Deployment", Namespace: namespace, Name: "cart"},
				Instance: crdv1.MiddlewareInstance{Middleware: "override", Args: []crdv1.MiddlewareArg{
					{Name: "overrideHost", ValueFrom: &crdv1.MiddlewareArgSource{Forward: to.Name}},
				}},
			})
		}
		return w.Client.Update(w.Context(), s)
	})
}

// workstation answers at the end of the tunnel of the external workload without a baseline, which it declares connected.
func (w *path) workstation() net.Listener {
	w.Helper()
	external := &crdv1.SignadotExternalWorkload{}
	w.Eventually("there is an external workload with a Service", func() error {
		var all crdv1.SignadotExternalWorkloadList
		if err := w.Client.List(w.Context(), &all); err != nil {
			return err
		}
		if len(all.Items) != 1 || all.Items[0].Status.RoutingConfig == nil || len(all.Items[0].Status.RoutingConfig.Services) != 1 {
			text, err := json.Marshal(all.Items)
			return errors.Join(err, errors.New(string(text)))
		}
		*external = all.Items[0]
		return nil
	})
	w.route(external)
	w.Must(podnet.ServeAddress(net.ParseIP(tunnelAddress)))
	listener, err := net.Listen("tcp", net.JoinHostPort(tunnelAddress, fmt.Sprint(tunnelPort)))
	w.Must(err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set(policy.Header, "true")
		_, _ = io.WriteString(rw, workstation)
	})}
	go func() { _ = server.Serve(listener) }()
	w.Cleanup(func() { _ = server.Close() })
	w.tunnel(external, true)
	return closing{listener, server}
}

// closing is a listener that closes its connections too.
type closing struct {
	net.Listener
	server *http.Server
}

// Close implements net.Listener.
func (c closing) Close() error { return c.server.Close() }
