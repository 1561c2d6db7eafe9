package webhook

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/authority"
)

// picky is a client of an API server that takes no writing of one Secret.
type picky struct {
	client.Client
	refuses string
}

func (p *picky) Update(ctx context.Context, o client.Object, options ...client.UpdateOption) error {
	if o.GetName() == p.refuses {
		return errors.New("no")
	}
	return p.Client.Update(ctx, o, options...)
}

// A program with a Secret that cannot be written waits for its certificate. The webhook,
// without which pods start without sidecars, and the other programs do not wait with it.
func TestOneSecretThatCannotBeWrittenKeepsNobodyElseWaiting(t *testing.T) {
	k := newCluster(t)
	names := []string{"routeserver-tls", "eventbus-tls"}
	config := authority.Config{Client: &picky{k.Client, names[0]}, Policy: authority.Policy{Hosts: []string{"127.0.0.1"}}}
	for _, name := range names {
		config.Programs = append(config.Programs, authority.Program{Secret: name, Hosts: []string{name}})
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "signadot", Name: name}}
		k.Create(secret)
	}
	keeper, err := authority.NewKeeper(config)
	if err != nil {
		t.Fatal(err)
	}
	k.Eventually("the webhook is ready, and the other program has its certificate", func() error {
		if keeper.Ensure(t.Context()) == nil {
			t.Error("nothing is said of the Secret that cannot be written")
		}
		var other corev1.Secret
		err := k.Client.Get(t.Context(), client.ObjectKey{Namespace: "signadot", Name: names[1]}, &other)
		if err == nil && len(other.Data[trust.CertFile]) == 0 {
			err = fmt.Errorf("Secret %s has no certificate", names[1])
		}
		return errors.Join(err, keeper.Ready())
	})
}

// The certificates for people, and nothing else, are in a ConfigMap, which is written again
// when it differs.
func TestPeopleFindWhomToTrust(t *testing.T) {
	k := newCluster(t)
	const name = "signadot-authority"
	config := authority.Config{Client: k.Client, Authority: name, Roots: authority.NewRoots(), Policy: authority.Policy{Hosts: []string{"127.0.0.1"}}}
	keeper, err := authority.NewKeeper(config)
	k.Must(err)
	k.Must(keeper.Ensure(t.Context())) // there is none yet
	told := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "signadot", Name: name}, Data: map[string]string{"else": "stays"}}
	k.Create(told)
	for range 2 {
		k.Must(keeper.Ensure(t.Context()))
		k.Must(k.Client.Get(t.Context(), client.ObjectKeyFromObject(told), told))
		bundle, _ := config.Roots.Bundle()
		if have := told.Data[trust.BundleFile]; have == "" || have != string(bundle) || told.Data["else"] != "stays" || len(told.Data) != 2 {
			t.Fatalf("people are told %q, and programs %q", told.Data, bundle)
		}
		told.Data[trust.BundleFile] = "somebody else's"
		k.Must(k.Client.Update(t.Context(), told))
	}
}
