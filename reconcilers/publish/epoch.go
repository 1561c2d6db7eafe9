package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/publisher"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// EpochConfigMap is the name of the ConfigMap with the Witness of the routing log and the version of
// the defaults (Defaults). If it is lost, an altered or rewound store of the log may go unnoticed once.
const EpochConfigMap = "switchyard-routing-log"

// Keys of the ConfigMap. They are readable for users: `kubectl get configmap -o yaml` shows the epoch
// of the log, its start, and why the previous one ended.
const (
	dataEpoch    = "epoch"
	dataSequence = "sequence"
	dataChecksum = "checksum"
	dataSince    = "since"
	dataBefore   = "epochBefore"
	dataEnded    = "endedBecause"
)

// Epochs stores the Witness of the routing log in the API server, outside of the log's own store, to
// detect that the store was altered or rewound. The chart creates the ConfigMap and grants the rights
// to get and patch it; without the chart, a right to create it is enough.
type Epochs struct {
	// Reader reads from the API server.
	Reader client.Reader
	// Writer writes.
	Writer client.Writer
	// Namespace is where the ConfigMap is.
	Namespace string
}

// Load returns the last saved Witness; the zero Witness if there is none. One that an older version
// saved has no checksum.
func (e Epochs) Load(ctx context.Context) (publisher.Witness, error) {
	m := &corev1.ConfigMap{}
	err := e.Reader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: EpochConfigMap}, m)
	if apierrors.IsNotFound(err) {
		return publisher.Witness{}, nil
	}
	if err != nil {
		return publisher.Witness{}, fmt.Errorf("read ConfigMap %s/%s: %w", e.Namespace, EpochConfigMap, err)
	}
	w, err := witnessOf(m.Data)
	if err != nil {
		return publisher.Witness{}, fmt.Errorf("ConfigMap %s/%s: %w; delete its data to start a new epoch", e.Namespace, EpochConfigMap, err)
	}
	return w, nil
}

// Installation returns an identity of this installation of the operator: the UID of the ConfigMap,
// which upgrades keep and uninstallation removes. It is empty if there is none yet.
func Installation(ctx context.Context, reader client.Reader, namespace string) (types.UID, error) {
	m := &corev1.ConfigMap{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: EpochConfigMap}, m); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read ConfigMap %s/%s, which tells this installation from others: %w", namespace, EpochConfigMap, err)
	}
	return m.UID, nil
}

// witnessOf reads a Witness.
func witnessOf(data map[string]string) (publisher.Witness, error) {
	w := publisher.Witness{Before: data[dataBefore], Ended: data[dataEnded]}
	if data[dataEpoch] == "" {
		return publisher.Witness{}, nil
	}
	seq, err := strconv.ParseUint(data[dataSequence], 10, 64)
	if err != nil {
		return publisher.Witness{}, fmt.Errorf("there is no number under %q: %w", dataSequence, err)
	}
	w.Mark.Pos = event.Pos{Epoch: data[dataEpoch], Seq: seq}
	if sum := data[dataChecksum]; sum != "" {
		if w.Mark.Chain, err = event.ParseChain(sum); err != nil {
			return publisher.Witness{}, fmt.Errorf("under %q: %w", dataChecksum, err)
		}
	}
	if since := data[dataSince]; since != "" {
		if w.Since, err = time.Parse(time.RFC3339, since); err != nil {
			return publisher.Witness{}, fmt.Errorf("there is no time under %q: %w", dataSince, err)
		}
	}
	return w, nil
}

// dataOf returns the data of a Witness; nil values for empty fields.
func dataOf(w publisher.Witness) map[string]*string {
	data := map[string]*string{dataEpoch: nil, dataSequence: nil, dataChecksum: nil, dataSince: nil, dataBefore: nil, dataEnded: nil}
	say := func(key, value string) {
		if value != "" {
			data[key] = &value
		}
	}
	say(dataEpoch, w.Mark.Epoch)
	say(dataSequence, strconv.FormatUint(w.Mark.Seq, 10))
	if w.Mark.Chain != (event.Chain{}) {
		say(dataChecksum, w.Mark.Chain.String())
	}
	if !w.Since.IsZero() {
		say(dataSince, w.Since.UTC().Format(time.RFC3339))
	}
	say(dataBefore, w.Before)
	say(dataEnded, w.Ended)
	return data
}

// Save saves a Witness.
func (e Epochs) Save(ctx context.Context, w publisher.Witness) error {
	data := dataOf(w)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: EpochConfigMap}}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("record the witness of the routing log: %w", err)
	}
	err = e.Writer.Patch(ctx, m, client.RawPatch("application/merge-patch+json", patch), client.FieldOwner(crdv1.FieldManager))
	if apierrors.IsNotFound(err) {
		m.Data = map[string]string{}
		for key, value := range data {
			if value != nil {
				m.Data[key] = *value
			}
		}
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

// DataDefaults is the key of the ConfigMap that has the version of the defaults of this installation,
// for the environment of the operator's programs (program.DefaultsVariable).
const DataDefaults = "defaults"

// decisions bounds the attempts of Defaults after another manager has written the ConfigMap.
const decisions = 10

// Defaults returns the version of the defaults of this installation, and records it when it is not
// recorded yet: program.Earlier where a release without versions has kept a routing log, and
// program.Current in a new installation. Call it before the log is opened. Without the ConfigMap,
// which the chart makes, it returns program.Current and records nothing.
func (e Epochs) Defaults(ctx context.Context) (program.Defaults, error) {
	var err error
	for range decisions {
		var d program.Defaults
		if d, err = e.defaults(ctx); !apierrors.IsConflict(err) {
			return d, err
		}
	}
	return program.Current, err
}

func (e Epochs) defaults(ctx context.Context) (program.Defaults, error) {
	m := &corev1.ConfigMap{}
	err := e.Reader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: EpochConfigMap}, m)
	if apierrors.IsNotFound(err) {
		return program.Current, nil
	}
	if err != nil {
		return program.Current, fmt.Errorf("read ConfigMap %s/%s, which has the version of the defaults: %w", e.Namespace, EpochConfigMap, err)
	}
	if text := m.Data[DataDefaults]; text != "" {
		d, err := program.ParseDefaults(text)
		if err != nil {
			return d, fmt.Errorf("ConfigMap %s/%s, key %s: %w", e.Namespace, EpochConfigMap, DataDefaults, err)
		}
		return d, nil
	}
	d := program.Current
	if m.Data[dataEpoch] != "" {
		d = program.Earlier
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": m.ResourceVersion},
		"data":     map[string]string{DataDefaults: strconv.Itoa(int(d))},
	})
	if err != nil {
		return d, fmt.Errorf("write down the version of the defaults: %w", err)
	}
	if err := e.Writer.Patch(ctx, m, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(crdv1.FieldManager)); err != nil {
		return d, fmt.Errorf("record the version of the defaults in ConfigMap %s/%s: %w", e.Namespace, EpochConfigMap, err)
	}
	return d, nil
}
