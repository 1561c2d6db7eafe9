package jobpod

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobexec/layout"
)

// Service returns the Service that addresses the pods of a group: a headless one.
func Service(g *crdv1.JobRunnerGroup) *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: g.Namespace, Name: crdv1.ObjectName(crdv1.MaxServiceName, "job-runners", g.Name), Labels: Labels(g.Name),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: crdv1.APIVersion, Kind: crdv1.KindJobRunnerGroup, Name: g.Name, UID: g.UID, Controller: new(true),
			}},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: Labels(g.Name),
			Ports: []corev1.ServicePort{{Name: layout.PortName, Port: layout.Port, TargetPort: intstr.FromString(layout.PortName), Protocol: corev1.ProtocolTCP}},
		},
	}
}
