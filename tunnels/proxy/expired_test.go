package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/identity"
	"switchyard.dev/tunnels/inbound"
)

// directory reviews every token as its user's, as a remote authenticator would. With away set it
// is unavailable.
type directory struct {
	authentication.TokenReviewInterface
	user authenticationv1.UserInfo
	away bool
}

// Create implements authentication.TokenReviewInterface.
func (d *directory) Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	if d.away {
		return nil, errors.New("the API server is away")
	}
	return &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: true, User: d.user}}, nil
}

// A user who has left a group has only the rights of the other groups, also in open sessions.
func TestASessionIsItsUsersAsHeIsNow(t *testing.T) {
	now := time.Now()
	d := &directory{user: authenticationv1.UserInfo{Username: "ada", Groups: []string{"shop", "admins"}}}
	a, err := access.New(access.Config{Tokens: d, Rights: struct {
		authorization.SubjectAccessReviewInterface
	}{}, Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	go func() {
		_, _, _ = carrier.Connect(t.Context(), there, &tunnelv1.Hello{Version: carrier.Version, Session: "s", Epoch: 1}) // it is closed in the end
	}()
	w := &workstation{main: &Main{cfg: Config{Access: a}}, token: "a token", from: "192.0.2.1:1", owner: inbound.Owner{User: "ada"}}
	w.session, _, err = carrier.Serve(t.Context(), here, func(context.Context, *tunnelv1.Hello) (*tunnelv1.Welcome, *tunnelv1.Refused) {
		w.user, _ = a.Identify(t.Context(), w.token, w.from)
		return &tunnelv1.Welcome{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.session.Close(nil)
	d.user.Groups = []string{"shop"}
	now = now.Add(2 * time.Minute) // the cached review of the token expired
	if w.expired(t.Context()) || !slices.Equal(w.who().Groups, []string{"shop"}) {
		t.Errorf("the user is %+v, and the session over: %v", w.who(), w.session.Err())
	}
	d.away, now = true, now.Add(2*time.Minute)
	if w.expired(t.Context()) || w.session.Err() != nil {
		t.Errorf("while the API server is unavailable, the session ended: %v", w.session.Err())
	}
	d.away, d.user.Username = false, "bob"
	now = now.Add(2 * time.Minute)
	if !w.expired(t.Context()) || w.session.Err() == nil || w.who().Name != "ada" {
		t.Errorf("of another user's token: the user is %+v, and the session over: %v", w.who(), w.session.Err())
	}
}

// nobody answers no questions about rights.
type nobody struct {
	authorization.SubjectAccessReviewInterface
}

// Create implements authorization.SubjectAccessReviewInterface.
func (nobody) Create(context.Context, *authorizationv1.SubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	return nil, errors.New("the API server is away")
}

// While the API server is unavailable, a held tunnel continues, and no other is opened.
func TestATunnelContinuesWhileTheAPIServerIsUnavailable(t *testing.T) {
	a, err := access.New(access.Config{Tokens: &directory{}, Rights: nobody{}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(audit.Config{Dir: t.TempDir(), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	counts, err := newCounts(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	table, err := inbound.New(inbound.Config{Audit: log, Counts: counts, Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	cart := cluster.Workload{Namespace: "shop", Name: "cart", UID: "1", Sandbox: "mine", Ports: []cluster.Port{{Baseline: 80, Local: "localhost:80"}}}
	key := inbound.Key{Namespace: "shop", Name: "cart"}
	w := &workstation{main: &Main{cfg: Config{Access: a}}, user: identity.User{Name: "ada"}}
	w.holder = table.Join(inbound.Owner{User: "ada"}, w)
	may := func(held bool) *tunnelv1.Refused {
		return (&review{w: w, held: map[inbound.Key]bool{key: held}}).may(t.Context(), key, cart, true)
	}
	if refused := may(false); refused.GetReason() != tunnelv1.Reason_REASON_UNAVAILABLE {
		t.Errorf("one that is not held: %v", refused)
	}
	if refused := may(true); refused.GetReason() != tunnelv1.Reason_REASON_UNAVAILABLE {
		t.Errorf("one that another session has taken in between: %v", refused)
	}
	if refused := w.holder.Hold(cart, []int32{80}); refused != nil {
		t.Fatal(refused)
	}
	if refused := may(true); refused != nil {
		t.Errorf("one that is held: %v", refused)
	}
	if refused := may(false); refused.GetReason() != tunnelv1.Reason_REASON_UNAVAILABLE {
		t.Errorf("one that was never decided: %v", refused)
	}
}
