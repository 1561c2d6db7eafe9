package inject

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect/spec"
)

// Config has the contents of the injected containers, and the namespaces to skip.
type Config struct {
	// Sidecar is the container with the proxy. Its image is required.
	Sidecar Container
	// Redirect is the init container that redirects. Its image is required.
	Redirect Container
	// XDSAddress is host:port of the route server's xDS endpoint. Default:
	// devmesh.DefaultXDSAddress.
	XDSAddress string
	// TLS makes sidecars connect to route servers over TLS, and Trust are the authorities, as
	// PEM, that they trust at first. With TLS and without Trust no pod gets a sidecar.
	TLS   bool
	Trust string
	// LogLevel is the sidecar's, where the pod has no annotation for it: debug,
	// info, warn or error. Default: devmesh.DefaultLogLevel.
	LogLevel string
	// IptablesMode reports whether nftables or legacy iptables redirect connections.
	// Default: spec.ModeAuto.
	IptablesMode spec.Mode
	// Bounds are those of AnnotationResources. Default: DefaultBounds.
	Bounds *Bounds
}

// Container has the image and the resources of one of the two containers.
type Container struct {
	// Image is the image's full name. Required.
	Image string
	// PullPolicy defaults to IfNotPresent.
	PullPolicy corev1.PullPolicy
	// PullSecret is the name of a Secret in the pod's namespace, or empty.
	PullSecret string
	// Resources default to DefaultResources.
	Resources *corev1.ResourceRequirements
}

// excludedNamespaces never get a sidecar: the cluster's own and the operator's.
var excludedNamespaces = []string{"kube-node-lease", "kube-public", "kube-system", "signadot"}

// DefaultResources are those the chart documents for injected containers.
func DefaultResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Limits: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("2"),
			corev1.ResourceMemory: resource.MustParse("1Gi"),
		},
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("100m"),
			corev1.ResourceMemory: resource.MustParse("128Mi"),
		},
	}
}

// WithDefaults returns the Config with every empty field that has a default set.
func (c Config) WithDefaults() Config {
	c.Sidecar, c.Redirect = c.Sidecar.withDefaults(), c.Redirect.withDefaults()
	c.XDSAddress = cmp.Or(c.XDSAddress, devmesh.DefaultXDSAddress)
	c.LogLevel = cmp.Or(c.LogLevel, devmesh.DefaultLogLevel)
	c.IptablesMode = cmp.Or(c.IptablesMode, spec.ModeAuto)
	c.Bounds = cmp.Or(c.Bounds, new(DefaultBounds()))
	return c
}

func (c Container) withDefaults() Container {
	c.PullPolicy = cmp.Or(c.PullPolicy, corev1.PullIfNotPresent)
	c.Resources = cmp.Or(c.Resources, new(DefaultResources()))
	return c
}

// Validate returns all errors of the configuration, or nil.
func (c Config) Validate() error {
	var errs []error
	check := func(name string, container Container) {
		if container.Image == "" {
			errs = append(errs, fmt.Errorf("no image for the %s container", name))
		}
		policies := []corev1.PullPolicy{"", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
		if !slices.Contains(policies, container.PullPolicy) {
			errs = append(errs, fmt.Errorf("pull policy %q of the %s container: use Always, IfNotPresent or Never",
				container.PullPolicy, name))
		}
	}
	check("sidecar", c.Sidecar)
	check("redirecting init", c.Redirect)
	if c.LogLevel != "" && !slices.Contains(levels, c.LogLevel) {
		errs = append(errs, fmt.Errorf("log level %q: use %s", c.LogLevel, strings.Join(levels, ", ")))
	}
	if _, err := spec.ParseMode(string(c.IptablesMode)); err != nil {
		errs = append(errs, fmt.Errorf("iptables mode: %w", err))
	}
	if c.Bounds != nil {
		errs = append(errs, c.Bounds.validate())
	}
	return errors.Join(errs...)
}

// EnvBounds is the manager's variable with the Bounds, as JSON.
const EnvBounds = "DEV_MESH_SIDECAR_RESOURCE_BOUNDS"

// EnvTLS is the manager's variable that is true where route servers speak TLS.
const EnvTLS = "ROUTESERVER_TLS"

// FromEnv reads the images, pull settings and resources from the environment
// variables that the chart sets on the controller manager (ROUTE_SIDECAR_IMAGE,
// SIDECAR_INIT_IMAGE and their kin, ROUTESERVER_TLS). get returns a variable's value, empty when
// it is not set. Resources are Kubernetes resource requirements as JSON.
func FromEnv(get func(string) string) (Config, error) {
	sidecar, err := ContainerFromEnv(get, "ROUTE_SIDECAR", "DEV_MESH_SIDECAR_CONTAINER_RESOURCES")
	if err != nil {
		return Config{}, err
	}
	redirect, err := ContainerFromEnv(get, "SIDECAR_INIT", "DEV_MESH_INIT_CONTAINER_RESOURCES")
	if err != nil {
		return Config{}, err
	}
	c := Config{Sidecar: sidecar, Redirect: redirect, TLS: get(EnvTLS) == "true"}
	if text := get(EnvBounds); text != "" {
		c.Bounds = &Bounds{}
		if err := json.Unmarshal([]byte(text), c.Bounds); err != nil {
			return Config{}, fmt.Errorf("%s does not have the bounds min and max: %w", EnvBounds, err)
		}
	}
	c = c.WithDefaults()
	return c, c.Validate()
}

// ContainerFromEnv reads the settings of one container: the variables with names that begin
// with a prefix, and the one with its resources.
func ContainerFromEnv(get func(string) string, prefix, resources string) (Container, error) {
	c := Container{
		Image:      get(prefix + "_IMAGE"),
		PullPolicy: corev1.PullPolicy(get(prefix + "_IMAGE_PULL_POLICY")),
		PullSecret: get(prefix + "_IMAGE_PULL_SECRET"),
	}
	if text := get(resources); text != "" {
		c.Resources = &corev1.ResourceRequirements{}
		if err := json.Unmarshal([]byte(text), c.Resources); err != nil {
			return Container{}, fmt.Errorf("%s is not a resources object: %w", resources, err)
		}
	}
	return c, nil
}
