package runners_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/reconcilers/runners"
	"switchyard.dev/sidecars/traffic/ticket"
	testrunners "switchyard.dev/tests/runners"
	"switchyard.dev/tests/world"
)

// A ticket for a capture takes the right to read logs in its namespace, and traffic-manager can check it with the
// published keys.
func TestTicketsForCaptures(t *testing.T) {
	s := &scene{World: world.Shared(t)}
	s.ns = s.NewNamespace("shop")
	s.Accounts(s.ns, "ada", "eve", "agent")
	operator := s.NewNamespace("operator")
	s.Service = testrunners.Serve(s.World, operator, "system:serviceaccount:"+s.ns+":agent")
	published := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: runners.TicketKeysName}}
	s.Must(s.Keys.Ensure(t.Context())) // There is no traffic-manager.
	s.Create(published)
	for range 2 {
		s.Must(s.Keys.Ensure(t.Context()))
	}
	s.Get(published)
	keys, err := ticket.ParseKeys([]byte(published.Data[runners.TicketKeysFile]))
	s.Must(err)

	logs := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods/log"}}
	s.Grant("system:serviceaccount:"+s.ns+":ada", s.ns, logs)
	s.Grant("system:serviceaccount:"+s.ns+":eve", s.NewNamespace("elsewhere"), logs)
	tickets := trafficv1.NewTicketsClient(s.Dial())
	ask := func(user, namespace, capture string) (*trafficv1.TicketAnswer, error) {
		return tickets.Ticket(shows(t.Context(), user), &trafficv1.TicketRequest{CaptureNamespace: namespace, Capture: capture})
	}
	ada, eve := s.Token(s.ns, "ada", "", nil), s.Token(s.ns, "eve", "", nil)
	got, err := ask(ada, s.ns, "pr-12-x")
	s.Must(err)
	c, err := keys.Check(got.GetTicket(), time.Now())
	if err != nil || c.Namespace != s.ns || c.Capture != "pr-12-x" || c.User != "system:serviceaccount:"+s.ns+":ada" {
		t.Errorf("%+v, %v", c, err)
	}
	if left := time.Until(got.GetExpires().AsTime()); left <= 0 || left > ticket.Lifetime || string(got.GetAuthority()) != s.CA || got.GetServerName() != testrunners.TrafficManager {
		t.Errorf("%+v", got)
	}
	if _, err := ask(s.Token(s.ns, "agent", "", nil), s.ns, "pr-12-x"); err != nil {
		t.Errorf("the agent, which checks its users itself: %v", err)
	}
	for what, tt := range map[string]struct {
		user, namespace, capture string
		code                     codes.Code
		says                     string
	}{
		"a user without the right": {eve, s.ns, "pr-12-x", codes.PermissionDenied, "get pods/log"},
		"the right elsewhere":      {ada, "default", "pr-12-x", codes.PermissionDenied, "get pods/log"},
		"all namespaces":           {ada, "", "pr-12-x", codes.InvalidArgument, "namespace"},
		"all captures":             {ada, s.ns, "", codes.InvalidArgument, "name the TrafficCapture"},
		"a name that is too long":  {ada, s.ns, strings.Repeat("a", 254), codes.InvalidArgument, "name the TrafficCapture"},
		"a token of no user":       {"junk", s.ns, "pr-12-x", codes.Unauthenticated, ""},
	} {
		_, err := ask(tt.user, tt.namespace, tt.capture)
		s.refuses(what, err, tt.code, tt.says)
	}
}
