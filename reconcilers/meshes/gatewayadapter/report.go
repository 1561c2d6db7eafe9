package gatewayadapter

import (
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes"
)

// Report is what is known of a Target. Its matches are the routes that refer to the Service, and
// what stands beside each.
type Report = meshes.Report[crdv1.MatchedObject]
