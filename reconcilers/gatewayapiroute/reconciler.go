package gatewayapiroute

import (
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/meshes"
)

// Reports returns the reports of GatewayAPIRoutes. *gatewayadapter.Adapter implements it.
type Reports = meshes.Reports[crdv1.MatchedObject]

// New returns the Kind that writes the status of GatewayAPIRoutes. reports is nil while the Gateway API is
// off.
//
// +kubebuilder:rbac:groups=signadot.com,resources=gatewayapiroutes,verbs=get;list;watch
// +kubebuilder:rbac:groups=signadot.com,resources=gatewayapiroutes/status,verbs=patch
func New(a apply.Access, reports Reports) meshes.Kind[*crdv1.GatewayAPIRoute, crdv1.MatchedObject] {
	return meshes.Kind[*crdv1.GatewayAPIRoute, crdv1.MatchedObject]{Access: a, Reports: reports, Conclude: Conclude}
}
