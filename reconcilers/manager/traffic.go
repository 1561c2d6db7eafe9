package manager

import (
	"cmp"
	"errors"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/trafficcapture"
	"switchyard.dev/sidecars/inject"
)

// Traffic are the settings of captures.
type Traffic struct {
	// Container are the settings of the container that records requests in forks. The manager adds the authorities of
	// traffic-manager. Without an image, and while Manager is false, new forks get none.
	Container traffic.Settings
	Manager   bool
	// Disabled is why no capture is possible; empty: captures are.
	Disabled string
	// TokenFile is the token that is shown to traffic-manager, and Receivers are asked instead of its replicas, if not nil.
	TokenFile string
	Receivers trafficcapture.Receivers
}

// trafficFromEnv reads the image, pull policy and resources of the container from the variables that the chart
// sets.
func trafficFromEnv(get func(string) string) (Traffic, error) {
	c, err := inject.ContainerFromEnv(get, "TRAFFIC_SIDECAR", "TRAFFIC_SIDECAR_CONTAINER_RESOURCES")
	if err != nil {
		return Traffic{}, err
	}
	r := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
	}
	if c.Resources != nil && len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
		r = *c.Resources
	}
	return Traffic{
		Container: traffic.Settings{Image: c.Image, PullPolicy: cmp.Or(c.PullPolicy, corev1.PullIfNotPresent), PullSecret: c.PullSecret, Resources: r},
	}, nil
}

// within returns the settings, completed from the operator's configuration.
func (t Traffic) within(c clusterconfig.Cluster) Traffic {
	t.Manager = c.TrafficManager
	switch {
	case !c.TrafficManager:
		t.Disabled = "There is no traffic manager: set trafficManager.enabled in the values of the chart"
	case !c.TrafficCapture:
		t.Disabled = "Captures are disabled: set trafficCapture.enabled in the values of the chart"
	}
	return t
}

// addTraffic has the controllers put the container that records into forks, and attach captures.
func (m *Main) addTraffic(c *kinds.Config) {
	t := m.config.Traffic
	c.CapturesDisabled = t.Disabled
	if t.Container.Image == "" || m.config.Trust == nil {
		c.CapturesDisabled = cmp.Or(c.CapturesDisabled, "The manager has no image of the container that records, or no certificates: install the chart of this release")
		return
	}
	if t.Manager {
		c.Traffic = func() (traffic.Settings, error) {
			of := t.Container
			of.Manager = net.JoinHostPort(trafficcapture.ManagerName+"."+m.config.Namespace+".svc", strconv.Itoa(trafficcapture.ManagerPort))
			if of.CA = m.config.Trust.PEM(); of.CA == "" {
				return of, errors.New("the authorities for the container that records requests are not known yet")
			}
			return of, nil
		}
	}
	c.Receivers = t.Receivers
	if c.Receivers == nil {
		c.Receivers = &trafficcapture.Replicas{Client: m.manager.GetClient(), Namespace: m.config.Namespace, Roots: m.config.Trust, TokenFile: t.TokenFile}
	}
}
