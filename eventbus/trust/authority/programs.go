package authority

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/trust"
)

// Program is a program of the operator that serves with a leaf of its own, from a Secret that
// is mounted into its pods: tls.crt and tls.key, and the bundle in ca.crt, for its own
// connections.
type Program struct {
	// Secret is the name of the Secret, in the Keeper's namespace.
	Secret string
	// Hosts are the names and addresses that the leaf is for.
	Hosts []string
}

// equipped is a program with its Secret as it was read.
type equipped struct {
	Program
	secret *corev1.Secret
}

type programs []equipped

// readPrograms returns the programs that are installed, with their Secrets. The chart makes a
// Secret with each program, so one without is not installed. The error names those that cannot
// be read.
func (k *Keeper) readPrograms(ctx context.Context) (out programs, unread error) {
	for _, p := range k.cfg.Programs {
		secret, key := &corev1.Secret{}, client.ObjectKey{Namespace: k.cfg.Namespace, Name: p.Secret}
		err := k.cfg.Client.Get(ctx, key, secret)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			unread = errors.Join(unread, fmt.Errorf("cannot read Secret %s, which contains a certificate of the operator: %w", key, err))
			continue
		}
		out = append(out, equipped{p, secret})
	}
	return out, unread
}

// bundles returns the bundle of each program, which its clients trust too.
func (p programs) bundles() [][]byte {
	return lists.Map(p, func(one equipped) []byte { return one.secret.Data[trust.BundleFile] })
}

// equip writes leaf and bundle into each Secret where one of them is not as it is to be, and
// reports whether it wrote, or was refused because a Secret has changed since: another look
// is needed then. The error is of those that cannot be written.
func (k *Keeper) equip(ctx context.Context, now time.Time, s State, all programs) (wrote bool, err error) {
	for _, one := range all {
		w, wrong := k.equipOne(ctx, now, s, one)
		wrote = wrote || w || apierrors.IsConflict(wrong)
		if wrong != nil && !apierrors.IsConflict(wrong) {
			err = errors.Join(err, fmt.Errorf("cannot write Secret %s, without which its program serves no clients: %w", one.Secret, wrong))
		}
	}
	return wrote, err
}

func (k *Keeper) equipOne(ctx context.Context, now time.Time, s State, one equipped) (wrote bool, err error) {
	want, data := encode(bundle(s)...), one.secret.Data
	leaf := readPair(data[trust.CertFile], data[trust.KeyFile])
	stale := programLeafNeeded(now, s, leaf, one.Hosts)
	if !stale && bytes.Equal(data[trust.BundleFile], want) {
		return false, nil
	}
	if stale {
		if leaf, err = newLeaf(now, s.Current, k.cfg.Policy.Leaf, one.Hosts); err != nil {
			return false, err
		}
	}
	data = lists.Merged(data)
	data[trust.CertFile], data[trust.KeyFile], data[trust.BundleFile] = leaf.CertPEM, leaf.KeyPEM, want
	one.secret.Data = data
	if err := k.cfg.Client.Update(ctx, one.secret); err != nil {
		return false, err
	}
	k.cfg.Log.Info("a program's certificate changed", "secret", one.Secret, "leaf", stale, "authority", s.Current.Cert.Subject.CommonName)
	return true, nil
}

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
	in.Data = lists.Merged(in.Data)
	in.Data[trust.BundleFile] = want
	if err := k.cfg.Client.Update(ctx, in); apierrors.IsConflict(err) {
		return true, nil
	} else if err != nil {
		return false, fmt.Errorf("cannot write ConfigMap %s, which publishes the certificate authorities: %w", in.Name, err)
	}
	k.cfg.Log.Info("the certificate authorities are published", "configMap", in.Name)
	return true, nil
}
