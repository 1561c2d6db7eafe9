package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/command/exit"
)

// Without a token, which the operator needs for a ticket, a recording is refused before anything is looked for or created.
func TestARecordingTakesAToken(t *testing.T) {
	w := world.Shared(t)
	namespace := w.NewNamespace("recorded")
	w.Accounts(namespace, "default")
	w.RunPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "traffic-manager-0", Labels: map[string]string{"app": "traffic-manager"}},
		Spec:       corev1.PodSpec{AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "main", Image: "traffic-manager"}}},
	}, corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}})
	code, out, errs := ask(t, "traffic", "record", "--sandbox", "recorded-none", "--kubeconfig", as(t, "", ""), "--namespace-of-operator", namespace)
	if code != exit.Unavailable || out != "" || !strings.Contains(errs, "authenticates without a token") || !strings.Contains(errs, "--token-file") || strings.Contains(errs, "requests:") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}
