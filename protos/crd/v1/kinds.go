package v1

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Names of the kinds.
const (
	KindSandbox          = "SignadotSandbox"
	KindRouteGroup       = "SignadotRouteGroup"
	KindForkedWorkload   = "ForkedWorkload"
	KindExternalWorkload = "SignadotExternalWorkload"
	KindVirtualWorkload  = "VirtualWorkload"
	KindRoutingConfig    = "RoutingConfig"
	KindIstioRoute       = "IstioRoute"
	KindGatewayAPIRoute  = "GatewayAPIRoute"
	KindResource         = "Resource"
	KindLifecycleMethods = "SignadotObjectLifecycleMethods"
	KindJobRunnerGroup   = "JobRunnerGroup"
	KindJob              = "Job"
	KindTrafficCapture   = "TrafficCapture"
)

// Object is a custom resource of any kind.
//
// +kubebuilder:object:generate=false
type Object interface {
	Conditioned
	runtime.Object
}

// MeshRoute is what a RoutingConfig asks a mesh for, one for each Service of a baseline: an
// IstioRoute or a GatewayAPIRoute.
//
// +kubebuilder:object:generate=false
type MeshRoute interface {
	Object
	// Asked returns the spec.
	Asked() *IstioRouteSpec
	// Observed returns the generation that the status describes.
	Observed() int64
}

// ObjectList is a list of custom resources of one kind.
//
// +kubebuilder:object:generate=false
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// Kind is one kind of custom resource. Its values come from Kinds.
//
// +kubebuilder:object:generate=false
type Kind struct {
	// Name is the kind as objects give it.
	Name string
	// Supported reports whether this version acts on what people write of the kind. Others
	// have a controller that only writes their status.
	Supported bool
	// Made reports whether sandboxes have objects of the kind made for them.
	Made bool
	// New returns an empty object, NewList an empty list.
	New     func() Object
	NewList func() ObjectList
	// short are further names by which people may call the kind, in lower case.
	short []string
}

// Properties of a kind.
const (
	supported = 1 << iota
	made
)

// Kinds returns every kind. Whatever has to know all of them, or those of one sort, reads
// them here; the sorts keep this order.
func Kinds() []Kind {
	return []Kind{
		kind[SignadotSandbox, SignadotSandboxList](KindSandbox, supported, "sandbox", "sds"),
		kind[SignadotRouteGroup, SignadotRouteGroupList](KindRouteGroup, supported, "routegroup", "sdrg"),
		kind[RoutingConfig, RoutingConfigList](KindRoutingConfig, supported|made, "sdrc"),
		kind[ForkedWorkload, ForkedWorkloadList](KindForkedWorkload, supported|made, "sdfw"),
		kind[SignadotExternalWorkload, SignadotExternalWorkloadList](KindExternalWorkload, supported|made, "externalworkload", "sdxw"),
		kind[VirtualWorkload, VirtualWorkloadList](KindVirtualWorkload, supported|made, "sdvw"),
		kind[Resource, ResourceList](KindResource, supported|made, "sdmr"),
		kind[Job, JobList](KindJob, supported, "sdjb"),
		kind[JobRunnerGroup, JobRunnerGroupList](KindJobRunnerGroup, supported, "sdjrg"),
		kind[TrafficCapture, TrafficCaptureList](KindTrafficCapture, supported, "capture", "sdtc"),
		kind[SignadotObjectLifecycleMethods, SignadotObjectLifecycleMethodsList](KindLifecycleMethods, supported|made, "solm"),
		kind[IstioRoute, IstioRouteList](KindIstioRoute, made, "sdir"),
		kind[GatewayAPIRoute, GatewayAPIRouteList](KindGatewayAPIRoute, made, "sdgar"),
	}
}

func kind[T, L any, P interface {
	*T
	Object
}, Q interface {
	*L
	ObjectList
}](name string, sorts int, short ...string) Kind {
	return Kind{
		Name: name, Supported: sorts&supported != 0, Made: sorts&made != 0, short: short,
		New:     func() Object { return P(new(T)) },
		NewList: func() ObjectList { return Q(new(L)) },
	}
}

// SupportedKinds returns the kinds that a controller acts on.
func SupportedKinds() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return !k.Supported })
}

// MadeKinds returns the kinds of objects that are created for sandboxes.
func MadeKinds() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return !k.Made })
}

// MemberKinds returns the kinds of sandboxed workloads; their objects implement Member.
func MemberKinds() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { _, is := k.New().(Member); return !is })
}

// MeshKinds returns the kinds of the mesh routes that RoutingConfigs create; their objects
// implement MeshRoute.
func MeshKinds() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { _, is := k.New().(MeshRoute); return !is })
}

// Names returns the names of kinds.
func Names(kinds []Kind) []string {
	var out []string
	for _, k := range kinds {
		out = append(out, k.Name)
	}
	return out
}

// Namespaced reports whether objects of a kind have a namespace.
func Namespaced(name string) bool {
	return IsMember(name) || name == KindJobRunnerGroup || name == KindTrafficCapture
}

// IsMember reports whether a kind is one of MemberKinds.
func IsMember(name string) bool {
	_, is := NewMember(name)
	return is
}

// KindCalled returns the kind that people call so: by its name or its plural in any case,
// or by a short name, with or without the API group. False when there is none.
func KindCalled(text string) (Kind, bool) {
	text = strings.TrimSuffix(strings.ToLower(text), "."+Group)
	for _, k := range Kinds() {
		name := strings.ToLower(k.Name)
		if slices.Contains(append(k.short, name, name+"s", name+"es"), text) {
			return k, true
		}
	}
	return Kind{}, false
}

// NewMember returns an empty member of a kind; false when it is none of MemberKinds.
func NewMember(name string) (Member, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			m, is := k.New().(Member)
			return m, is
		}
	}
	return nil, false
}
