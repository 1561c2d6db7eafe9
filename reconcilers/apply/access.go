package apply

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RefusedAgain is the retry interval after a refusal, since its cause may change without a watched
// event: rights, or an object of another owner.
const RefusedAgain = 15 * time.Second

// Access is the access of every controller to the cluster. All fields but Events are required.
type Access struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Now returns the time for conditions and facts.
	Now func() time.Time
	// Events records Events about objects; nil: none are recorded.
	Events events.EventRecorder
}

// Validate returns an error if a required field is missing.
func (a Access) Validate() error {
	if a.Client == nil || a.Live == nil || a.Now == nil {
		return errors.New("Client, Live and Now are all required")
	}
	return nil
}

// Writer returns the Writer with this access.
func (a Access) Writer() Writer { return Writer{Client: a.Client, Live: a.Live, Events: a.Events} }

// Uncached returns a client with uncached reads, for objects that must not be kept in memory, such as
// Secrets.
func (a Access) Uncached() client.Client { return uncached{a.Client, a.Live} }

// uncached reads from the API server.
type uncached struct {
	client.Client
	live client.Reader
}

func (c uncached) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	return c.live.Get(ctx, key, o, options...)
}

func (c uncached) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return c.live.List(ctx, list, options...)
}
