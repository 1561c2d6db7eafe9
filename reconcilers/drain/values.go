package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// valuesWithin is how long the deletion of the namespace of values is waited for.
const valuesWithin = 30 * time.Second

// deleteValues deletes the namespace of the values of units when it has no Secrets, and waits until it
// is deleted, since the next installation creates it again. Errors are logged: the namespace
// then stays, and is used again.
func deleteValues(ctx context.Context, c client.Client, name string, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, valuesWithin)
	defer cancel()
	kept, err := tryDeleteValues(ctx, c, name)
	switch {
	case err != nil:
		logger.Warn("the namespace of the values of units is not deleted", "namespace", name, "error", err)
	case kept > 0:
		logger.Info("the namespace of the values of units stays: delete steps of resources read the values", "namespace", name, "values", kept)
	}
}

// tryDeleteValues returns how many Secrets keep the namespace.
func tryDeleteValues(ctx context.Context, c client.Client, name string) (kept int, err error) {
	namespace := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	var secrets metav1.PartialObjectMetadataList
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := c.List(ctx, &secrets, client.InNamespace(name)); err != nil {
		return 0, fmt.Errorf("list its Secrets: %w", err)
	}
	if len(secrets.Items) > 0 {
		return len(secrets.Items), nil
	}
	if err := c.Delete(ctx, namespace, client.Preconditions{UID: &namespace.UID}); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	for {
		err := c.Get(ctx, client.ObjectKey{Name: name}, namespace)
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		select {
		case <-ctx.Done():
			return 0, errors.Join(errors.New("it is still being deleted"), err)
		case <-time.After(pause):
		}
	}
}
