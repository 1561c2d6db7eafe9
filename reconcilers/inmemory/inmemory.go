// Package inmemory makes clients of clusters that are only in memory, on which our
// controllers can work: for dry runs, and for tests that need thousands of clusters. They
// are controller-runtime's fake clients, which know patches and server-side apply. What an
// API server does beyond that (UIDs, generations, validation) they do not.
package inmemory

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/kinds"
)

// NewBuilder returns what makes such a client, with the indexes that controllers read by,
// and with the status of our kinds written apart from the rest.
func NewBuilder(ctx context.Context, scheme *runtime.Scheme) (*fake.ClientBuilder, error) {
	b := fake.NewClientBuilder().WithScheme(scheme)
	for name, extract := range kinds.RolloutIndexes() {
		b.WithIndex(baseline.NewRollout(), name, extract)
	}
	for _, kind := range crdv1.Kinds() {
		b.WithStatusSubresource(kind.New())
	}
	return b, kinds.AddIndexes(ctx, indexer{b})
}

// indexer makes indexes of a client in memory.
type indexer struct{ *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i indexer) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(o, field, extract)
	return nil
}
