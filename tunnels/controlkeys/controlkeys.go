// Package controlkeys has the public keys of the control plane, with which credentials of its users
// are checked (tunnels/credential/signed), in ConfigMap controlplane-keys of the operator's
// namespace. The agent writes it (controlplane-link/agent); tunnel proxies and tunnel-api read it, which
// takes the right to get it.
package controlkeys

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"

	"switchyard.dev/tunnels/credential/signed"
	"switchyard.dev/tunnels/identity"
)

// ConfigMap is the name of the ConfigMap.
const ConfigMap = "controlplane-keys"

// The keys of the ConfigMap: the names of the cluster in the control plane, and a JSON Web Key Set.
const (
	organisation = "organisation"
	cluster      = "cluster"
	keySet       = "keys.json"
)

// Data returns the data of the ConfigMap.
func Data(c signed.Cluster, keys signed.Keys) map[string]string {
	return map[string]string{organisation: c.Organisation, cluster: c.Name, keySet: keys.String()}
}

// Store writes the data of the ConfigMap, unless it has that.
func Store(ctx context.Context, in client.ConfigMapInterface, c signed.Cluster, keys signed.Keys) error {
	data := Data(c, keys)
	had, err := in.Get(ctx, ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("ConfigMap %s does not exist: install the chart again", ConfigMap)
	}
	if err != nil || maps.Equal(had.Data, data) {
		return err
	}
	had.Data = data
	_, err = in.Update(ctx, had, metav1.UpdateOptions{})
	return err
}

// parse reads the data of the ConfigMap.
func parse(data map[string]string) (known, error) {
	if data[keySet] == "" {
		return known{}, nil // as the chart installs it
	}
	keys, err := signed.ParseKeys([]byte(data[keySet]))
	return known{signed.Cluster{Organisation: data[organisation], Name: data[cluster]}, keys}, err
}

// known are the keys, and the cluster that credentials have to be for.
type known struct {
	cluster signed.Cluster
	keys    signed.Keys
}

const (
	// rereadAfter is how long keys are used before they are read again; with newAfter for a
	// credential of an unknown key.
	rereadAfter, newAfter = 10 * time.Second, time.Second
	// keepFor is how long keys are used while the API server is unavailable.
	keepFor = 10 * time.Minute
	// readWithin bounds one request to the API server.
	readWithin = 4 * time.Second
)

// ErrUnavailable is the error of Check while the keys cannot be read.
var ErrUnavailable = errors.New("the keys of the control plane cannot be read")

// errNone is the error of a cluster without keys.
var errNone = errors.New("this cluster accepts no credentials of a control plane: its agent has written no keys to ConfigMap " + ConfigMap +
	". Check that Deployment agent is connected, or use a token of the cluster")

// Reader checks credentials with the keys in the ConfigMap. It is safe for concurrent use.
type Reader struct {
	maps  client.ConfigMapInterface
	clock func() time.Time

	// reading is locked while the ConfigMap is read.
	reading sync.Mutex

	mu   sync.Mutex
	last known
	err  error     // of the ConfigMap's data
	read time.Time // when it was last read
	aim  time.Time // when that was last attempted
}

// New returns a Reader of the operator's namespace. clock may be nil.
func New(maps client.ConfigMapInterface, clock func() time.Time) *Reader {
	if clock == nil {
		clock = time.Now
	}
	return &Reader{maps: maps, clock: clock}
}

// Check returns the user of a credential, or why it is refused. The error is ErrUnavailable if the
// keys cannot be read.
func (r *Reader) Check(ctx context.Context, credential string) (identity.User, error) {
	r.refresh(ctx, rereadAfter, false)
	user, err := r.check(credential)
	var unknown *signed.UnknownKeyError
	if errors.As(err, &unknown) || errors.Is(err, errNone) { // there may be new keys
		r.refresh(ctx, newAfter, true)
		user, err = r.check(credential)
	}
	return user, err
}

// check is Check with the keys that were read last.
func (r *Reader) check(credential string) (identity.User, error) {
	r.mu.Lock()
	k, err, read := r.last, r.err, r.read
	r.mu.Unlock()
	now := r.clock()
	switch {
	case read.IsZero() || now.Sub(read) >= keepFor:
		return identity.User{}, ErrUnavailable
	case err != nil:
		return identity.User{}, err
	case k.cluster == signed.Cluster{}:
		return identity.User{}, errNone
	}
	return k.keys.Check(k.cluster, credential, now)
}

// due reports whether the last attempt to read the keys was some time ago, and whether they have
// been read at all.
func (r *Reader) due(after time.Duration) (due, ever bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.aim.IsZero() || r.clock().Sub(r.aim) >= after, !r.read.IsZero()
}

// refresh reads the ConfigMap, unless that was attempted a short time ago. While another call reads
// it, wait decides whether to wait for that; without any keys it waits.
func (r *Reader) refresh(ctx context.Context, after time.Duration, wait bool) {
	due, ever := r.due(after)
	switch {
	case !due:
		return
	case wait || !ever:
		r.reading.Lock()
	case !r.reading.TryLock():
		return
	}
	defer r.reading.Unlock()
	if due, _ = r.due(after); !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
	defer cancel()
	got, err := r.maps.Get(ctx, ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		got, err = &corev1.ConfigMap{}, nil
	}
	now := r.clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.aim = now; err != nil {
		return // the former keys are used for a while
	}
	r.read = now
	if r.last, r.err = parse(got.Data); r.err != nil {
		r.err = fmt.Errorf("ConfigMap %s: %w: restart Deployment agent, which writes it", ConfigMap, r.err)
	}
}
