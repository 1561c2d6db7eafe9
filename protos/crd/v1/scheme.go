package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all custom resources.
const Group = "signadot.com"

// Version is the only version there is.
const Version = "v1"

// APIVersion is what the field apiVersion of every custom resource says.
const APIVersion = Group + "/" + Version

// GroupVersion gives the group and version, for schemes and clients.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: Version}
}

// Names of the kinds.
const (
	KindSandbox          = "SignadotSandbox"
	KindRouteGroup       = "SignadotRouteGroup"
	KindForkedWorkload   = "ForkedWorkload"
	KindExternalWorkload = "SignadotExternalWorkload"
	KindVirtualWorkload  = "VirtualWorkload"
	KindRoutingConfig    = "RoutingConfig"
	KindIstioRoute       = "IstioRoute"
	KindResource         = "Resource"
	KindLifecycleMethods = "SignadotObjectLifecycleMethods"
	KindJobRunnerGroup   = "JobRunnerGroup"
	KindJob              = "Job"
)

// AddToScheme makes the scheme know every kind and its list. It never fails.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&SignadotSandbox{}, &SignadotSandboxList{},
		&SignadotRouteGroup{}, &SignadotRouteGroupList{},
		&ForkedWorkload{}, &ForkedWorkloadList{},
		&SignadotExternalWorkload{}, &SignadotExternalWorkloadList{},
		&VirtualWorkload{}, &VirtualWorkloadList{},
		&RoutingConfig{}, &RoutingConfigList{},
		&IstioRoute{}, &IstioRouteList{},
		&Resource{}, &ResourceList{},
		&SignadotObjectLifecycleMethods{}, &SignadotObjectLifecycleMethodsList{},
		&JobRunnerGroup{}, &JobRunnerGroupList{},
		&Job{}, &JobList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
