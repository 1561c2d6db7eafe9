package clusterconfig

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The ConfigMap with the operator's configuration, its key, and the operator's Deployment, as the
// chart creates them.
const (
	configName = "cluster-config"
	configFile = "cluster_config.yaml"
	// ManagerName is the Deployment of the controller manager.
	ManagerName = "signadot-controller-manager"
)

// ErrNotRead is returned when the operator's configuration does not exist or cannot be read with
// the rights of the user.
var ErrNotRead = errors.New("the operator's configuration was not read")

// Installed returns the configuration of the operator in the namespace operator, or ErrNotRead.
func Installed(ctx context.Context, reader client.Reader, operator string) (Cluster, error) {
	var held corev1.ConfigMap
	err := reader.Get(ctx, client.ObjectKey{Namespace: operator, Name: configName}, &held)
	text, there := held.Data[configFile]
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return Cluster{}, fmt.Errorf("%w (%w)", ErrNotRead, err)
	case err != nil:
		return Cluster{}, fmt.Errorf("read the operator's configuration: %w", err)
	case !there:
		return Cluster{}, fmt.Errorf("%w (ConfigMap %s/%s has no %s)", ErrNotRead, operator, configName, configFile)
	}
	cluster, err := Parse([]byte(text))
	if err != nil {
		return Cluster{}, fmt.Errorf("the operator's configuration, ConfigMap %s/%s, is not valid, so that it would not start: %w", operator, configName, err)
	}
	return cluster, nil
}

// ManagerEnv returns the environment of the operator's Deployment.
func ManagerEnv(ctx context.Context, reader client.Reader, operator string) (func(string) string, error) {
	var deployed appsv1.Deployment
	if err := reader.Get(ctx, client.ObjectKey{Namespace: operator, Name: ManagerName}, &deployed); err != nil {
		return nil, err
	}
	env := map[string]string{}
	for i := range deployed.Spec.Template.Spec.Containers {
		for _, v := range deployed.Spec.Template.Spec.Containers[i].Env {
			env[v.Name] = v.Value
		}
	}
	return func(name string) string { return env[name] }, nil
}
