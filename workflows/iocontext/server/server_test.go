package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/iocontext/store"
	"switchyard.dev/workflows/iocontext/unit"
)

// canary is in each value that must not leak.
const canary = "CANARY-9c1f"

// The three programs of a unit's pod run one after the other, as in a pod, but that their volume
// is a folder of this machine.
func TestAUnitHasItsInputsAndItsOutputsAreKept(t *testing.T) {
	s := newSite(t)
	out := t.TempDir()
	methods := s.lifecycle("db")
	pod, make := s.pod("make-1-random"), methods.Spec.PreStart[0].ExecUnitTemplate
	s.Get(methods)
	methods.Spec.PreStart[0].ExecUnitTemplate.Script = strings.ReplaceAll(make.Script, "OUT", out)
	for i := range methods.Spec.PreStart[0].ExecUnitTemplate.OutputExports {
		export := &methods.Spec.PreStart[0].ExecUnitTemplate.OutputExports[i]
		export.FromPath = strings.ReplaceAll(export.FromPath, "OUT", out)
	}
	s.Must(s.Client.Update(t.Context(), methods))
	s.says(methods, named("make", pod))
	volume, server := unit.Volume{Root: t.TempDir()}, s.server(methods, "make", s.token(pod))
	received := inBackground(func() *iocontext.Ending { return unit.Receive(t.Context(), server, volume, "/bin/true") })
	delivered := inBackground(func() *iocontext.Ending { return unit.Deliver(t.Context(), server, volume) })
	select {
	case ending := <-received:
		t.Fatalf("before the status has the UID of the pod: %+v", ending)
	case <-time.After(300 * time.Millisecond):
	}
	s.says(methods, s.running(methods, "make", pod))
	if ending := <-received; ending != nil {
		t.Fatalf("the inputs: %+v", ending)
	}
	ended := unit.Main{Volume: volume, Environ: os.Environ(), Stdout: t.Output(), Stderr: t.Output()}.Run()
	if ended.Reason != "" {
		t.Fatalf("the script: %+v", ended)
	}
	if ending := <-delivered; ending != nil {
		t.Fatalf("the outputs: %+v", ending)
	}
	key, err := os.ReadFile(filepath.Join(out, "copy"))
	s.Must(err)
	if got := s.kept(methods, "make.url"); got != "postgres://u:"+canary+"@db" || s.kept(methods, "make.key") != string(key) {
		t.Errorf("kept are %q and a key of %d bytes", got, len(s.kept(methods, "make.key")))
	}
	// The next unit reads them.
	next := s.pod("next")
	s.says(methods, crdv1.WorkUnitStatus{Name: "make", Phase: crdv1.UnitSucceeded}, s.running(methods, "use", next))
	volume = unit.Volume{Root: t.TempDir()}
	if ending := unit.Receive(t.Context(), s.server(methods, "use", s.token(next)), volume, "/bin/true"); ending != nil {
		t.Fatalf("the inputs of the next: %+v", ending)
	}
	for name, want := range map[string]string{"url": "postgres://u:" + canary + "@db", "name": "constant"} {
		if got, err := os.ReadFile(filepath.Join(volume.Root, "inputs", name)); err != nil || string(got) != want {
			t.Errorf("input %s is %q, %v", name, got, err)
		}
	}
	if keys, err := s.store.Keys(t.Context(), methods); err != nil || fmt.Sprint(keys) != "[make.key make.url]" {
		t.Errorf("kept are %q, %v", keys, err)
	}
	if strings.Contains(s.logs.String(), canary) {
		t.Errorf("a value is logged:\n%s", s.logs)
	}
}

func inBackground[T any](f func() T) <-chan T {
	done := make(chan T, 1)
	go func() { done <- f() }()
	return done
}

func TestAValueHasAMebibyteAtMost(t *testing.T) {
	s := newSite(t)
	pod, methods := s.pod("p"), s.lifecycle("db")
	s.says(methods, s.running(methods, "make", pod))
	token := s.token(pod)
	largest := make([]byte, iocontext.MaxValue)
	_, _ = rand.Read(largest) // never fails
	for _, tt := range []struct {
		what string
		body func() io.Reader
		want string
		kept []byte
	}{
		{"the largest", func() io.Reader { return bytes.NewReader(largest) }, "204", largest},
		{"one byte more", func() io.Reader { return bytes.NewReader(append(largest[:len(largest):len(largest)], 'x')) }, "413 OutputTooLarge", largest},
		{"one more, of an undeclared length", func() io.Reader {
			return io.MultiReader(bytes.NewReader(largest), strings.NewReader("x"))
		}, "413 OutputTooLarge", largest},
		{"no length, the largest", func() io.Reader { return io.MultiReader(bytes.NewReader(largest)) }, "204", largest},
		{"nothing", func() io.Reader { return strings.NewReader("") }, "204", nil},
	} {
		if got := s.asks("PUT", output(methods, "make", "key"), token, tt.body); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
		}
		if got := s.kept(methods, "make.key"); got != string(tt.kept) {
			t.Errorf("%s: %d bytes are kept", tt.what, len(got))
		}
	}
}

func TestInputsThatCannotBeGiven(t *testing.T) {
	s := newSite(t)
	for what, tt := range map[string]struct {
		spoils crdv1.WorkUnitInput
		want   string
	}{
		"of another context":  {crdv1.WorkUnitInput{Name: "x", IOContext: &crdv1.IOContextRef{Name: "others", Key: "make.url"}}, "403 OtherContext"},
		"not kept":            {crdv1.WorkUnitInput{Name: "x", IOContext: &crdv1.IOContextRef{Key: "make.none"}}, "403 InputMissing"},
		"of its own, by name": {crdv1.WorkUnitInput{Name: "x", IOContext: &crdv1.IOContextRef{Name: "own", Key: "make.url"}}, "200"},
	} {
		name := strings.NewReplacer(" ", "-", ",", "").Replace(what)
		pod, methods := s.pod(name), s.lifecycle(name, tt.spoils)
		s.Get(methods)
		methods.Spec.IOContextName = "own"
		s.Must(s.Client.Update(t.Context(), methods))
		s.keeps(methods, "make.url", canary)
		s.says(methods, s.running(methods, "use", pod))
		if got := s.asks("GET", assignment(methods, "use"), s.token(pod), func() io.Reader { return nil }); got != tt.want {
			t.Errorf("%s: %s, want %s", what, got, tt.want)
		}
	}
	// 1 MiB in 17 variables.
	repeated, of := s.pod("repeated"), s.lifecycle("repeated")
	s.Get(of)
	for i := range 17 {
		of.Spec.PreStart[1].ExecUnitTemplate.InputInjects = append(of.Spec.PreStart[1].ExecUnitTemplate.InputInjects,
			crdv1.InputInject{InputName: "url", Dst: crdv1.InputDestination{Env: fmt.Sprint("V", i)}})
	}
	s.Must(s.Client.Update(t.Context(), of))
	s.keeps(of, "make.url", strings.Repeat("x", iocontext.MaxValue))
	s.says(of, s.running(of, "use", repeated))
	if got := s.asks("GET", assignment(of, "use"), s.token(repeated), func() io.Reader { return nil }); got != "403 InputsTooLarge" {
		t.Errorf("1 MiB in 17 variables: %s", got)
	}
	pod, methods := s.pod("large"), s.lifecycle("large")
	s.Get(methods)
	for i := range 17 {
		key := fmt.Sprint("make.", i)
		methods.Spec.PreStart[1].Inputs = append(methods.Spec.PreStart[1].Inputs, crdv1.WorkUnitInput{Name: fmt.Sprint("i", i), IOContext: &crdv1.IOContextRef{Key: key}})
		s.keeps(methods, key, strings.Repeat("x", iocontext.MaxValue))
	}
	s.keeps(methods, "make.url", canary)
	s.Must(s.Client.Update(t.Context(), methods))
	s.says(methods, s.running(methods, "use", pod))
	if got := s.asks("GET", assignment(methods, "use"), s.token(pod), func() io.Reader { return nil }); got != "403 InputsTooLarge" {
		t.Errorf("17 MiB of inputs: %s", got)
	}
	s.Must(s.store.DeleteAll(t.Context(), methods))
	if keys, err := s.store.Keys(t.Context(), methods); len(keys) > 0 || err != nil {
		t.Errorf("kept are still %q, %v", keys, err)
	}
}

// A pod of an earlier attempt was permitted to write, and another attempt writes before it does.
func TestALateWriterReplacesNothing(t *testing.T) {
	s := newSite(t)
	for _, before := range []string{"", "first"} {
		methods := s.lifecycle("late" + before)
		if before != "" {
			s.keeps(methods, "make.url", before)
		}
		asked, ended := 0, errors.New("another attempt runs")
		err := s.store.Put(t.Context(), methods, "make.url", []byte("late"), store.Giver{Pod: "old pod"}, func(ctx context.Context) error {
			if asked++; asked > 1 {
				return ended
			}
			return s.store.Put(ctx, methods, "make.url", []byte("new"), store.Giver{Pod: "new pod"}, func(context.Context) error { return nil })
		})
		if !errors.Is(err, ended) || s.kept(methods, "make.url") != "new" {
			t.Errorf("the late writer gets %v, and %q is stored", err, s.kept(methods, "make.url"))
		}
	}
}

func TestOtherSecretsAreNotTakenForValues(t *testing.T) {
	s := newSite(t)
	methods := s.lifecycle("db")
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.store.Namespace, Name: store.SecretName(methods.UID, "make.url")}})
	if _, _, err := s.store.Get(t.Context(), methods, "make.url"); err == nil {
		t.Error("another Secret is a value")
	}
	if err := s.store.DeleteAll(t.Context(), methods); err != nil {
		t.Error(err)
	}
	var all corev1.SecretList
	s.List(&all, client.InNamespace(s.store.Namespace))
	if len(all.Items) != 1 {
		t.Errorf("there are %d Secrets", len(all.Items))
	}
}

// An output is stored however often the API server is unavailable in between.
func TestAnOutputIsSentUntilItIsKept(t *testing.T) {
	s := newSite(t)
	pod, methods := s.pod("p"), s.lifecycle("db")
	volume := unit.Volume{Root: t.TempDir()}
	server := s.server(methods, "make", "e30.e30.c2ln")
	s.Must(os.MkdirAll(filepath.Join(volume.Root, "outputs"), 0o750))
	s.Must(os.WriteFile(filepath.Join(volume.Root, "outputs", "url"), []byte("value"), 0o600))
	s.Must(os.WriteFile(filepath.Join(volume.Root, "result.json"), []byte(`{"exitCode":1,"reason":"ScriptFailed","ran":true,"outputs":["url"]}`), 0o600))
	delivered := inBackground(func() *iocontext.Ending { return unit.Deliver(t.Context(), server, volume) })
	select {
	case ending := <-delivered:
		t.Fatalf("without a good token it ends: %+v", ending)
	case <-time.After(300 * time.Millisecond):
	}
	s.says(methods, s.running(methods, "make", pod))
	s.Must(os.WriteFile(server.TokenFile, []byte(s.token(pod)), 0o600))
	if ending := <-delivered; ending != nil || s.kept(methods, "make.url") != "value" {
		t.Errorf("kept is %q: %+v", s.kept(methods, "make.url"), ending)
	}
}

func TestASidecarRejectsUnknownServers(t *testing.T) {
	s := newSite(t)
	methods := s.lifecycle("db")
	other := s.server(methods, "make", "token")
	other.CA = newSite(t).ca
	var attempts []string
	other.Log = func(format string, args ...any) { attempts = append(attempts, fmt.Sprintf(format, args...)) }
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	ending := unit.Receive(ctx, other, unit.Volume{Root: t.TempDir()}, "/bin/true")
	if ending == nil || ending.Reason != iocontext.ServerUnreachable || !strings.Contains(ending.Message, "certificate") {
		t.Errorf("it ends with %+v", ending)
	}
	if len(attempts) < 2 || !strings.Contains(attempts[0], "attempt 1 failed; retrying: ") || !strings.Contains(attempts[1], "attempt 2") || !strings.Contains(attempts[0], "certificate") {
		t.Errorf("its log has %q", attempts)
	}
	wait.Holds(t, "no request arrived", func() bool { return s.logs.String() == "" || !strings.Contains(s.logs.String(), "given") })
}
