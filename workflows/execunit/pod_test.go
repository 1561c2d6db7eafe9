package execunit_test

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/golden"
	"switchyard.dev/workflows/execunit"
)

// The pods of units that have all there is, and next to nothing.
func TestPodsEqualTheGoldenFiles(t *testing.T) {
	all := written{
		meta: "namespace: shop, labels: {team: pay, signadot.com/unit: other}, annotations: {note: x}",
		pod:  "activeDeadlineSeconds: 90, imagePullSecrets: [{name: own}], initContainers: [{name: prepare, image: i}], volumes: [{name: v, emptyDir: {}}]",
		main: "image: runner, command: [other], args: [a], terminationMessagePolicy: FallbackToLogsOnError, volumeMounts: [{name: v, mountPath: /v}], env: [{name: A, value: b}]",
		exec: `script: "#!/bin/sh", inputInjects: [{inputName: size, dst: {env: SIZE, localPath: /etc/size}}, {inputName: host, dst: {localPath: /etc/host}}], outputExports: [{outputName: host, fromPath: /tmp/host}]`,
		unit: "inputs: [{name: size, value: secret-constant}, {name: host, iocontext: {key: a.b}}], outputs: [{name: host}]",
	}
	command := written{exec: `script: ""`, pod: "serviceAccountName: runner", main: "image: runner, command: [make], args: [all]"}
	s := settings
	s.PullSecrets, s.Deadline, s.Allow, s.InitPullPolicy = []string{"own", "operator"}, 10*time.Minute, execunit.Powers{execunit.ServiceAccount}, "Never"
	for name, w := range map[string]written{"all": all, "command": command, "plain": {}} {
		u := unit(t, w.text())
		before := u.DeepCopy()
		if p := execunit.Accept(u, "", s); p != nil {
			t.Fatalf("%s: %s", name, p.Message)
		}
		text, err := yaml.Marshal(execunit.Pod(u, identity, s))
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "testdata/"+name+".yaml", string(text))
		if strings.Contains(string(text), "secret-constant") {
			t.Errorf("%s: a value is in the pod", name)
		}
		if after, _ := yaml.Marshal(u); string(after) != mustYAML(t, before) {
			t.Errorf("%s: the unit was changed", name)
		}
	}
}

func mustYAML(t *testing.T, o any) string {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNamesOfPodsEndAtRandom(t *testing.T) {
	long := identity
	long.Lifecycle = strings.Repeat("l", 253)
	names := map[string]bool{}
	for _, who := range []execunit.Identity{identity, long} {
		for _, random := range []string{"abcdefghijklmnop", "abcdefghijklmnoq"} {
			name := execunit.PodName(who, random)
			if len(name) > crdv1.MaxServiceName || !strings.HasSuffix(name, "-"+random) {
				t.Errorf("%s", name)
			}
			names[name] = true
		}
	}
	if len(names) != 4 {
		t.Errorf("%v", names)
	}
}

// A field of old names the account where the new one is empty.
func TestTheServiceAccountIsTheOneThatIsNamed(t *testing.T) {
	for spec, want := range map[string]string{"": "default", "serviceAccount: old": "old", "serviceAccountName: runner": "runner", "serviceAccountName: runner, serviceAccount: old": "runner"} {
		if got := execunit.Pod(unit(t, written{pod: spec}.text()), identity, settings).Spec.ServiceAccountName; got != want {
			t.Errorf("with {%s} it is %q", spec, got)
		}
	}
}

// Who runs units ends scripts at their deadline. The node is not to end what hands in the outputs
// of a script that has ended with 0.
func TestAPodMayHandInItsOutputsAfterTheDeadline(t *testing.T) {
	s := settings
	if got := execunit.Pod(unit(t, plain), identity, s).Spec.ActiveDeadlineSeconds; got != nil {
		t.Errorf("without a deadline it is %d", *got)
	}
	s.Deadline = time.Minute
	if got := execunit.Pod(unit(t, plain), identity, s).Spec.ActiveDeadlineSeconds; got == nil || *got < 3600 {
		t.Errorf("it is %v seconds", got)
	}
}
