// Package identity provides the token that authenticates the user of a workstation to the cluster:
// the one that the kubeconfig sends to the API server, from any source, one in a file, or one
// created for a service account; and the labels of the workstation (Labels).
package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tunnels/workstation"
)

// FromFile returns the token that is in a file, as it is each time.
func FromFile(path string) workstation.Token {
	return func(context.Context, bool) (string, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", workstation.Final(fmt.Errorf("read the token: %w", err))
		}
		return string(bytes.TrimSpace(text)), nil
	}
}

// Access returns the client configuration of the current kubeconfig.
type Access func() (*rest.Config, error)

// Of returns tokens that are made for a service account.
func Of(access Access, namespace, name string) workstation.Token {
	return (&requested{access: access, namespace: namespace, name: name}).token
}

// Shown returns the token that a kubeconfig sends to the API server, from any source, without a
// request to that server. The kubeconfig is read each time, so that a new login takes effect.
func Shown(access Access) (workstation.Token, error) {
	seen := &mirror{}
	asks := func() (http.RoundTripper, error) {
		config, err := access()
		if err != nil {
			return nil, err
		}
		if who := config.Impersonate.UserName; who != "" {
			return nil, exit.Unavailable.Errorf("the kubeconfig impersonates %s, which a token cannot express: use a kubeconfig without impersonation, or authenticate as a service account with --as-service-account NAMESPACE/NAME", who)
		}
		through, err := rest.HTTPWrappersForConfig(config, seen)
		if err != nil {
			return nil, exit.Unavailable.Errorf("the kubeconfig cannot be used: %w", err)
		}
		return through, nil
	}
	if _, err := asks(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, again bool) (string, error) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		through, err := asks()
		if err != nil {
			return "", workstation.Final(err)
		}
		if again { // A plugin makes a new one when the server refuses the last.
			seen.status = http.StatusUnauthorized
			if _, err := seen.ask(ctx, through); err != nil {
				return "", err
			}
		}
		seen.status = http.StatusOK
		return seen.ask(ctx, through)
	}, nil
}

// mirror is a fake API server that captures the credentials of requests.
type mirror struct {
	mu     sync.Mutex
	status int
	header string
}

// RoundTrip implements http.RoundTripper.
func (m *mirror) RoundTrip(r *http.Request) (*http.Response, error) {
	m.header = r.Header.Get("Authorization")
	return &http.Response{StatusCode: m.status, Body: io.NopCloser(strings.NewReader("")), Header: http.Header{}, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
}

// ErrNoToken is the error for a kubeconfig with other credentials than a token.
var ErrNoToken = errors.New("the kubeconfig authenticates without a token (by a client certificate, or not at all), which a tunnel proxy cannot check: log in with a token, or authenticate as a service account, with --as-service-account NAMESPACE/NAME (it takes the right to create serviceaccounts/token)")

// ask has a request shown to the mirror.
func (m *mirror) ask(ctx context.Context, asks http.RoundTripper) (string, error) {
	m.header = ""
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://nobody.invalid/", nil)
	if err != nil {
		return "", err
	}
	answer, err := asks.RoundTrip(r)
	if err != nil {
		return "", workstation.Final(fmt.Errorf("the kubeconfig provides no token: log in again (%w)", err))
	}
	_ = answer.Body.Close()
	token, ok := strings.CutPrefix(m.header, "Bearer ")
	if !ok || token == "" {
		return "", workstation.Final(ErrNoToken)
	}
	return token, nil
}

// requested has tokens of a service account made.
type requested struct {
	access          Access
	namespace, name string

	mu    sync.Mutex
	last  string
	until time.Time
}

// Audience is that of tokens for tunnel proxies.
const Audience = "tunnel-proxy"

// lifetime is that of such a token.
const lifetime = time.Hour

// token returns one that is good for a while.
func (r *requested) token(ctx context.Context, again bool) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !again && r.last != "" && time.Now().Before(r.until) {
		return r.last, nil
	}
	config, err := r.access()
	if err != nil {
		return "", workstation.Final(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", workstation.Final(fmt.Errorf("the kubeconfig cannot be used: %w", err))
	}
	seconds := int64(lifetime / time.Second)
	made, err := reach.Again(func() (*authenticationv1.TokenRequest, error) {
		return client.CoreV1().ServiceAccounts(r.namespace).CreateToken(ctx, r.name,
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{Audience}, ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	})
	switch {
	case apierrors.IsForbidden(err):
		return "", workstation.Final(fmt.Errorf("you have no right to create tokens for service account %s/%s: ask for the right to create serviceaccounts/token in namespace %s: %w", r.namespace, r.name, r.namespace, err))
	case apierrors.IsNotFound(err):
		return "", workstation.Final(fmt.Errorf("there is no service account %s/%s", r.namespace, r.name))
	case apierrors.IsUnauthorized(err):
		return "", workstation.Final(reach.Explained(fmt.Errorf("request a token for service account %s/%s: %w", r.namespace, r.name, err)))
	case err != nil:
		return "", fmt.Errorf("request a token for service account %s/%s: %w", r.namespace, r.name, err)
	}
	r.last = made.Status.Token
	r.until = time.Now().Add(time.Until(made.Status.ExpirationTimestamp.Time) * 4 / 5)
	return r.last, nil
}

// Labels returns the labels of this workstation, for display: os, host, user and version.
func Labels(getenv func(string) string) map[string]string {
	out := map[string]string{"os": runtime.GOOS + "/" + runtime.GOARCH}
	if host, err := os.Hostname(); err == nil {
		out["host"] = cut(host)
	}
	name := getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if name != "" {
		out["user"] = cut(name)
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		out["version"] = cut(info.Main.Version)
	}
	return out
}

// cut limits the length of a label, without splitting a character.
func cut(text string) string {
	const most = 256
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

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
