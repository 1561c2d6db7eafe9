// Package manager calls the services of the controller manager that check the rights of users: through a port-forward,
// with the token of the kubeconfig or of --token-file.
package manager

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tools/switchyard/local/authority"
	"switchyard.dev/tools/switchyard/local/identity"
	"switchyard.dev/tunnels/workstation"
)

// target is the service of the manager that issues tickets (reconcilers/runners).
var target = reach.Target{Name: "controller manager", Deployment: "signadot-controller-manager", Pods: "control-plane=controller-manager", Port: 9444, Otherwise: "install the operator"}

// Manager is a connection to the controller manager. With adds the token of the user to the context of a call.
type Manager struct {
	*grpc.ClientConn
	With func(ctx context.Context) (context.Context, error)
}

// Connect connects to the controller manager until ctx ends. Errors name the purpose, what.
func Connect(ctx context.Context, s *command.Session, kube kubernetes.Interface, what string) (*Manager, error) {
	address, err := s.Cluster.Forward(ctx, target)
	if err != nil {
		return nil, exit.Unavailable.Errorf("no %s: %w", what, err)
	}
	bundle, err := authority.Published(ctx, kube, s.Cluster.Namespace)
	if err != nil {
		return nil, err
	}
	roots := trust.NewRoots("ConfigMap " + authority.Name + " of the operator")
	if err := roots.Set(bundle); err != nil {
		return nil, err
	}
	conn, err := trust.Dial(address, target.Deployment+"."+s.Cluster.Namespace+".svc", roots)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	token, err := Token(s, what)
	return &Manager{conn, func(ctx context.Context) (context.Context, error) {
		shown, err := token(ctx, false)
		return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+shown), err
	}}, err
}

// Token returns the token of the user. Errors name the purpose, what.
func Token(s *command.Session, what string) (workstation.Token, error) {
	token, err := tokenOf(s)
	return func(ctx context.Context, again bool) (string, error) {
		shown, err := token(ctx, again)
		if errors.Is(err, identity.ErrNoToken) {
			err = fmt.Errorf("the kubeconfig authenticates without a token, which the operator needs for the %s: give a file with a token of yours with --token-file, as kubectl create token prints one for a service account", what)
		}
		return shown, err
	}, err
}

// tokenOf returns the token of the user.
func tokenOf(s *command.Session) (workstation.Token, error) {
	if file := s.TokenFile(); file != "" {
		return identity.FromFile(file), nil
	}
	return identity.Narrowed(s.Cluster.Rest, func(string) {}) // The manager reviews tokens of both kinds.
}
