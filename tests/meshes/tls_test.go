package meshes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
)

// driverByGateway are the owner's objects: a route of a Gateway and, as the second document, a policy
// that requires TLS of a Service that does not speak it.
const driverByGateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: driver, namespace: shop}
spec:
  parentRefs: [{name: gw0}]
  hostnames: [shop.test]
  rules: [{backendRefs: [{name: driver, port: 8081}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: driver, namespace: shop}
spec:
  targetRefs: [{group: "", kind: Service, name: driver}]
  validation: {hostname: driver.test, wellKnownCACertificates: System}
`

// TestABackendTLSPolicyAppliesToTheFork has a policy of the baseline's Service decide whether a gateway
// uses TLS: it does for requests with the key exactly when it does for those without.
func TestABackendTLSPolicyAppliesToTheFork(t *testing.T) {
	s := openShop(t, manager.Config{GatewayAPI: gatewayadapter.Settings{Enabled: true, Istio: true}})
	edge := gateways("istio", 1)[0]
	edge.Namespace = shopName
	s.Create(addressed(edge)...)
	s.Must(gatewayClient(s.World).Create(s.Context(), edge))
	route, _, _ := strings.Cut(driverByGateway, "\n---\n")
	s.kubectl(route, "apply", "-f", "-")
	box := s.sandbox(keyOfCustomer, "driver")
	plain := func() error {
		return errors.Join(s.byGateway("", "200 driver"), s.byGateway(keyOfCustomer, "200 fork of driver"))
	}
	s.Eventually("requests without and with the key succeed", plain)

	s.kubectl(driverByGateway, "apply", "-f", "-")
	s.Eventually("both fail, since neither pod speaks TLS", func() error {
		return errors.Join(s.byGateway("", "503"), s.byGateway(keyOfCustomer, "503"))
	})
	s.kubectl("", "delete", "backendtlspolicy", "-n", shopName, "driver")
	s.Eventually("both succeed again", plain)

	s.kubectl(driverByGateway, "apply", "-f", "-")
	s.Eventually("both fail again", func() error {
		return errors.Join(s.byGateway("", "503"), s.byGateway(keyOfCustomer, "503"))
	})
	s.Remove(box)
	s.Gone(box)
	s.Eventually("no copy is left", func() error {
		var all gatewayv1.BackendTLSPolicyList
		s.Must(gatewayClient(s.World).List(s.Context(), &all, client.HasLabels{gatewayapi.LabelRoutingKey}))
		if len(all.Items) > 0 {
			return fmt.Errorf("%s is", all.Items[0].Name)
		}
		return nil
	})
}

// byGateway returns an error unless a request through the gateway has this answer: its status and, for
// 200, the name of what answers.
func (s *shop) byGateway(key, want string) error {
	q, err := http.NewRequestWithContext(context.Background(), http.MethodGet, fmt.Sprintf("http://shop.test:%d/", firstPort), nil)
	if err != nil {
		return err
	}
	if key != "" {
		q.Header.Set("Baggage", "sd-routing-key="+key)
	}
	answer, err := Client(gatewayIP).Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	got := fmt.Sprint(answer.StatusCode)
	if answer.StatusCode == http.StatusOK {
		got += " " + string(body)
	}
	if got != want {
		return fmt.Errorf("with key %q the answer is %s (%.100s), not %s", key, got, body, want)
	}
	return nil
}
