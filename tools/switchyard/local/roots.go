package local

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"switchyard.dev/tools/switchyard/local/authority"
	"switchyard.dev/tools/switchyard/local/controlplane"
	"switchyard.dev/tunnels/workstation"
)

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
