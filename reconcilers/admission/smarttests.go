package admission

import (
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// ofSmartTests reports whether an object is a runner group of Smart Tests, or a Job for one.
func ofSmartTests(o runtime.Object) bool {
	switch o := o.(type) {
	case *crdv1.JobRunnerGroup:
		return o.Namespace == crdv1.SmartTestsNamespace
	case *crdv1.Job:
		return o.Spec.RunnerGroup.Namespace == crdv1.SmartTestsNamespace
	}
	return false
}

// reviewSmartTests answers about such an object: a control plane itself is its author, which has asked for the rights of its user. Only
// the agent can name it as an author.
func reviewSmartTests(req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	organisation, is := strings.CutPrefix(req.UserInfo.Username, crdv1.ControlPlanePrefix)
	if is && organisation != "" && !strings.Contains(organisation, ":") && len(req.UserInfo.Groups) == 0 {
		return &admissionv1.AdmissionResponse{Allowed: true}
	}
	return Refused(http.StatusForbidden, metav1.StatusReasonForbidden,
		name(req)+" is of Smart Tests: only a control plane writes it. Use another namespace, or run a test with the control plane")
}
