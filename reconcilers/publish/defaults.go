package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/program"
	crdv1 "switchyard.dev/protos/crd/v1"
)

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
