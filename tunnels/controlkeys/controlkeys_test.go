package controlkeys_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	client "k8s.io/client-go/kubernetes/typed/core/v1"

	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/credential/signed"
	"switchyard.dev/tunnels/identity"
)

func TestMain(m *testing.M) { world.Main(m) }

var (
	prod = signed.Cluster{Organisation: "acme", Name: "prod"}
	jo   = identity.User{Name: "switchyard:controlplane:acme:jo", Groups: []string{"switchyard:controlplane:acme"}}
)

// away is an API that can be made unavailable, and counts its requests.
type away struct {
	client.ConfigMapInterface
	is    bool
	asked int
}

// Get implements client.ConfigMapInterface.
func (a *away) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.ConfigMap, error) {
	if a.asked++; a.is {
		return nil, errors.New("the API server is away")
	}
	return a.ConfigMapInterface.Get(ctx, name, o)
}

// site is a Reader with the right to one ConfigMap of a real API server.
type site struct {
	*world.World
	*controlkeys.Reader
	namespace string
	api       *away
	now       time.Time
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{World: world.Shared(t), now: time.Now()}
	s.namespace = s.NewNamespace("keys")
	user := "reader-" + s.namespace
	s.Grant(user, s.namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{controlkeys.ConfigMap}, Verbs: []string{"get"}})
	s.api = &away{ConfigMapInterface: kubernetes.NewForConfigOrDie(s.As(user)).CoreV1().ConfigMaps(s.namespace)}
	s.Reader = controlkeys.New(s.api, func() time.Time { return s.now })
	return s
}

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))
}

// store writes the ConfigMap with the public halves of keys.
func (s *site) store(keys ...ed25519.PrivateKey) {
	s.Helper()
	var public []ed25519.PublicKey
	for _, k := range keys {
		public = append(public, k.Public().(ed25519.PublicKey))
	}
	set, err := signed.KeysOf(public...)
	s.Must(err)
	s.write(controlkeys.Data(prod, set))
}

func (s *site) write(data map[string]string) {
	s.Helper()
	maps := s.Kube.CoreV1().ConfigMaps(s.namespace)
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: controlkeys.ConfigMap}, Data: data}
	_, err := maps.Update(s.Context(), o, metav1.UpdateOptions{})
	if err != nil {
		_, err = maps.Create(s.Context(), o, metav1.CreateOptions{})
	}
	s.Must(err)
}

// is checks a new credential of a key; want is a part of the expected error; empty: none.
func (s *site) is(what string, k ed25519.PrivateKey, want string) {
	s.Helper()
	credential, _, err := signed.Issue(k, prod, jo, s.now)
	s.Must(err)
	user, err := s.Check(s.Context(), credential)
	switch {
	case want == "" && (err != nil || user.Name != jo.Name):
		s.Errorf("%s: %+v, %v", what, user, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want) || user.Name != ""):
		s.Errorf("%s: %+v, %v", what, user, err)
	}
}

func TestKeysAreThoseOfTheConfigMap(t *testing.T) {
	s := newSite(t)
	a, b := key(1), key(2)
	s.is("without a ConfigMap", a, "accepts no credentials of a control plane")
	s.write(nil)
	s.now = s.now.Add(time.Second)
	s.is("as the chart installs it", a, "accepts no credentials of a control plane")
	s.store(a)
	s.now = s.now.Add(time.Second)
	s.is("its key", a, "")
	s.store(b)
	s.is("a new key, at once", b, "no key of the control plane")
	s.is("the removed key, at once", a, "")
	s.now = s.now.Add(time.Second)
	s.is("a new key after a second", b, "")
	s.is("the removed key", a, "no key of the control plane")
	s.store(a)
	s.now = s.now.Add(10 * time.Second)
	s.is("a removed key after ten seconds, with no other credential", b, "no key of the control plane")
	s.store()
	s.now = s.now.Add(10 * time.Second)
	s.is("without any key", a, "no key of the control plane")
	s.write(map[string]string{"keys.json": "x"})
	s.now = s.now.Add(10 * time.Second)
	s.is("a text that is no key set", a, "restart Deployment agent")
}

func TestKeysAreUsedForAWhileWithoutTheAPIServer(t *testing.T) {
	s := newSite(t)
	a := key(1)
	s.api.is = true
	s.is("before any key was read", a, controlkeys.ErrUnavailable.Error())
	s.api.is = false
	s.store(a)
	s.now = s.now.Add(10 * time.Second)
	s.is("its key", a, "")
	asked := s.api.asked
	for range 100 {
		s.is("its key again", a, "")
	}
	for range 100 {
		s.is("an unknown key", key(3), "no key of the control plane")
	}
	if s.api.asked != asked {
		t.Errorf("the API server was asked %d times within no time", s.api.asked-asked)
	}
	s.api.is = true
	s.now = s.now.Add(9 * time.Minute)
	s.is("its key, nine minutes after the API server was lost", a, "")
	s.now = s.now.Add(time.Minute)
	s.is("its key, ten minutes after the API server was lost", a, controlkeys.ErrUnavailable.Error())
}
