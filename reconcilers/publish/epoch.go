package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// EpochConfigMap is the name of the ConfigMap that keeps the position of the
// routing log. It holds nothing else, and losing it costs no more than that one
// rewinding of the log's store may go unnoticed.
const EpochConfigMap = "switchyard-routing-log"

// Keys of the ConfigMap.
const (
	dataEpoch    = "epoch"
	dataSequence = "sequence"
)

// Epochs keeps the position of the routing log in the API server, outside of
// the log's own store: what shows that the store was rewound. The chart makes
// the ConfigMap and gives the rights to get and patch it; where the chart is
// not at work, a right to create it is enough.
type Epochs struct {
	// Reader reads past every cache.
	Reader client.Reader
	// Writer writes.
	Writer client.Writer
	// Namespace is where the ConfigMap is.
	Namespace string
}

// Load gives the position that was saved last; the zero Pos when none was.
func (e Epochs) Load(ctx context.Context) (event.Pos, error) {
	m := &corev1.ConfigMap{}
	err := e.Reader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: EpochConfigMap}, m)
	if apierrors.IsNotFound(err) {
		return event.Pos{}, nil
	}
	if err != nil {
		return event.Pos{}, fmt.Errorf("read ConfigMap %s/%s: %w", e.Namespace, EpochConfigMap, err)
	}
	return positionOf(m)
}

// positionOf reads the position.
func positionOf(m *corev1.ConfigMap) (event.Pos, error) {
	if m.Data[dataEpoch] == "" {
		return event.Pos{}, nil
	}
	seq, err := strconv.ParseUint(m.Data[dataSequence], 10, 64)
	if err != nil {
		return event.Pos{}, fmt.Errorf("ConfigMap %s/%s has no number under %q; delete its data to begin anew: %w",
			m.Namespace, m.Name, dataSequence, err)
	}
	return event.Pos{Epoch: m.Data[dataEpoch], Seq: seq}, nil
}

// Save saves a position.
func (e Epochs) Save(ctx context.Context, pos event.Pos) error {
	data := map[string]string{dataEpoch: pos.Epoch, dataSequence: strconv.FormatUint(pos.Seq, 10)}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: EpochConfigMap}}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("write the position: %w", err)
	}
	err = e.Writer.Patch(ctx, m, client.RawPatch("application/merge-patch+json", patch), client.FieldOwner(crdv1.FieldManager))
	if apierrors.IsNotFound(err) {
		m.Data = data
		err = e.Writer.Create(ctx, m, client.FieldOwner(crdv1.FieldManager))
	}
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("ConfigMap %s/%s cannot be written; install the chart again, which makes it and gives the rights: %w",
			e.Namespace, EpochConfigMap, err)
	case err != nil:
		return fmt.Errorf("write ConfigMap %s/%s: %w", e.Namespace, EpochConfigMap, err)
	}
	return nil
}
