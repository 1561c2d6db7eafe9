package gatewayadapter

import (
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes"
)

// Report is the report of a Target. Its matches are the routes that refer to the Service, with the
// route derived from each.
type Report = meshes.Report[crdv1.MatchedObject]
