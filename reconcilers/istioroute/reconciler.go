package istioroute

import (
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/meshes"
)

// Reports returns the reports of IstioRoutes. *istioadapter.Adapter implements it.
type Reports = meshes.Reports[crdv1.VirtualServiceMatch]

// New returns the Kind that writes the status of IstioRoutes. reports is nil while istio.enabled is false.
//
// +kubebuilder:rbac:groups=signadot.com,resources=istioroutes,verbs=get;list;watch
// +kubebuilder:rbac:groups=signadot.com,resources=istioroutes/status,verbs=patch
func New(a apply.Access, reports Reports) meshes.Kind[*crdv1.IstioRoute, crdv1.VirtualServiceMatch] {
	return meshes.Kind[*crdv1.IstioRoute, crdv1.VirtualServiceMatch]{Access: a, Reports: reports, Conclude: Conclude}
}
