package agent_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"switchyard.dev/controlplane-link/agent"
	"switchyard.dev/controlplane-link/runner"
	"switchyard.dev/eventbus/trust"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/sidecars/traffic/ticket"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/carrier"
)

// TestTrafficManagersAreReachedThroughTheLink: the control plane itself alone reaches the replicas that are ready, with a ticket for one
// capture that the real service issues.
func TestTrafficManagersAreReachedThroughTheLink(t *testing.T) {
	var tokenFile string
	w := world.Shared(t)
	operator := w.NewNamespace("operator")
	service := runners.Serve(w, operator, "system:serviceaccount:"+operator+":signadot-agent")
	s := siteIn(t, w, func(a *agent.Settings) { a.Runners, tokenFile = service.Address, a.AccountTokenFile })
	s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.operator, Name: "signadot-authority"}, Data: map[string]string{trust.BundleFile: service.CA}})
	s.Accounts(operator, "signadot-agent", "other")
	shows := func(account string) {
		s.Must(os.WriteFile(tokenFile, []byte(s.Token(operator, account, "", nil)+"\n"), 0o600))
	}
	shows("signadot-agent")
	s.connected()
	to := func(replica string) *linkv1.Traffic {
		return &linkv1.Traffic{CaptureNamespace: s.namespace, Capture: "mine", Replica: replica}
	}
	refuses := func(what string, caller *linkv1.Caller, to *linkv1.Traffic, reason tunnelv1.Reason, says string) {
		t.Helper()
		_, _, err := runner.OpenTraffic(t.Context(), as{s, caller}, prod, to)
		refused := &carrier.RefusedError{}
		if !errors.As(err, &refused) || refused.Refused.GetReason() != reason || !strings.Contains(refused.Refused.GetMessage(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refuses("an operator without it", nil, to(""), tunnelv1.Reason_REASON_UNAVAILABLE, "trafficManager.enabled")
	endpoint := func(name string, ready bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{s.backend.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: name}}
	}
	s.Create(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: s.operator, Name: "traffic-manager-1", Labels: map[string]string{discoveryv1.LabelServiceName: "traffic-manager"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("grpc"), Port: ptr.To(int32(s.port))}},
		Endpoints: []discoveryv1.Endpoint{endpoint("two", true), endpoint("one", true), endpoint("three", false)},
	})
	_, got, err := runner.OpenTraffic(t.Context(), s.server, prod, to(""))
	s.Must(err)
	if text := fmt.Sprint(got.GetReplicas()); text != "[one two]" || string(got.GetAuthority()) != service.CA || got.GetServerName() != runners.TrafficManager {
		t.Errorf("%v", got)
	}
	public, err := ticket.ParseKeys(service.CaptureKeys())
	s.Must(err)
	claims, err := public.Check(got.GetTicket(), time.Now())
	if err != nil || claims.Permits(s.namespace, "mine") != nil || claims.Permits(s.namespace, "other") == nil {
		t.Errorf("%+v, %v", claims, err)
	}
	conn, _, err := runner.OpenTraffic(t.Context(), s.server, prod, to("two"))
	s.Must(err)
	defer conn.Close() //nolint:errcheck // of a test
	if text, err := io.ReadAll(conn); err != nil || string(text) != "backend" {
		t.Errorf("the replica sends %q, %v", text, err)
	}
	refuses("a user", jo, to("two"), tunnelv1.Reason_REASON_FORBIDDEN, "Users do not reach traffic-manager")
	refuses("a user without a capture", jo, &linkv1.Traffic{}, tunnelv1.Reason_REASON_FORBIDDEN, "Users do not reach traffic-manager")
	refuses("a replica that is not ready", nil, to("three"), tunnelv1.Reason_REASON_NOT_FOUND, "no replica")
	shows("other")
	refuses("an agent with another account", nil, to(""), tunnelv1.Reason_REASON_FORBIDDEN, "get pods/log")
	if log := s.log.String(); strings.Contains(log, got.GetTicket()) || !strings.Contains(log, `"msg":"a connection to traffic-manager begins"`) || !strings.Contains(log, "Users do not reach traffic-manager") {
		t.Error("the log has the ticket, or lacks the records")
	}
}
