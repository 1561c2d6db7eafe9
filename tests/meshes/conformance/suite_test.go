package conformance

import (
	"slices"
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/roundtripper"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// Features of istiod with which the suite is run, at gateways and in the mesh.
var (
	both = []features.FeatureName{
		features.SupportHTTPRoute, features.SupportGRPCRoute,
		features.SupportHTTPRouteQueryParamMatching, features.SupportHTTPRouteMethodMatching, features.SupportHTTPRouteResponseHeaderModification,
		features.SupportHTTPRoutePathRewrite, features.SupportHTTPRouteHostRewrite, features.SupportHTTPRouteSchemeRedirect,
		features.SupportHTTPRoutePathRedirect, features.SupportHTTPRoutePortRedirect, features.SupportHTTPRouteBackendRequestHeaderModification,
		features.SupportHTTPRouteParentRefPort, features.SupportHTTPRouteNamedRouteRule,
	}
	ofGateways = append(slices.Clone(both),
		features.SupportGateway, features.SupportReferenceGrant, features.SupportHTTPRouteRequestTimeout, features.SupportHTTPRouteBackendTimeout,
		features.SupportHTTPRouteRequestMirror, features.SupportHTTPRouteRequestMultipleMirrors, features.SupportHTTPRouteRequestPercentageMirror,
		features.SupportHTTPRouteCORS)
	ofMesh = append(slices.Clone(both),
		features.SupportMesh, features.SupportMeshConsumerRoute, features.SupportMeshHTTPRouteQueryParamMatching, features.SupportMeshHTTPRouteRewritePath,
		features.SupportMeshHTTPRouteRedirectPath, features.SupportMeshHTTPRouteRedirectPort, features.SupportMeshHTTPRouteSchemeRedirect,
		features.SupportMeshHTTPRouteBackendRequestHeaderModification, features.SupportMeshHTTPRouteNamedRouteRule,
		features.SupportHTTPRoute307RedirectStatusCode)
)

// counting are tests that count the routes of a listener, of which derived ones are some.
var counting = []string{"GatewayModifyListeners", "GatewayWithAttachedRoutes", "HTTPRouteHostnameIntersection"}

var (
	gatewayNamespaces = []string{suite.InfrastructureNamespace, suite.AppBackendNamespace, suite.WebBackendNamespace}
	meshNamespaces    = []string{suite.MeshNamespace, suite.MeshConsumerNamespace}
)

// TestGatewayDerived: with a derived route beside each of the suite's, all is as without.
func TestGatewayDerived(t *testing.T) {
	o := options(t, ofGateways)
	run(t, o, gatewayNamespaces)
}

// TestGatewayKeyed: requests with the routing key get from the forks what they get from the
// backends without it.
func TestGatewayKeyed(t *testing.T) {
	o := options(t, ofGateways)
	o.RoundTripper = keyedHTTP{&roundtripper.DefaultRoundTripper{Debug: o.Debug, TimeoutConfig: o.TimeoutConfig}}
	o.GRPCClient = keyedGRPC{}
	run(t, o, gatewayNamespaces)
}

// TestMeshDerived: with a derived route beside each of the suite's, all is as without.
func TestMeshDerived(t *testing.T) {
	o := options(t, ofMesh)
	o.NamespaceLabels = map[string]string{"istio-injection": "enabled"}
	run(t, o, meshNamespaces)
}

func options(t *testing.T, supported []features.FeatureName) suite.ConformanceOptions {
	o := conformance.DefaultOptions(t)
	o.GatewayClassName = "istio"
	o.SupportedFeatures = supported
	o.SkipTests = append(o.SkipTests, counting...)
	o.CleanupBaseResources = false // The next run finds them.
	return o
}

// run runs the suite while there is a sandbox that forks its backends.
func run(t *testing.T, o suite.ConformanceOptions, namespaces []string) {
	s, err := suite.NewConformanceTestSuite(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Setup(t, tests.ConformanceTests)
	forkAll(t, o.RestConfig, namespaces)
	if err := s.Run(t, tests.ConformanceTests); err != nil {
		t.Fatal(err)
	}
}
