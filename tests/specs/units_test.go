package specs

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/execunit"
)

// rightSpecs are specs of a unit's pod; podSpecs are those, and some that nobody takes.
var (
	rightSpecs = []string{
		"{}",
		"{containers: [{name: main, image: i}]}",
		"{containers: [{name: main, image: i, command: [a, b], args: [c]}]}",
		"{containers: [{name: a, image: i, command: [a]}, {name: b, image: i}]}",
		"{initContainers: [{name: s, image: i, restartPolicy: Always}, {name: i, image: i}], containers: [{name: main, image: i, restartPolicy: Never}]}",
		"{restartPolicy: Never, containers: [{name: main, image: i}]}",
		"{volumes: [{name: v, emptyDir: {}}], containers: [{name: main, image: i, volumeMounts: [{name: v, mountPath: /d}]}]}",
		"{hostUsers: false, shareProcessNamespace: true, securityContext: {runAsUser: 1000, fsGroup: 1000, runAsNonRoot: true}, containers: [{name: main, image: i}]}",
		"{activeDeadlineSeconds: 5, terminationGracePeriodSeconds: 5, containers: [{name: main, image: i, lifecycle: {preStop: {exec: {command: [a]}}}}]}",
		"{os: {name: linux}, containers: [{name: main, image: i}]}",
		"{containers: [{name: main, image: i, terminationMessagePath: /x, terminationMessagePolicy: FallbackToLogsOnError}]}",
		"{imagePullSecrets: [{name: pull}], containers: [{name: main, image: i, envFrom: [{secretRef: {name: s}}]}]}",
	}
	podSpecs = append([]string{
		"",
		"{containers: []}",
		"{containers: [{name: main}]}",
		"{containers: [{name: main, image: i}, {name: main, image: i}]}",
		"{containers: [{name: A, image: i}]}",
		"{containers: [{name: main, image: i, restartPolicy: OnFailure}]}",
		"{restartPolicy: Always, containers: [{name: main, image: i}]}",
		"{containers: [{name: main, image: i, volumeMounts: [{name: v, mountPath: /d}]}]}",
		"{volumes: [{name: v, emptyDir: {}}], containers: [{name: main, image: i, volumeMounts: [{name: v, mountPath: /signadot/io/x}]}]}",
		"{volumes: [{name: v, emptyDir: {}}, {name: v, emptyDir: {}}], containers: [{name: main, image: i}]}",
		"{volumes: [{name: signadot-execunit-io, emptyDir: {}}], containers: [{name: main, image: i}]}",
		"{os: {name: windows}, containers: [{name: main, image: i}]}",
		"{serviceAccountName: a, containers: [{name: main, image: i}]}",
		"{ephemeralContainers: [{name: e, image: i}], containers: [{name: main, image: i}]}",
		"{hostNetwork: true, containers: [{name: main, image: i}]}",
	}, rightSpecs...)
)

// paths are those of files, some of which nobody takes.
var paths = []string{"", "/", "a", "/a", "/d", "/a b", "/ü", "/a:b", "/a/../b", "/a/", "//a", "/signadot", "/signadot/io/run", "/" + strings.Repeat("x", 300), "/" + strings.Repeat("x", 5000)}

// TestPodsOfUnitsAreTaken asks an API server about the pods of random units: it takes each, or it
// was said in a line why there is none.
func TestPodsOfUnitsAreTaken(t *testing.T) {
	w := world.Shared(t)
	w.Namespaces("units")
	taken, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		right := rapid.IntRange(0, 9).Draw(t, "right") > 2
		pick := func(name string, good, all []string) string {
			if right {
				all = good
			}
			return rapid.SampledFrom(all).Draw(t, name)
		}
		u := crdv1.WorkUnit{Name: text(t, "Name", rapid.IntRange(0, 9).Draw(t, "luck") > 0), Type: "ExecUnit", ExecUnitTemplate: &crdv1.ExecUnitTemplate{}}
		e := u.ExecUnitTemplate
		if err := yaml.UnmarshalStrict([]byte(pick("pod", rightSpecs, podSpecs)), &e.PodTemplate.Spec); err != nil {
			t.Fatal(err)
		}
		e.PodTemplate.Namespace = pick("namespace", []string{"", "units"}, []string{"", "A B"})
		e.Script = pick("script", []string{"#!/bin/sh"}, []string{"#!/bin/sh", "", "echo"})
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b-C", "c"}), 0, 3, rapid.ID).Draw(t, "inputs") {
			u.Inputs = append(u.Inputs, crdv1.WorkUnitInput{Name: name, Value: pick("value", []string{"", "x"}, []string{"", "\x00", strings.Repeat("x", 140000)})})
			e.InputInjects = append(e.InputInjects, crdv1.InputInject{InputName: name, Dst: crdv1.InputDestination{
				Env: pick("env", []string{"E." + name, "e_" + name}, []string{"", "A", "1=", "ü"}), LocalPath: pick("file", []string{"", "/" + name, "/ü " + name, "/" + strings.Repeat("x", 4000) + name}, paths),
			}})
		}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b"}), 0, 2, rapid.ID).Draw(t, "outputs") {
			u.Outputs = append(u.Outputs, crdv1.WorkUnitOutput{Name: name})
			e.OutputExports = append(e.OutputExports, crdv1.OutputExport{OutputName: name, FromPath: pick("file", []string{"/" + name}, paths)})
		}
		s := execunit.Settings{
			InitImage: "init", SidecarImage: "sidecar", PullSecrets: []string{"pull"}, Address: "https://a:8443", CA: "PEM", OperatorNamespace: "units",
			AuthorAsked: true, Deadline: time.Duration(rapid.IntRange(0, 2).Draw(t, "deadline")) * time.Minute,
		}
		if p := execunit.Accept(u, "own", s); p != nil {
			if refused++; p.Reason == "" || p.Message == "" {
				t.Fatalf("refused, and nobody says why: %+v", u)
			}
			return
		}
		taken++
		pod := execunit.Pod(u, execunit.Identity{Lifecycle: "l." + strings.Repeat("x", 200), UID: "u", Unit: u.Name, Pod: "pod-3", Attempt: 3, Sandbox: strings.Repeat("s", 100)}, s)
		pod.OwnerReferences[0].UID = "11111111-1111-1111-1111-111111111111"
		if err := w.Client.Create(w.Context(), pod, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			t.Fatalf("%v\n%+v", err, u)
		}
	})
	t.Logf("%d taken, %d refused", taken, refused)
	if taken == 0 || refused == 0 {
		t.Error("one of the answers never came")
	}
}
