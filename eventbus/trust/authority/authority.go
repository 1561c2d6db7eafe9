package authority

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
)

// readAuthority returns the ConfigMap with the bundle for people; nil if there is none. The
// chart creates it, so without one it is not needed.
func (k *Keeper) readAuthority(ctx context.Context) (*corev1.ConfigMap, error) {
	if k.cfg.Authority == "" {
		return nil, nil
	}
	found, key := &corev1.ConfigMap{}, client.ObjectKey{Namespace: k.cfg.Namespace, Name: k.cfg.Authority}
	err := k.cfg.Client.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read ConfigMap %s, which publishes the certificate authorities: %w", key, err)
	}
	return found, nil
}

// tellPeople writes the bundle into that ConfigMap if it differs, and reports whether it wrote,
// or was refused because the ConfigMap has changed since.
func (k *Keeper) tellPeople(ctx context.Context, s State, in *corev1.ConfigMap) (wrote bool, err error) {
	want := string(encode(bundle(s)...))
	if in == nil || in.Data[trust.BundleFile] == want {
		return false, nil
	}
	if in.Data = maps.Clone(in.Data); in.Data == nil {
		in.Data = map[string]string{}
	}
	in.Data[trust.BundleFile] = want
	if err := k.cfg.Client.Update(ctx, in); apierrors.IsConflict(err) {
		return true, nil
	} else if err != nil {
		return false, fmt.Errorf("cannot write ConfigMap %s, which publishes the certificate authorities: %w", in.Name, err)
	}
	k.cfg.Log.Info("the certificate authorities are published", "configMap", in.Name)
	return true, nil
}
