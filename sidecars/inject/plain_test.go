package inject

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
)

// registered are the DefaultPlainPorts, in numbers, so that a change of them is seen here.
func registered(more ...uint16) []uint16 {
	ports := append([]uint16{21, 22, 25, 110, 143, 587, 3306, 4222, 5900}, more...)
	slices.Sort(ports)
	return ports
}

func without(port uint16) []uint16 {
	return slices.DeleteFunc(registered(), func(p uint16) bool { return p == port })
}

func ports(declared ...corev1.ContainerPort) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Ports = declared }
}

func TestWhichPortsPassUnseen(t *testing.T) {
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   []uint16
	}{
		"the registered ones": {func(*corev1.Pod) {}, registered()},
		"one named after a protocol in which the server speaks first": {
			ports(corev1.ContainerPort{Name: "mysql", ContainerPort: 13306}), registered(13306)},
		"one named after it and after its role": {
			ports(corev1.ContainerPort{Name: "smtp-relay", ContainerPort: 2525, Protocol: "TCP"}), registered(2525)},
		"not one whose name only begins with the same letters": {
			ports(corev1.ContainerPort{Name: "natsume", ContainerPort: 1}, corev1.ContainerPort{Name: "smtps", ContainerPort: 465}),
			registered()},
		"not one in which the client speaks first": {
			ports(corev1.ContainerPort{Name: "amqp", ContainerPort: 5672}, corev1.ContainerPort{Name: "postgres", ContainerPort: 5432}),
			registered()},
		"not a registered one that is named http": {
			ports(corev1.ContainerPort{Name: "http", ContainerPort: 4222}), without(4222)},
		"not a registered one that is named grpc and something": {
			ports(corev1.ContainerPort{Name: "grpc-api", ContainerPort: 3306}), without(3306)},
		"not the HTTP port of such a server": {
			ports(corev1.ContainerPort{Name: "nats-http", ContainerPort: 8222}), registered()},
		"a UDP port of that name and number says nothing": {
			ports(corev1.ContainerPort{Name: "http", ContainerPort: 4222, Protocol: "UDP"},
				corev1.ContainerPort{Name: "mysql", ContainerPort: 9, Protocol: "UDP"}), registered()},
		"one of an init container that keeps running": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "db", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
				Ports: []corev1.ContainerPort{{Name: "mysql", ContainerPort: 13306}}}}
		}, registered(13306)},
		"not one of an init container that ends": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "db",
				Ports: []corev1.ContainerPort{{Name: "mysql", ContainerPort: 13306}}}}
		}, registered()},
		"those of the annotation and no others": {func(p *corev1.Pod) {
			p.Annotations[AnnotationPlainPorts] = "5432, 3306"
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "mysql", ContainerPort: 13306}, {Name: "http", ContainerPort: 5432}}
		}, []uint16{3306, 5432}},
		"none": {func(p *corev1.Pod) { p.Annotations[AnnotationPlainPorts] = "none" }, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Decide(baseline(c.change), Namespace{Name: "shop"}, testConfig())
			if diff := cmp.Diff(c.want, got.Plain, cmpopts.EquateEmpty()); diff != "" || !got.Inject {
				t.Errorf("%s %s", got.Reason, diff)
			}
		})
	}
}

func TestAnAnnotationForPlainPortsThatCannotBeReadIsAReason(t *testing.T) {
	for value, says := range map[string]string{
		"mysql":                        `"mysql" is not a port`,
		"3306,70000":                   `"70000" is not a port`,
		"":                             `write "none"`,
		" , ":                          `write "none"`,
		"none,3306":                    `"none" is not a port`,
		strings.Join(many(257), ","):   "at most 256",
		strings.Repeat("3306,", 10000): "",
	} {
		got := Decide(baseline(func(p *corev1.Pod) { p.Annotations[AnnotationPlainPorts] = value }), Namespace{Name: "shop"}, testConfig())
		if says == "" {
			if !got.Inject {
				t.Errorf("refused: %s", got.Reason)
			}
			continue
		}
		if got.Inject || !got.Asked || !strings.Contains(got.Reason, says) || !strings.Contains(got.Reason, AnnotationPlainPorts) {
			t.Errorf("%.20q: inject %v, reason %q, want one with %q", value, got.Inject, got.Reason, says)
		}
	}
}

func TestTheSidecarIsToldItsPlainPortsInWords(t *testing.T) {
	if got := plainValue(nil); got != "none" {
		t.Errorf("no ports are %q: what is empty is the default to the sidecar", got)
	}
	if got := plainValue([]uint16{22, 3306}); got != "22,3306" {
		t.Error(got)
	}
}
