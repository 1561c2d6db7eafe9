package execunit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Owner is the object or the part of an object that a pod is of, as messages name it.
type Owner struct {
	// Noun is its kind in plain words, such as step.
	Noun string
	// Name is its name.
	Name string
	// Containers are the names of the operator's own containers in its pods.
	Containers []string
	// Resources names the settings of the chart with the resources of these containers.
	Resources string
}

// String returns the owner for a message, such as step "make".
func (o Owner) String() string { return o.Noun + " " + quoted(o.Name) }

// OwnerOf returns the unit of this name as an owner of pods.
func OwnerOf(unit string) Owner {
	return Owner{Noun: "step", Name: unit, Containers: []string{InputManager, OutputManager}, Resources: "ioInit.resources and ioSidecar.resources"}
}

// MainOf returns the name of the main container of a pod: the one named main, or else the first that is
// none of the others.
func MainOf(pod corev1.PodSpec, others ...string) string {
	name := ""
	for _, c := range pod.Containers {
		switch {
		case slices.Contains(others, c.Name):
		case c.Name == mainName:
			return mainName
		case name == "":
			name = c.Name
		}
	}
	return name
}
