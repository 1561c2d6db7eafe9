package inject

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect/spec"
)

// Settings are the properties that a pod has from its injection and keeps until it is
// re-created. An empty field is not known. Two are comparable with ==.
type Settings struct {
	// Sidecar and Redirect are the images of the two containers, whole names.
	Sidecar, Redirect string
	// SidecarResources and RedirectResources are their resources, as words (resourcesText).
	SidecarResources, RedirectResources string
	// XDSAddress is host:port of the route server's xDS endpoint.
	XDSAddress string
	// IptablesMode reports whether nftables or legacy iptables redirect connections.
	IptablesMode string
	// RouteServer is how the sidecar connects to route servers: overTLS or overPlain. Its trust
	// bundle changes while it runs, so that is not a setting.
	RouteServer string
	// Label is the value of LabelInjected; unlabelled where a sidecar came without.
	Label string
	// Resources is the value of AnnotationResources, of a pod that has one; of what pods get now
	// it is empty, and Bounds is what that annotation can set, as words.
	Resources, Bounds string
	// Forms is the newest form of routes that the sidecar takes; empty for those of the first release. Another one
	// makes no sidecar outdated: the operator sends each only forms that it takes.
	Forms string
}

const (
	overTLS   = "TLS"
	overPlain = "plain"
)

// Values of LabelInjected on a pod: the one that it gets, and that of a pod which an earlier
// version injected, and which has no label.
const (
	labelValue = "true"
	unlabelled = "none"
)

// Settings returns what a pod gets from its injection with this configuration.
func (c Config) Settings() Settings {
	c = c.WithDefaults()
	speaks := overPlain
	if c.TLS {
		speaks = overTLS
	}
	return Settings{
		RouteServer: speaks,
		Sidecar:     c.Sidecar.Image, Redirect: c.Redirect.Image,
		SidecarResources: resourcesText(*c.Sidecar.Resources), RedirectResources: resourcesText(*c.Redirect.Resources),
		XDSAddress: c.XDSAddress, Forms: devmesh.FormsRecorded, IptablesMode: string(c.IptablesMode), Label: labelValue, Bounds: c.Bounds.text(),
	}
}

// SettingsOf returns what a pod has from its injection, as far as it has some.
func SettingsOf(pod *corev1.Pod) Settings {
	var s Settings
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			switch c := &containers[i]; c.Name {
			case devmesh.ContainerName:
				s.Sidecar, s.SidecarResources, s.Forms = c.Image, resourcesText(c.Resources), Variable(c.Env, devmesh.EnvForms)
				s.XDSAddress, s.RouteServer = Variable(c.Env, devmesh.EnvXDSAddress), overPlain
				if Variable(c.Env, devmesh.EnvTrust) != "" {
					s.RouteServer = overTLS
				}
				s.Label = cmp.Or(pod.Labels[LabelInjected], unlabelled)
			case devmesh.InitContainerName:
				s.Redirect, s.RedirectResources = c.Image, resourcesText(c.Resources)
				s.IptablesMode = Variable(c.Env, spec.EnvMode)
			}
		}
	}
	if s.Sidecar != "" {
		s.Resources = pod.Annotations[AnnotationResources]
	}
	if pod.Spec.Resources != nil { // the sidecar's containers share the pod's then
		s.SidecarResources, s.RedirectResources, s.Resources = "", "", ""
	}
	return s
}

// Outdated returns the settings in which s differs from those that pods get now, by the names
// that users know. Unknown settings are not a difference, nor are resources that a pod has in
// addition: the API server copies limits into requests that are missing, and namespaces have
// defaults. Resources are those for the pod's own AnnotationResources; a value that new pods
// are refused for is returned.
func (s Settings) Outdated(now Settings) []string {
	same := func(have, want string) bool { return have == want }
	var names []string
	now, bad := now.sizedFor(s.Resources)
	if bad != "" {
		names = append(names, bad)
	}
	for _, setting := range []struct {
		name, have, want string
		fits             func(have, want string) bool
	}{
		{"image of the sidecar", s.Sidecar, now.Sidecar, same},
		{"image of the init container", s.Redirect, now.Redirect, same},
		{"resources of the sidecar", s.SidecarResources, now.SidecarResources, within},
		{"resources of the init container", s.RedirectResources, now.RedirectResources, within},
		{"address of the route server", s.XDSAddress, now.XDSAddress, same},
		{"encryption of the connection to the route server", s.RouteServer, now.RouteServer, same},
		{"routing.iptablesMode", s.IptablesMode, now.IptablesMode, same},
		{"label " + LabelInjected, s.Label, now.Label, same},
	} {
		if setting.have != "" && setting.want != "" && !setting.fits(setting.have, setting.want) {
			names = append(names, setting.name)
		}
	}
	return names
}

// resourcesText returns requests and limits as words such as requests.cpu=100m, sorted,
// with a space between them; empty without any.
func resourcesText(r corev1.ResourceRequirements) string {
	return wordsOf(map[string]corev1.ResourceList{"requests": r.Requests, "limits": r.Limits})
}

// within reports whether one resourcesText has every word of another.
func within(have, want string) bool {
	words := strings.Fields(have)
	for word := range strings.FieldsSeq(want) {
		if !slices.Contains(words, word) {
			return false
		}
	}
	return true
}

// Variable returns the value of an environment variable; empty when it is not set.
func Variable(env []corev1.EnvVar, name string) string {
	return lists.First(env, func(e corev1.EnvVar) bool { return e.Name == name }).Value
}
