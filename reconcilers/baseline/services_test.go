package baseline_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/sidecars/inject"
)

func TestWhichServicesSelectABaseline(t *testing.T) {
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a", "tier": "front"}}}
	cases := map[string]struct {
		selector map[string]string
		change   func(*corev1.Service)
		want     bool
	}{
		"one whose selector the pods match":                   {map[string]string{"app": "a"}, nil, true},
		"one that wants a label that they have not":           {map[string]string{"app": "a", "color": "red"}, nil, false},
		"one without a selector leads where somebody says":    {nil, nil, false},
		"one into which Argo has put the hash of one form":    {map[string]string{"app": "a", inject.RolloutHash: "7f8b"}, nil, true},
		"one with nothing but such a hash leads to all kinds": {map[string]string{inject.RolloutHash: "7f8b"}, nil, false},
		"a headless one": {map[string]string{"app": "a"}, func(s *corev1.Service) { s.Spec.ClusterIP = "None" }, true},
		"a name for a host elsewhere, whatever it selects":          {map[string]string{"app": "a"}, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }, false},
		"one that is to be left alone":                              {map[string]string{"app": "a"}, func(s *corev1.Service) { s.Annotations = map[string]string{"routing.signadot.com/ignore": "true"} }, false},
		"one whose annotation to be left alone says something else": {map[string]string{"app": "a"}, func(s *corev1.Service) { s.Annotations = map[string]string{"routing.signadot.com/ignore": "no"} }, true},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Service{Spec: corev1.ServiceSpec{Selector: tt.selector}}
			if tt.change != nil {
				tt.change(s)
			}
			before := len(s.Spec.Selector)
			if got := baseline.Selects(s, template); got != tt.want {
				t.Errorf("it leads there: %t", got)
			}
			if len(s.Spec.Selector) != before {
				t.Error("the Service was changed")
			}
		})
	}
}
