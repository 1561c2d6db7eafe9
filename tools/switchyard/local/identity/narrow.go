package identity

import (
	"context"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/tunnels/workstation"
)

// Narrowed returns tokens with the audience of the tunnel proxies, where the token that a kubeconfig
// shows is a service account's that may request tokens for itself: the API server does not accept them,
// so a proxy that was taken over can do nothing else with them. Other users show the token itself; why
// is passed to note once.
func Narrowed(access Access, note func(string)) (workstation.Token, error) {
	shown, err := Shown(access)
	if err != nil {
		return nil, err
	}
	return (&narrowed{access: access, shown: shown, say: note}).token, nil
}

// narrowed requests tokens for the user of a kubeconfig.
type narrowed struct {
	access Access
	shown  workstation.Token
	say    func(string)

	mu      sync.Mutex
	subject string     // of the token that the kubeconfig showed last
	of      *requested // nil: not yet, or the token is shown as it is
	full    bool
}

func (n *narrowed) token(ctx context.Context, again bool) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	own, err := n.shown(ctx, again)
	if err != nil {
		return own, err
	}
	claims, _ := tokens.Claims(own)
	if claims.Subject != n.subject { // Another user has logged in.
		n.subject, n.of, n.full = claims.Subject, nil, false
	}
	if n.full {
		return own, nil
	}
	if n.of == nil {
		if slices.Contains(claims.Audience, Audience) {
			return own, nil
		}
		account, is := strings.CutPrefix(claims.Subject, "system:serviceaccount:")
		namespace, name, two := strings.Cut(account, ":")
		if !is || !two {
			return n.whole(own, "no token for the tunnel proxies alone can be requested for this user, which is no service account")
		}
		n.of = &requested{access: n.access, namespace: namespace, name: name}
	}
	text, err := n.of.token(ctx, again)
	if apierrors.IsForbidden(err) {
		return n.whole(own, "service account "+n.of.namespace+"/"+n.of.name+" may not create serviceaccounts/token for itself")
	}
	return text, err
}

// whole shows the token itself from now on.
func (n *narrowed) whole(own, why string) (string, error) {
	n.full = true
	n.say("The token for the API server is shown to tunnel-proxy and tunnel-api: " + why + ". A service account can be used instead: --as-service-account NAMESPACE/NAME.")
	return own, nil
}
