package meshes

import (
	"errors"
	"fmt"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/meshes/sidecarscope"
)

// TestASidecarThatHidesAVirtualServiceIsReported has a Sidecar that lists the Service of a baseline
// and not its VirtualService, which is in another namespace, and then does what the message advises.
func TestASidecarThatHidesAVirtualServiceIsReported(t *testing.T) {
	s := openShop(t, manager.Config{Istio: istioadapter.Settings{Enabled: true}})
	s.Namespaces("routes")
	s.kubectl(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: driver, namespace: routes}
spec: {hosts: [driver.shop.svc.cluster.local], http: [{name: rest, route: [{destination: {host: driver.shop.svc.cluster.local}}]}]}
`, "apply", "-f", "-")
	box := s.sandbox(keyOfCustomer, "driver")
	s.Eventually("requests reach the fork", func() error { return s.answers(keyOfCustomer, "", "fork of driver") })
	sidecar := func(hosts string) {
		s.kubectl(`{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: default, namespace: shop}, spec: {egress: [{hosts: [`+hosts+`]}]}}`, "apply", "-f", "-")
	}
	sidecar(`"./*"`)
	s.Eventually("requests with the key reach the baseline", func() error { return s.answers(keyOfCustomer, "", "driver") })
	s.Eventually("the IstioRoute reports it", func() error {
		var all crdv1.IstioRouteList
		s.List(&all)
		for i := range all.Items {
			for _, c := range all.Items[i].Status.Conditions {
				if c.Type == crdv1.ConditionReady && c.Status == "False" && c.Reason == sidecarscope.ReasonHidden {
					return nil
				}
			}
		}
		return errors.New("it does not")
	})
	sidecar(`"./*", "routes/driver.shop.svc.cluster.local"`)
	s.Eventually("requests reach the fork again", func() error { return s.answers(keyOfCustomer, "", "fork of driver") })
	s.Condition(box, crdv1.ConditionReady, "True", "Ready")
	s.Eventually("the IstioRoute is ready again", func() error {
		var all crdv1.IstioRouteList
		s.List(&all)
		for i := range all.Items {
			for _, c := range all.Items[i].Status.Conditions {
				if c.Type == crdv1.ConditionReady && c.Status != "True" {
					return fmt.Errorf("%s: %s", c.Reason, c.Message)
				}
			}
		}
		return nil
	})
}
