package apiserver

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/sidecars/inject"
)

// tokenSeconds is longer than any run, because there is no kubelet here that renews tokens.
const tokenSeconds = 24 * 3600

// ReplicaSet creates the ReplicaSet of a Deployment or an Argo Rollout, as their controllers do.
// The owner need not exist: the validity of a token depends on the references alone.
func ReplicaSet(ctx context.Context, kube kubernetes.Interface, namespace, kind, workload string) (*appsv1.ReplicaSet, error) {
	const hash = "5f6d"
	label, owner := appsv1.DefaultDeploymentUniqueLabelKey, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: workload, UID: "uid-of-its-owner", Controller: new(true)}
	if kind == "ArgoRollout" {
		label, owner.APIVersion, owner.Kind = inject.RolloutHash, "argoproj.io/v1alpha1", "Rollout"
	}
	labels := map[string]string{"app": workload, label: hash}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: workload + "-" + hash, OwnerReferences: []metav1.OwnerReference{owner}},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main:1"}}},
			},
		},
	}
	return kube.AppsV1().ReplicaSets(namespace).Create(ctx, set, metav1.CreateOptions{})
}

// Pod makes a pod of a ReplicaSet that runs as a service account.
func Pod(ctx context.Context, kube kubernetes.Interface, set *appsv1.ReplicaSet, name, account string) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: set.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	}
	pod.Spec.ServiceAccountName = account
	return kube.CoreV1().Pods(set.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// Token requests a token of a service account as a kubelet does: for an audience, which is the API
// server itself when it is "", and bound to a pod unless that is nil.
func Token(ctx context.Context, kube kubernetes.Interface, namespace, account, audience string, pod *corev1.Pod) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	answer, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask for a token of %s/%s: %w", namespace, account, err)
	}
	return answer.Status.Token, nil
}
