package local

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"k8s.io/client-go/kubernetes"

	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/plane"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tools/switchyard/local/authority"
	"switchyard.dev/tools/switchyard/local/controlplane"
	"switchyard.dev/tunnels/workstation"
)

// tunnelProxy is the port of tunnel proxies for workstations.
var tunnelProxy = reach.Target{Name: "tunnel proxy", Deployment: "tunnel-proxy", Pods: "app=tunnel-proxy", Port: 7777,
	Otherwise: "have the operator installed with its tunnels"}

// proxyVariable is the environment variable that the published client reads for the proxy of a control plane.
const proxyVariable = "SIGNADOT_PROXY_URL"

// controlPlane returns the connection through the proxy of a control plane, with the headers that
// the published client sends to it. The operator authenticates users on it as on every
// connection: by a credential of the control plane, or by their own token.
func (p *place) controlPlane() (workstation.Through, error) {
	at, err := url.Parse(p.proxyURL())
	if err != nil {
		if why := (*url.Error)(nil); errors.As(err, &why) {
			err = why.Err // without the URL, which may have a password
		}
		return workstation.Through{}, exit.Usage.Errorf("--proxy-url is no URL: %w", err)
	}
	road := workstation.Through{Proxy: at, Target: p.host(proxyService) + ":" + fmt.Sprint(tunnelProxy.Port), Header: http.Header{}}
	if err := road.Validate(); err != nil {
		return road, exit.Usage.Errorf("--proxy-url: %w", err)
	}
	if p.cluster != "" {
		road.Header.Set("Signadot-Cluster", p.cluster)
	}
	key, err := plane.Key(p.s.Plane.KeyFile, p.s.Getenv(plane.KeyVariable))
	if err != nil {
		return road, err
	}
	if key != "" {
		road.Header.Set(plane.KeyHeader, key)
	}
	roots, err := plane.Roots(p.s.Plane.Authority)
	if err != nil {
		return road, err
	}
	road.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return road, nil
}

// granted sets p.grants if the user is one of the control plane: there is an API key, and the flags name
// no user of the cluster.
func (p *place) granted() error {
	road, err := p.controlPlane()
	if err == nil && road.Header.Get(plane.KeyHeader) != "" && p.grants == nil && !p.ofCluster && p.account == "" && p.s.TokenFile() == "" {
		p.grants = controlplane.New(road.Proxy, road.Header, road.TLS)
	}
	return err
}

// forwarded is a road through the API server of a cluster: a port-forward to a proxy that is
// ready, a new one for each connection.
type forwarded struct{ *place }

// Dial implements workstation.Road.
func (f forwarded) Dial(ctx context.Context) (net.Conn, error) {
	if _, err := f.access(); err != nil { // It fixes the context, and states another current one.
		return nil, workstation.Final(err)
	}
	open, stop := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, stop)
	address, err := f.fixed.Forward(open, tunnelProxy)
	if err != nil {
		stop()
		if stranger := (*reach.StrangerError)(nil); errors.As(err, &stranger) {
			err = workstation.Final(err)
		}
		return nil, err
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil && !unhook() {
		_ = c.Close()
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("forward a port to a tunnel proxy: %w", err)
	}
	return &forwardedConn{c, stop}, nil
}

// forwardedConn ends its port-forward with itself.
type forwardedConn struct {
	net.Conn
	stop context.CancelFunc
}

// Close implements net.Conn.
func (c *forwardedConn) Close() error {
	defer c.stop()
	return c.Conn.Close()
}

// refresh reads the trusted authorities.
func (p *place) refresh(ctx context.Context) error {
	if p.ca != "" {
		bundle, err := authority.Read(p.ca)
		if err != nil {
			return workstation.Final(fmt.Errorf("the file of --ca cannot be read: %w. Name a file with the operator's authority, or omit --ca to read it from the cluster", err))
		}
		return workstation.Final(p.roots.Set(bundle))
	}
	if p.grants != nil {
		if err := p.grants.Trust(ctx, p.roots); !errors.Is(err, controlplane.ErrNone) {
			return err
		}
	}
	config, err := p.access()
	if err != nil && p.grants != nil {
		err = fmt.Errorf("%w, and %w", controlplane.ErrNone, err)
	}
	if err != nil {
		return workstation.Final(fmt.Errorf("the certificate authorities are read from the cluster, or from the file of --ca: %w", err))
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return workstation.Final(fmt.Errorf("the kubeconfig cannot be used: %w", err))
	}
	bundle, err := authority.Published(ctx, client, p.s.Cluster.Namespace)
	if err != nil {
		return err
	}
	return workstation.Final(p.roots.Set(bundle))
}
