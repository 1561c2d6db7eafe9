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

// APIVersion is the value of the field apiVersion of every custom resource.
const APIVersion = Group + "/" + Version

// GroupVersion returns the group and version, for schemes and clients.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: Version}
}

// AddToScheme makes the scheme know every kind and its list. It never fails.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, k := range Kinds() {
		scheme.AddKnownTypes(GroupVersion(), k.New(), k.NewList())
	}
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
