package meshes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/meshes/destinationrules"
	"switchyard.dev/reconcilers/meshes/istioadapter"
)

// ofDriver are the owner's objects: DestinationRules of which the general one requires TLS, which
// driver does not speak. The parameters are the traffic policies of its host and of the subset.
const ofDriver = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: all, namespace: shop}
spec: {host: "*.shop.svc.cluster.local", trafficPolicy: {tls: {mode: SIMPLE}}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: driver, namespace: shop}
spec:
  host: driver.shop.svc.cluster.local
  trafficPolicy: %s
  subsets: [{name: v1, trafficPolicy: %s}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: driver, namespace: shop}
spec: {hosts: [driver], http: [{name: rest, route: [{destination: {host: driver, subset: v1}}]}]}
`

// TestSettingsOfTheBaselinesHostApplyToTheFork has settings of the host of a baseline decide
// whether a request succeeds, and which pod answers it.
func TestSettingsOfTheBaselinesHostApplyToTheFork(t *testing.T) {
	s := openShop(t, manager.Config{Istio: istioadapter.Settings{Enabled: true}})
	const tlsOfPort = "{tls: {mode: SIMPLE}, portLevelSettings: [{port: {number: 8081}, tls: {mode: DISABLE}}]}"
	s.kubectl(fmt.Sprintf(ofDriver, tlsOfPort, "{loadBalancer: {consistentHash: {httpHeaderName: x-user}}}"), "apply", "-f", "-")
	box := s.sandbox(keyOfCustomer, "driver")
	s.Condition(box, crdv1.ConditionReady, "True", "Ready")
	s.Eventually("requests of the baseline succeed", func() error { return s.answers("", "u1", "driver") })
	s.Eventually("requests with the key succeed: TLS is off for the port", func() error { return s.answers(keyOfCustomer, "u1", "fork of driver") })

	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	for _, name := range []string{"second", "third"} {
		slice := endpoints(shopName, s.forkService(), s.stand(name, "driver", ended))
		slice.Name += "-" + name
		s.Create(slice)
	}
	seen := map[string]bool{}
	s.Eventually("all pods of the fork answer", func() error {
		for user := range 40 {
			who, err := s.asUser(keyOfCustomer, fmt.Sprintf("user-%d", user))
			if err != nil {
				return err
			}
			seen[who] = true
		}
		if len(seen) < 3 {
			return fmt.Errorf("only %v", seen)
		}
		return nil
	})
	for user := range 10 {
		of := map[string]bool{}
		for range 12 {
			who, err := s.asUser(keyOfCustomer, fmt.Sprintf("user-%d", user))
			s.Must(err)
			of[who] = true
		}
		if len(of) != 1 {
			t.Errorf("requests of user-%d with the key are answered by %v", user, of)
		}
	}

	// Settings of the subset alone count too, and follow the owner's.
	s.kubectl(fmt.Sprintf(ofDriver, "{}", "{tls: {mode: SIMPLE}}"), "apply", "-f", "-")
	s.Eventually("requests with the key fail as those of the baseline do", func() error {
		for _, key := range []string{"", keyOfCustomer} {
			if _, err := s.asUser(key, "u1"); err == nil || !strings.Contains(err.Error(), "503") {
				return fmt.Errorf("with key %q: %w", key, errors.Join(errors.New("it is not 503"), err))
			}
		}
		return nil
	})
	s.kubectl(fmt.Sprintf(ofDriver, "{tls: {mode: SIMPLE}}", "{tls: {mode: DISABLE}}"), "apply", "-f", "-")
	s.Eventually("requests with the key succeed by the policy of the subset", func() error {
		return errors.Join(s.answers("", "u1", "driver"), s.answers(keyOfCustomer, "u1", ""))
	})
	if n := len(s.derivedRules()); n != 1 {
		t.Errorf("%d derived DestinationRules", n)
	}
	s.Remove(box)
	s.Gone(box)
	s.Eventually("no derived DestinationRule is left", func() error {
		if left := s.derivedRules(); len(left) > 0 {
			return fmt.Errorf("%s is", left[0].GetName())
		}
		return nil
	})
}

// forkService returns the name of the Service of the one fork.
func (s *shop) forkService() string {
	s.Helper()
	var all corev1.ServiceList
	s.List(&all, client.InNamespace(shopName), client.HasLabels{crdv1.LabelForkedWorkload})
	if len(all.Items) != 1 {
		s.Fatalf("there are %d Services of forks", len(all.Items))
	}
	return all.Items[0].Name
}

func (s *shop) derivedRules() (out []unstructured.Unstructured) {
	s.Helper()
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(istioadapter.DestinationRules.GroupVersion().WithKind("DestinationRuleList"))
	s.List(all, client.HasLabels{destinationrules.LabelDerived})
	return all.Items
}

// answers returns an error unless driver's host answers a request of a user with this name; "" for
// any.
func (s *shop) answers(key, user, name string) error {
	who, err := s.asUser(key, user)
	if err == nil && name != "" && who != name {
		err = fmt.Errorf("%q answers", who)
	}
	return err
}

// asUser sends a request of a user to driver's host, and returns the name of what answers.
func (s *shop) asUser(key, user string) (string, error) {
	q, err := http.NewRequestWithContext(context.Background(), http.MethodGet, fmt.Sprintf("http://%s:%d/", serviceHost("driver"), Port), nil)
	if err != nil {
		return "", err
	}
	q.Header.Set("X-User", user)
	if key != "" {
		q.Header.Set("Baggage", "sd-routing-key="+key)
	}
	answer, err := Client(net.IPv4(127, 0, 0, 1)).Do(q)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, body)
	}
	return string(body), err
}
