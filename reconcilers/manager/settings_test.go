package manager

import (
	"bytes"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/publisher"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/trafficcapture"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/sidecars/inject"
)

// environment is what the chart sets.
func environment(key string) string {
	return map[string]string{
		"POD_NAME":            "manager-1",
		"EVENTBUS_URL":        "nats://bus:4222",
		"SIDECAR_INIT_IMAGE":  "init:1",
		"ROUTE_SIDECAR_IMAGE": "sidecar:1",
	}[key]
}

func TestSettings(t *testing.T) {
	s, err := ParseSettings([]string{"--leader-elect"}, environment, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{s.Bus.URL, s.Bus.Name, s.Bus.TokenFile, s.MetricsAddress, s.HealthAddress, s.WebhookAddress, s.ClusterConfig,
		s.Inject.Sidecar.Image, s.Inject.Redirect.Image}
	want := []string{"nats://bus:4222", "manager-1", "/var/run/secrets/tokens/eventbus", ":8080", ":8081", ":9443",
		"/etc/signadot/cluster_config.yaml", "sidecar:1", "init:1"}
	if diff := cmp.Diff(want, got); diff != "" || !s.LeaderElect {
		t.Error(diff, s.LeaderElect)
	}
	if want := (publisher.Bounds{Events: 100_000, Age: 7 * 24 * time.Hour}); s.History != want {
		t.Errorf("the history is %+v", s.History)
	}
	less, err := ParseSettings([]string{"--history-events=5", "--history-age=0"}, environment, &bytes.Buffer{})
	if want := (publisher.Bounds{Events: 5}); err != nil || less.History != want {
		t.Errorf("the history is %+v, %v", less.History, err)
	}
	own, err := ParseSettings([]string{"--eventbus-credentials-file=/c"}, environment, &bytes.Buffer{})
	if err != nil || own.Bus.TokenFile != "" {
		t.Errorf("with credentials of its own it has no token: %q, %v", own.Bus.TokenFile, err)
	}
}

func TestRouteServerForReceipts(t *testing.T) {
	elsewhere := func(key string) string {
		if key == "ROUTESERVER_ADDRESS" {
			return "routes.example:1"
		}
		return environment(key)
	}
	for _, c := range []struct {
		name   string
		args   []string
		getenv func(string) string
		want   string
	}{
		{"the Service of the chart", nil, environment, "routeserver.signadot.svc:7777"},
		{"what the environment says", nil, elsewhere, "routes.example:1"},
		{"what the flag says", []string{"--routeserver-address=127.0.0.1:7"}, elsewhere, "127.0.0.1:7"},
		{"nobody, when nothing waits", []string{"--wait-for-proxies=false", "--routeserver-address="}, elsewhere, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ParseSettings(c.args, c.getenv, &bytes.Buffer{})
			if err != nil || s.routeServer() != c.want {
				t.Errorf("it is %q, %v", s.routeServer(), err)
			}
		})
	}
	if _, err := ParseSettings([]string{"--routeserver-address=routeserver"}, environment, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Errorf("an address without a port gives %v", err)
	}
}

func TestABusOfOnesOwnWithThreeServers(t *testing.T) {
	s, err := ParseSettings([]string{
		"--eventbus-url=tls://a:4222,tls://b:4222,tls://c:4222", "--eventbus-replicas=3", "--eventbus-ca-file=/ca",
		"--eventbus-credentials-file=/creds", "--eventbus-cert-file=/cert", "--eventbus-key-file=/key",
	}, environment, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	want := connect.Config{
		URL: "tls://a:4222,tls://b:4222,tls://c:4222", Role: connect.Writer, Name: "manager-1",
		CAFile: "/ca", CredentialsFile: "/creds", CertFile: "/cert", KeyFile: "/key",
	}
	if s.Bus != want || s.Replicas != 3 {
		t.Errorf("the bus is %+v with %d replicas", s.Bus, s.Replicas)
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	none := func(string) string { return "" }
	for name, tt := range map[string]struct {
		args   []string
		getenv func(string) string
		says   string
	}{
		"an argument that is no flag":    {[]string{"run"}, environment, `"run"`},
		"a flag that does not exist":     {[]string{"--no-such"}, environment, "no-such"},
		"a bus that is no address":       {[]string{"--eventbus-url=::"}, environment, "event bus"},
		"an even number of servers":      {[]string{"--eventbus-replicas=2"}, environment, "eventbus-replicas"},
		"a certificate without a key":    {[]string{"--eventbus-cert-file=/c"}, environment, "KeyFile"},
		"no history":                     {[]string{"--history-events=0"}, environment, "history-events"},
		"a history of negative age":      {[]string{"--history-age=-1h"}, environment, "history-age"},
		"no image for the sidecar":       {nil, none, "image"},
		"a question for the usage alone": {[]string{"-help"}, environment, flag.ErrHelp.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseSettings(tt.args, tt.getenv, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestTheCacheKeepsOnlyWhatIsRead(t *testing.T) {
	when := metav1.Now()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d", crdv1.AnnotationProcessed: "why"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "x", Env: []corev1.EnvVar{{Name: "SECRET", Value: "s"}, {Name: "PLAIN_PORTS", Value: "1"}},
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, HostIP: "1.2.3.4"}, {ContainerPort: 8081}}}},
			InitContainers: []corev1.Container{
				{Name: "sd-sidecar", Image: "y", Env: []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}, {Name: "PLAIN_PORTS", Value: "22,8081"}}},
				{Name: "sd-sidecar-init", Image: "z", Command: []string{"c"}, Env: []corev1.EnvVar{
					{Name: "SWITCHYARD_REDIRECT_PORTS", Value: "all"}, {Name: "SWITCHYARD_REDIRECT_EXCEPT", Value: "9090"}}}},
		},
		Status: corev1.PodStatus{
			Phase: "Running", PodIP: "1.2.3.4",
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true, Image: "x"}},
		},
	}
	fork := pod.DeepCopy()
	fork.Labels[crdv1.LabelForkedWorkload] = "f"
	fork.Annotations = map[string]string{inject.AnnotationAmbient: "enabled", "other": "x"}
	if _, err := transform(keepSidecars)(fork); err != nil || !inject.InMesh(fork) || len(fork.Annotations) != 1 {
		t.Errorf("a fork in the ambient mesh is kept as %+v, %v", fork, err)
	}
	if _, err := transform(keepSidecars)(fork); err != nil || len(fork.Spec.Containers) != 1 || fork.Status.ContainerStatuses[0].Name != "main" {
		t.Errorf("of a pod of a fork, whose own containers are told of, there is %+v, %v", fork.Status, err)
	}
	gated := fork.DeepCopy()
	gated.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb"}}
	gated.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: "False", LastProbeTime: metav1.Now()}, {Type: corev1.ContainersReady, Status: "True"}, {Type: "lb", Status: "False", Message: "no target"}, {Type: "x"}}
	if _, err := transform(keepSidecars)(gated); err != nil || len(gated.Spec.ReadinessGates) != 1 || len(gated.Status.Conditions) != 3 || gated.Status.Conditions[2].Message != "no target" || !gated.Status.Conditions[0].LastProbeTime.IsZero() {
		t.Errorf("of a pod of a fork that waits for a readiness gate there is %+v, %+v, %v", gated.Spec, gated.Status, err)
	}
	for _, status := range []corev1.ConditionStatus{"False", "Unknown", "True"} {
		replica := pod.DeepCopy()
		replica.Labels["app"], replica.Status.Conditions = trafficcapture.ManagerName, []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastProbeTime: metav1.Now()}, {Type: "x"}}
		var want []corev1.PodCondition
		if status != "True" {
			want = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
		}
		if _, err := transform(keepSidecars)(replica); err != nil || !slices.Equal(replica.Status.Conditions, want) {
			t.Errorf("of a pod of traffic-manager on a node that may not answer (%s) there is %+v, %v", status, replica.Status, err)
		}
	}
	plain := pod.DeepCopy()
	plain.Spec.InitContainers = nil
	if _, err := transform(keepSidecars)(plain); err != nil || len(plain.Spec.Containers) != 0 {
		t.Errorf("of a pod without a sidecar, whose ports no key leads through, there is %+v, %v", plain.Spec, err)
	}
	beside := pod.DeepCopy()
	beside.Spec.InitContainers = append(beside.Spec.InitContainers, corev1.Container{Name: "istio-proxy", Image: "i"})
	if _, err := transform(keepSidecars)(beside); err != nil || coverage.PodOf(beside).Beside != "istio-proxy" {
		t.Errorf("of a pod with another proxy beside the sidecar there is %+v, %v", beside.Spec, err)
	}
	got, err := transform(keepSidecars)(pod)
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{crdv1.AnnotationProcessed: "why"}},
		Spec: corev1.PodSpec{InitContainers: []corev1.Container{
			{Name: "sd-sidecar", Image: "y", Env: []corev1.EnvVar{{Name: "PLAIN_PORTS", Value: "22,8081"}}},
			{Name: "sd-sidecar-init", Image: "z", Env: []corev1.EnvVar{{Name: "SWITCHYARD_REDIRECT_EXCEPT", Value: "9090"}}}},
			Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}},
		Status: corev1.PodStatus{Phase: "Running"},
	}
	if diff := cmp.Diff(any(want), got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "m", Time: &when, FieldsV1: metav1.NewFieldsV1("{}")},
	}}}
	if _, err := transform(keepManagers)(service); err != nil || service.ManagedFields[0].FieldsV1 != nil || service.ManagedFields[0].Manager != "m" {
		t.Errorf("%v, %v", service.ManagedFields, err)
	}
	service.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "a": "b"}
	if _, err := transform(keepNoBooks)(service); err != nil || service.ManagedFields != nil || len(service.Annotations) != 1 {
		t.Errorf("%v, %v, %v", service.ManagedFields, service.Annotations, err)
	}
	gone := cache.DeletedFinalStateUnknown{Key: "k"}
	if got, err := transform(keepManagers)(gone); err != nil || got != any(gone) {
		t.Errorf("%v, %v", got, err)
	}
}
