package reach

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Fixed is the cluster of a program that runs for long: the context of the kubeconfig that it began
// with, by its name. The contents of that context are read again at each use, so that a new
// login counts; another current context does not, and another cluster by the same name is refused.
type Fixed struct {
	// Cluster has the context by its name; empty: there is no context, as in a pod.
	Cluster Cluster

	mu      sync.Mutex
	begun   identity
	current string // the current context of the kubeconfig, as read last
	follows bool   // no context was named, so that the current one was taken
}

// identity is which cluster a context names.
type identity struct{ server, name, authority string }

// Fix fixes the context.
func (c Cluster) Fix() (*Fixed, error) {
	f := &Fixed{Cluster: c, follows: c.Context == ""}
	config, current, err := c.read()
	if err != nil {
		return nil, err
	}
	if f.begun, err = identityOf(config); err != nil {
		return nil, err
	}
	f.current, f.Cluster.Context = current, cmp.Or(c.Context, current)
	return f, nil
}

// Rest returns the client configuration of the current kubeconfig. The error is a *MovedError where
// the context names another cluster than at first.
func (f *Fixed) Rest() (*rest.Config, error) {
	config, _, err := f.Cluster.read()
	if err != nil {
		return nil, err
	}
	now, err := identityOf(config)
	if err != nil {
		return nil, err
	}
	if now != f.begun {
		return nil, &MovedError{f.Cluster.Context, f.begun, now}
	}
	return config, nil
}

// Forward is Forward of the cluster.
func (f *Fixed) Forward(ctx context.Context, to Target) (string, error) {
	config, err := f.Rest()
	if err != nil {
		return "", err
	}
	return f.Cluster.forward(ctx, config, to)
}

// Switched returns a note that the kubeconfig has another current context than it had, once for each; empty:
// it has not.
func (f *Fixed) Switched() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	raw, err := f.Cluster.loader().RawConfig()
	if err != nil || !f.follows || raw.CurrentContext == f.current {
		return ""
	}
	f.current = raw.CurrentContext
	if f.current == f.Cluster.Context || f.current == "" {
		return ""
	}
	return fmt.Sprintf("the current context of the kubeconfig is now %s. This connection stays with context %s (%s), with which it began; to connect to %s, start the program again.",
		f.current, f.Cluster.Context, f.begun.server, f.current)
}

// MovedError is the error of a context that names another cluster than when the program began.
type MovedError struct {
	context  string
	was, now identity
}

// Error implements error.
func (m *MovedError) Error() string {
	what, was, now := "server", m.was.server, m.now.server
	switch {
	case m.was.server != m.now.server:
	case m.was.name != m.now.name:
		what, was, now = "tls-server-name", cmp.Or(m.was.name, "none"), cmp.Or(m.now.name, "none")
	default:
		what, was, now = "certificate authority", m.was.authority, m.now.authority
	}
	return fmt.Sprintf("context %s of the kubeconfig names another cluster than when this program began, and nothing was sent there: its %s was %s, and is now %s. Start the program again if that is meant, or restore the context",
		cmp.Or(m.context, "(none)"), what, was, now)
}

// identityOf returns which cluster a config names.
func identityOf(config *rest.Config) (identity, error) {
	tls := rest.CopyConfig(config).TLSClientConfig
	loaded := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: tls.CAData, CAFile: tls.CAFile}}
	if err := rest.LoadTLSFiles(loaded); err != nil {
		return identity{}, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	authority := "that of the system"
	switch {
	case tls.Insecure:
		authority = "none (certificates are not verified)"
	case len(loaded.CAData) > 0:
		sum := sha256.Sum256(bytes.Join(bytes.Fields(loaded.CAData), []byte(" ")))
		authority = "sha256:" + hex.EncodeToString(sum[:16])
	}
	return identity{normal(config.Host), tls.ServerName, authority}, nil
}

// normal returns the address of a server in one form.
func normal(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return server
	}
	u.Scheme, u.Host, u.Path = strings.ToLower(u.Scheme), strings.ToLower(u.Host), strings.TrimRight(u.Path, "/")
	if port := map[string]string{"https": "443", "http": "80"}[u.Scheme]; u.Port() == port {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	return u.Redacted()
}

// loader reads the kubeconfig.
func (c Cluster) loader() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules(), &clientcmd.ConfigOverrides{CurrentContext: c.Context})
}

func (c Cluster) rules() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	return rules
}

// ContextName returns the name of the context of the kubeconfig that is used; empty if there is none.
func (c Cluster) ContextName() string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	config, err := rules.Load()
	if err != nil {
		return c.Context
	}
	return cmp.Or(c.Context, config.CurrentContext)
}
