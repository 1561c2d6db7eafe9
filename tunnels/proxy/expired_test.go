package proxy

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/inbound"
)

// directory says whose every token is, as authenticators do that are no files: otherwise tomorrow.
type directory struct {
	authentication.TokenReviewInterface
	user authenticationv1.UserInfo
}

// Create implements authentication.TokenReviewInterface.
func (d *directory) Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	return &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: true, User: d.user}}, nil
}

// A user who has left a group has the rights of the others alone, in the sessions that he has too.
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
	now = now.Add(2 * time.Minute) // what was known of the token counts no more
	if w.expired(t.Context()) || !slices.Equal(w.who().Groups, []string{"shop"}) {
		t.Errorf("the user is %+v, and the session over: %v", w.who(), w.session.Err())
	}
	d.user.Username = "bob"
	now = now.Add(2 * time.Minute)
	if !w.expired(t.Context()) || w.session.Err() == nil || w.who().Name != "ada" {
		t.Errorf("of another user's token: the user is %+v, and the session over: %v", w.who(), w.session.Err())
	}
}
