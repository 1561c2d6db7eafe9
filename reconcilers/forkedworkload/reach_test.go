package forkedworkload

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/member"
)

func TestAForkWaitsForItsServicesToAnswer(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	fork := func(available int32, since time.Duration) *appsv1.Deployment {
		d := &appsv1.Deployment{}
		d.Status.AvailableReplicas = available
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-since)),
		}}
		return d
	}
	service := func(ip string, protocol corev1.Protocol) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "sb-cart"}}
		s.Spec.ClusterIP = ip
		s.Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: protocol}}
		return s
	}
	refused := errors.New("connection refused")
	for name, c := range map[string]struct {
		was     string // the fork's availability as the status has it
		fork    *appsv1.Deployment
		service *corev1.Service
		answer  error
		silent  string
	}{
		"its Service refuses connections":                    {"False", fork(1, time.Second), service("10.0.0.9", corev1.ProtocolTCP), refused, "sb-cart"},
		"its Service answers":                                {"False", fork(1, time.Second), service("10.0.0.9", corev1.ProtocolTCP), nil, ""},
		"its Service has been silent for too long":           {"False", fork(1, time.Minute), service("10.0.0.9", corev1.ProtocolTCP), refused, ""},
		"it is available already":                            {"True", fork(1, time.Second), service("10.0.0.9", corev1.ProtocolTCP), refused, ""},
		"no pod of it is ready":                              {"False", fork(0, time.Second), service("10.0.0.9", corev1.ProtocolTCP), refused, ""},
		"its Service has no address yet":                     {"False", fork(1, time.Second), service("", corev1.ProtocolTCP), refused, ""},
		"its Service is for datagrams, which nobody answers": {"False", fork(1, time.Second), service("10.0.0.9", corev1.ProtocolUDP), refused, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &crdv1.ForkedWorkload{}
			w.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionForkAvailable, Status: c.was}}
			dialled := ""
			r := &Reconciler{config: Config{
				Needs: member.Needs{Access: apply.Access{Now: func() time.Time { return now }}},
				Dial:  func(_ context.Context, address string) error { dialled = address; return c.answer },
			}}
			got := r.silent(t.Context(), w, Made{Fork: c.fork, Made: member.Made{Services: map[string]*corev1.Service{"cart": c.service}}})
			if got != c.silent {
				t.Errorf("silent: %q, want %q (dialled %q)", got, c.silent, dialled)
			}
			if dialled != "" && dialled != "10.0.0.9:80" {
				t.Errorf("dialled %s", dialled)
			}
		})
	}
}

// A Service that is created while the fork's pods are ready, such as for a Service that selects the
// baseline from now on, answers some time after that.
func TestAForkWaitsForAServiceCreatedAfterItsPods(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	fork := &appsv1.Deployment{}
	fork.Status.AvailableReplicas = 1
	fork.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour),
	}}
	for name, c := range map[string]struct {
		available, created metav1.Time
		was                string
		silent             string
	}{
		"it was created a moment ago":                  {ago(time.Hour), ago(time.Second), "True", "sb-cart"},
		"created in the second of the last transition": {ago(time.Second), ago(time.Second), "True", "sb-cart"},
		"it was silent before":                         {ago(time.Second), ago(2 * time.Second), "False", "sb-cart"},
		"it answered since":                            {ago(time.Second), ago(2 * time.Second), "True", ""},
		"it is silent for too long":                    {ago(time.Hour), ago(time.Minute), "True", ""},
		"it is silent for too long and was before":     {ago(time.Second), ago(time.Minute), "False", ""},
		"the API server's clock is far ahead":          {ago(time.Hour), ago(-time.Hour), "True", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &crdv1.ForkedWorkload{}
			w.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionForkAvailable, Status: c.was, LastTransitionTime: c.available}}
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "sb-cart", CreationTimestamp: c.created}, Spec: corev1.ServiceSpec{
				ClusterIP: "10.0.0.9", Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
			}}
			r := &Reconciler{config: Config{
				Needs: member.Needs{Access: apply.Access{Now: func() time.Time { return now }}},
				Dial:  func(context.Context, string) error { return errors.New("connection refused") },
			}}
			if got := r.silent(t.Context(), w, Made{Fork: fork, Made: member.Made{Services: map[string]*corev1.Service{"cart": service}}}); got != c.silent {
				t.Errorf("silent: %q, want %q", got, c.silent)
			}
		})
	}
}

func TestOfSeveralSilentServicesItIsAlwaysTheSameOneThatIsNamed(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	d := &appsv1.Deployment{}
	d.Status.AvailableReplicas = 1
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
	made := Made{Fork: d, Made: member.Made{Services: map[string]*corev1.Service{}}}
	for _, name := range []string{"d", "c", "b", "a"} {
		made.Services[name] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "sb-" + name}, Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.9", Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		}}
	}
	r := &Reconciler{config: Config{
		Needs: member.Needs{Access: apply.Access{Now: func() time.Time { return now }}},
		Dial:  func(context.Context, string) error { return errors.New("connection refused") },
	}}
	for range 20 { // A status that changes each time is written each time.
		if got := r.silent(t.Context(), &crdv1.ForkedWorkload{}, made); got != "sb-a" {
			t.Fatalf("silent: %q", got)
		}
	}
}
