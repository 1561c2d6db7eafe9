package fork_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	livebaseline "switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/reconcilers/member"
)

// mapped maps Services for a fork with the given patches.
func mapped(t *testing.T, patchText string, of ...corev1.Service) []member.Mapping {
	t.Helper()
	b := baseline(t)
	c := clone(t, fork.Plan{Patches: patches(t, patchText)})
	return services.Of(livebaseline.Forms{Template: &b.Spec.Template}, c.Spec.Template.Spec, of, identity())
}

func TestServicesThatAreMapped(t *testing.T) {
	tests := []struct {
		name, service, patches string
		ports                  []crdv1.MappedPort
		missing                []int32
	}{
		{
			name:    "a named target port is resolved to the number in the pod",
			service: `{metadata: {name: customer}, spec: {selector: {app: customer}, ports: [{name: web, port: 80, targetPort: http, protocol: TCP, appProtocol: kubernetes.io/h2c}]}}`,
			ports:   []crdv1.MappedPort{{Port: 80, TargetPort: 8081}},
		},
		{
			name:    "a number needs no declaration",
			service: `{metadata: {name: customer}, spec: {selector: {app: customer}, ports: [{port: 80, targetPort: 12345, protocol: TCP}]}}`,
			ports:   []crdv1.MappedPort{{Port: 80, TargetPort: 12345}},
		},
		{
			name:    "without a target port it is the port itself",
			service: `{metadata: {name: customer}, spec: {selector: {app: customer}, ports: [{port: 9090, protocol: TCP}]}}`,
			ports:   []crdv1.MappedPort{{Port: 9090, TargetPort: 9090}},
		},
		{
			name:    "a name that no container has is missing, the others are mapped",
			service: `{metadata: {name: customer}, spec: {selector: {app: customer}, ports: [{name: a, port: 81, targetPort: nowhere, protocol: TCP}, {name: b, port: 80, targetPort: http, protocol: TCP}]}}`,
			ports:   []crdv1.MappedPort{{Port: 80, TargetPort: 8081}},
			missing: []int32{81},
		},
		{
			name:    "a name that the fork lost is missing, and mapped so that nothing reaches the baseline",
			service: `{metadata: {name: customer}, spec: {selector: {app: customer}, ports: [{port: 80, targetPort: http, protocol: TCP}]}}`,
			patches: `[{json: [{op: remove, path: /spec/template/spec/containers/0/ports/0/name}]}]`,
			ports:   []crdv1.MappedPort{{Port: 80, TargetPort: 8081}},
			missing: []int32{80},
		},
		{
			name:    "a name that no container has is all that there is",
			service: `{metadata: {name: customer}, spec: {selector: {app: customer}, ports: [{port: 81, targetPort: nowhere, protocol: TCP}]}}`,
			missing: []int32{81},
		},
		{
			name:    "a name behind which the fork has another number is known by the number of the baseline",
			service: `{metadata: {name: customer}, spec: {selector: {app: customer}, ports: [{port: 80, targetPort: http, protocol: TCP}]}}`,
			patches: `[{json: [{op: replace, path: /spec/template/spec/containers/0/ports/0/containerPort, value: 9999}]}]`,
			ports:   []crdv1.MappedPort{{Port: 80, TargetPort: 8081}},
		},
		{
			name:    "UDP is served but not routed by sidecars",
			service: `{metadata: {name: customer}, spec: {selector: {app: customer}, ports: [{name: d, port: 53, targetPort: 5353, protocol: UDP}, {name: t, port: 53, targetPort: 5354, protocol: TCP}]}}`,
			ports:   []crdv1.MappedPort{{Port: 53, TargetPort: 5354}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := service(t, tt.service)
			got := mapped(t, tt.patches, s)
			if len(got) != 1 {
				t.Fatalf("%d mappings", len(got))
			}
			m := got[0]
			if diff := cmp.Diff(tt.ports, m.Ports); diff != "" {
				t.Error("ports:", diff)
			}
			if diff := cmp.Diff(tt.missing, m.Missing); diff != "" {
				t.Error("missing:", diff)
			}
			if (m.Service != nil) != (len(tt.ports) > 0) {
				t.Fatalf("a Service was made: %t", m.Service != nil)
			}
			if m.Service == nil {
				return
			}
			for _, p := range tt.ports {
				if !slices.ContainsFunc(m.Service.Spec.Ports, func(have corev1.ServicePort) bool { return have.Port == p.Port }) {
					t.Errorf("the Service has ports %v", m.Service.Spec.Ports)
				}
			}
			if diff := cmp.Diff(identity().Selector(), m.Service.Spec.Selector); diff != "" {
				t.Error("selector:", diff)
			}
		})
	}
}

func TestServiceOfAForkIsLikeTheBaselinesWithAnAddress(t *testing.T) {
	s := service(t, `
metadata: {name: customer, namespace: hotrod, labels: {a: b}}
spec:
  type: LoadBalancer
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {app: customer}
  ports: [{name: web, port: 80, targetPort: http, nodePort: 30000, protocol: TCP, appProtocol: kubernetes.io/h2c}]`)
	got := mapped(t, `[]`, s)[0].Service
	want := service(t, `
apiVersion: v1
kind: Service
metadata:
  name: `+identity().ServiceName("customer")+`
  namespace: hotrod
  labels: {signadot.com/forked-workload: sb1-customer-0000aaaa, signadot.com/sandbox: sb1}
  annotations: {signadot.com/routing-key: key1, signadot.com/sandbox-name: sb1, signadot.com/baseline: Deployment/hotrod/customer, signadot.com/baseline-service: hotrod/customer}
  ownerReferences: [{apiVersion: signadot.com/v1, kind: ForkedWorkload, name: sb1-customer-0000aaaa, uid: fw-uid}]
spec:
  type: ClusterIP
  publishNotReadyAddresses: true
  selector: {signadot.com/forked-workload: sb1-customer-0000aaaa}
  ports: [{name: web, port: 80, targetPort: http, protocol: TCP, appProtocol: kubernetes.io/h2c}]`)
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPortsOfTheForksService(t *testing.T) {
	tests := []struct {
		name, ports string
		want        string // The ports of the fork's Service.
		mapped      []crdv1.MappedPort
		missing     []int32
	}{
		{
			name:   "two ports with one target stay two",
			ports:  `[{name: a, port: 80, targetPort: http, protocol: TCP}, {name: b, port: 8080, targetPort: http, protocol: TCP}]`,
			want:   `[{name: a, port: 80, targetPort: http, protocol: TCP}, {name: b, port: 8080, targetPort: http, protocol: TCP}]`,
			mapped: []crdv1.MappedPort{{Port: 80, TargetPort: 8081}, {Port: 8080, TargetPort: 8081}},
		},
		{
			name:   "one number for two protocols stays two ports with their names",
			ports:  `[{name: dns, port: 53, targetPort: 5353, protocol: UDP}, {name: dns-tcp, port: 53, targetPort: 5353, protocol: TCP}]`,
			want:   `[{name: dns, port: 53, targetPort: 5353, protocol: UDP}, {name: dns-tcp, port: 53, targetPort: 5353, protocol: TCP}]`,
			mapped: []crdv1.MappedPort{{Port: 53, TargetPort: 5353}},
		},
		{
			name:    "one number for two protocols without a target is missing once",
			ports:   `[{name: a, port: 53, targetPort: nowhere, protocol: UDP}, {name: b, port: 53, targetPort: nowhere, protocol: TCP}]`,
			missing: []int32{53},
		},
		{
			name:    "a name that the pod has for another protocol is missing",
			ports:   `[{name: a, port: 80, targetPort: http, protocol: UDP}]`,
			missing: []int32{80},
		},
		{
			name:   "what the protocol above TCP is called is kept, and a port of the node is not",
			ports:  `[{name: a, port: 80, targetPort: http, protocol: TCP, nodePort: 30080, appProtocol: kubernetes.io/ws}]`,
			want:   `[{name: a, port: 80, targetPort: http, protocol: TCP, appProtocol: kubernetes.io/ws}]`,
			mapped: []crdv1.MappedPort{{Port: 80, TargetPort: 8081}},
		},
		{
			name:   "SCTP is served and not routed by sidecars",
			ports:  `[{port: 9, targetPort: 9, protocol: SCTP}]`,
			want:   `[{port: 9, targetPort: 9, protocol: SCTP}]`,
			mapped: nil,
		},
		{
			name:   "without a protocol it is TCP",
			ports:  `[{port: 80}]`,
			want:   `[{port: 80, targetPort: 80, protocol: TCP}]`,
			mapped: []crdv1.MappedPort{{Port: 80, TargetPort: 80}},
		},
		{name: "a headless Service without ports leads nowhere by an address", ports: `[]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := mapped(t, `[]`, service(t, `{metadata: {name: s}, spec: {selector: {app: customer}, ports: `+tt.ports+`}}`))[0]
			var want []corev1.ServicePort
			if tt.want != "" {
				read(t, tt.want, &want)
			}
			var got []corev1.ServicePort
			if m.Service != nil {
				got = m.Service.Spec.Ports
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error("ports:", diff)
			}
			if diff := cmp.Diff(tt.mapped, m.Ports); diff != "" {
				t.Error("mapped:", diff)
			}
			if diff := cmp.Diff(tt.missing, m.Missing); diff != "" {
				t.Error("missing:", diff)
			}
		})
	}
}

func TestTheForksServiceCopiesPortsOfTheBaselines(t *testing.T) {
	const ports = `ports: [{port: 80, targetPort: 8081, protocol: TCP}]`
	tests := []struct{ name, has, want string }{
		{"the families of addresses", `{ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6, IPv4], clusterIP: "fd00::1", clusterIPs: ["fd00::1", 10.0.0.1], ` + ports + `}`,
			`{ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6, IPv4], ` + ports + `}`},
		{"that clients stay at one pod", `{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}, ` + ports + `}`,
			`{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}, ` + ports + `}`},
		{"nothing of what an API server writes for none", `{sessionAffinity: None, ` + ports + `}`, `{` + ports + `}`},
		{"nothing of near and far, which would leave out clients on other nodes",
			`{internalTrafficPolicy: Local, externalTrafficPolicy: Local, trafficDistribution: PreferClose, ` + ports + `}`, `{` + ports + `}`},
		{"nothing of what is outside of the cluster",
			`{type: LoadBalancer, externalIPs: [1.2.3.4], loadBalancerClass: x, loadBalancerSourceRanges: [1.0.0.0/8], healthCheckNodePort: 30000, ` + ports + `}`, `{` + ports + `}`},
		{"an address, which a headless one has not", `{clusterIP: None, ` + ports + `}`, `{` + ports + `}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := service(t, `{metadata: {name: s, namespace: hotrod}, spec: `+tt.has+`}`)
			s.Spec.Selector = map[string]string{"app": "customer"}
			var want corev1.ServiceSpec
			read(t, tt.want, &want)
			want.Type, want.Selector = corev1.ServiceTypeClusterIP, identity().Selector()
			if diff := cmp.Diff(want, mapped(t, `[]`, s)[0].Service.Spec); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEachServiceOfTheBaselineHasOneMapping(t *testing.T) {
	s := service(t, `{metadata: {name: s, namespace: hotrod}, spec: {selector: {app: customer}, ports: [{port: 80, protocol: TCP}]}}`)
	if got := mapped(t, `[]`, s, s); len(got) != 1 {
		t.Errorf("%d mappings for a Service that was seen twice", len(got))
	}
}

// Labels of a Service select nothing, so those that expressions match are kept; annotations never are.
func TestLabelsOfServicesAreKept(t *testing.T) {
	b := baseline(t)
	s := service(t, `{metadata: {name: s, namespace: hotrod, labels: {example.com/owner: team, other: x, signadot.com/sandbox: x, sidecar.signadot.com/x: z, notsignadot.com/x: z}, annotations: {example.com/owner: x}},
  spec: {selector: {app: customer}, ports: [{port: 80, targetPort: http, protocol: TCP}]}}`)
	for _, tt := range []struct {
		kept []string
		want []string
	}{
		{nil, nil},
		{[]string{"owner$"}, []string{"example.com/owner"}},
		{[]string{"[", "^oth"}, []string{"other"}},
		{[]string{""}, []string{"example.com/owner", "notsignadot.com/x", "other"}},
	} {
		made := services.Of(livebaseline.Forms{Template: &b.Spec.Template}, b.Spec.Template.Spec, []corev1.Service{s}, identity(), tt.kept...)[0].Service
		var got []string
		for key, value := range made.Labels {
			if s.Labels[key] == value {
				got = append(got, key)
			}
		}
		if slices.Sort(got); !slices.Equal(got, tt.want) || made.Annotations["example.com/owner"] != "" {
			t.Errorf("%q: kept are %q, annotations %v", tt.kept, got, made.Annotations)
		}
	}
}

func TestARolloutHasServicesAsADeploymentHas(t *testing.T) {
	live := rollout(t)
	got, _ := cloneRollout(t, live, fork.Plan{})
	s := service(t, `{metadata: {name: s, namespace: hotrod}, spec: {selector: {app: customer}, ports: [{port: 80, targetPort: http, protocol: TCP}]}}`)
	m := services.Of(livebaseline.Forms{Template: live.Template}, got.Template.Spec, []corev1.Service{s}, identity())
	if len(m) != 1 || m[0].Ports[0].TargetPort != 8081 || len(m[0].Missing) != 0 {
		t.Errorf("%+v", m)
	}
}

func TestServicesThatAreLeftOut(t *testing.T) {
	for name, text := range map[string]string{
		"it selects other pods":                `{metadata: {name: x}, spec: {selector: {app: other}, ports: [{port: 80}]}}`,
		"it selects on a label the pods lack":  `{metadata: {name: x}, spec: {selector: {app: customer, tier: gold}, ports: [{port: 80}]}}`,
		"it has no selector":                   `{metadata: {name: x}, spec: {ports: [{port: 80}]}}`,
		"it is a name for a host elsewhere":    `{metadata: {name: x}, spec: {type: ExternalName, externalName: a.b, selector: {app: customer}, ports: [{port: 80}]}}`,
		"its owner asked for it to be ignored": `{metadata: {name: x, annotations: {routing.signadot.com/ignore: "true"}}, spec: {selector: {app: customer}, ports: [{port: 80}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got := mapped(t, `[]`, service(t, text)); len(got) != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestMappingsAreSortedByName(t *testing.T) {
	got := mapped(t, `[]`,
		service(t, `{metadata: {name: b}, spec: {selector: {app: customer}, ports: [{port: 80, protocol: TCP}]}}`),
		service(t, `{metadata: {name: a}, spec: {selector: {version: v1}, ports: [{port: 80, protocol: TCP}]}}`))
	if len(got) != 2 || got[0].From != "a" || got[1].From != "b" {
		t.Errorf("%+v", got)
	}
}

func TestAPortWithTwoNamesIsWrittenOnceAndServedUnderBoth(t *testing.T) {
	b := baseline(t)
	main := &b.Spec.Template.Spec.Containers[0]
	main.Ports = append(main.Ports, corev1.ContainerPort{Name: "metrics", ContainerPort: 8081})
	main.Env = append(main.Env, corev1.EnvVar{Name: "COLOR", Value: "red"})
	b.Spec.Template.Spec.HostAliases = []corev1.HostAlias{{IP: "1.1.1.1", Hostnames: []string{"a"}}, {IP: "1.1.1.1", Hostnames: []string{"b"}}}
	b.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}, {Name: "s"}}
	c, problem := cloneOf(b, fork.Plan{Identity: identity()})
	if problem != nil {
		t.Fatal(problem.Message)
	}
	written := fork.Writable(c).(*appsv1.Deployment).Spec.Template.Spec
	if diff := cmp.Diff([]corev1.ContainerPort{{Name: "http", ContainerPort: 8081}, {ContainerPort: 9090}}, written.Containers[0].Ports); diff != "" {
		t.Error("ports:", diff)
	}
	if env := written.Containers[0].Env; len(env) != 3 || env[2].Value != "red" {
		t.Errorf("of a variable that is given twice the last counts: %v", env)
	}
	if diff := cmp.Diff([]corev1.HostAlias{{IP: "1.1.1.1", Hostnames: []string{"a", "b"}}}, written.HostAliases); diff != "" || len(written.ImagePullSecrets) != 1 {
		t.Error("aliases and secrets:", diff, written.ImagePullSecrets)
	}
	s := service(t, `{metadata: {name: x}, spec: {selector: {app: customer}, ports: [{port: 80, targetPort: metrics, protocol: TCP}]}}`)
	m := services.Of(livebaseline.Forms{Template: &b.Spec.Template}, c.Spec.Template.Spec, []corev1.Service{s}, identity())[0]
	if m.Service == nil || m.Service.Spec.Ports[0].TargetPort.IntVal != 8081 || m.Ports[0].TargetPort != 8081 {
		t.Errorf("%+v", m)
	}
}
