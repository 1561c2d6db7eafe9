package containerenv_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"switchyard.dev/tests/golden"
	"switchyard.dev/tunnels/workstation/containerenv"
)

// pod is a baseline, and objects of its namespace.
type pod struct {
	Template   corev1.PodTemplateSpec `json:"template"`
	ConfigMaps []corev1.ConfigMap     `json:"configMaps"`
	Secrets    []corev1.Secret        `json:"secrets"`
}

func input(t *testing.T, text string) containerenv.Input {
	t.Helper()
	var p pod
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	in := containerenv.Input{
		Template: p.Template, Namespace: "shop", Name: "mine-cart", UID: "1-2-3", Node: "laptop", CPU: 7500, Memory: 8 << 30,
		ConfigMaps: map[string]*corev1.ConfigMap{}, Secrets: map[string]*corev1.Secret{}, Unread: map[string]string{},
	}
	for i := range p.ConfigMaps {
		in.ConfigMaps[p.ConfigMaps[i].Name] = &p.ConfigMaps[i]
	}
	for i := range p.Secrets {
		in.Secrets[p.Secrets[i].Name] = &p.Secrets[i]
	}
	return in
}

// whole reads the pod of testdata, which has most fields that a pod can have.
func whole(t *testing.T) containerenv.Input {
	t.Helper()
	text, err := os.ReadFile("testdata/pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	in := input(t, string(text))
	in.Container, in.Sandbox, in.RoutingKey = "main", "mine", "key1"
	in.Unread["Secret/hidden"] = "you may not get secrets in namespace shop"
	in.Outputs = map[string]map[string][]byte{"db": {"host": []byte("db.shop"), "../out": []byte("x")}}
	in.Extra = []containerenv.Extra{{Name: "DB_HOST", Resource: "db", Output: "host"}, {Name: "LEVEL", Value: "4"}}
	return in
}

func TestEnvironmentAndFilesOfAContainer(t *testing.T) {
	in := whole(t)
	r, err := containerenv.Resolve(in)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "container %s\n\n%s\n", r.Container, containerenv.Shell(r.Env, true))
	for _, f := range r.Files {
		if f.Folder {
			fmt.Fprintf(&out, "%s/ (%s)\n", f.Path, f.Source)
			continue
		}
		fmt.Fprintf(&out, "%s %04o %q (%s)\n", f.Path, f.Mode, f.Data, f.Source)
	}
	out.WriteString("\n" + strings.Join(r.Notes, "\n") + "\n\n")
	vars, changed, _ := r.Below("/tmp/x")
	fmt.Fprintf(&out, "below /tmp/x: %s\n", strings.Join(changed, " "))
	for _, v := range vars {
		if slices.Contains(changed, v.Name) {
			out.WriteString(v.Name + "=" + v.Value + "\n")
		}
	}
	golden.Compare(t, "testdata/pod.golden", out.String())
}

func TestOnlyWhatTheContainerNamesIsNeeded(t *testing.T) {
	in := whole(t)
	got, err := containerenv.Needs(in)
	if err != nil {
		t.Fatal(err)
	}
	if s := fmt.Sprint(got); s != "{[absent files settings] [db hidden tls] cart}" {
		t.Errorf("it needs %s", s)
	}
}

func TestAllMissingObjectsAreReportedAtOnce(t *testing.T) {
	in := whole(t)
	delete(in.ConfigMaps, "settings")
	delete(in.Secrets, "db")
	in.Unread["Secret/db"] = "you may not get secrets in namespace shop"
	in.Secrets["tls"] = &corev1.Secret{}
	in.ConfigMaps["files"].Data = map[string]string{"cart": "x"}
	in.Extra = []containerenv.Extra{{Name: "X", Resource: "db", Output: "port"}}
	_, err := containerenv.Resolve(in)
	if err == nil {
		t.Fatal("nothing was missing")
	}
	golden.Compare(t, "testdata/missing.golden", err.Error()+"\n")
}

func TestTheContainerThatIsMeant(t *testing.T) {
	for _, c := range []struct{ template, asked, want, says string }{
		{`{spec: {containers: [{name: a}]}}`, "", "a", ""},
		{`{spec: {containers: [{name: a}, {name: b}]}}`, "", "", "several containers, a, b"},
		{`{spec: {containers: [{name: a}, {name: b}]}}`, "b", "b", ""},
		{`{spec: {containers: [{name: a}, {name: b}]}}`, "c", "", `no container "c"; it has a, b`},
		{`{metadata: {annotations: {kubectl.kubernetes.io/default-container: b}}, spec: {containers: [{name: a}, {name: b}]}}`, "", "b", ""},
		{`{spec: {}}`, "", "", "no containers"},
	} {
		var p corev1.PodTemplateSpec
		if err := yaml.UnmarshalStrict([]byte(c.template), &p); err != nil {
			t.Fatal(err)
		}
		got, err := containerenv.Main(p, c.asked)
		switch {
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s, %q: %v", c.template, c.asked, err)
		case c.says == "" && (err != nil || got.Name != c.want):
			t.Errorf("%s, %q: %v, %v", c.template, c.asked, got, err)
		}
	}
}

func TestTheTokenIsNeverCopied(t *testing.T) {
	const one = `
template:
  spec:
    containers: [{name: a, volumeMounts: [{name: kube-api-access, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}]
    volumes: [{name: kube-api-access, projected: {sources: [{serviceAccountToken: {path: token}}]}}]
`
	in := input(t, one)
	r, err := containerenv.Resolve(in)
	if err != nil || len(r.Files) > 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "is not copied") {
		t.Errorf("got %+v, %v", r, err)
	}
	in.ServiceAccount = &corev1.ServiceAccount{AutomountServiceAccountToken: new(false)}
	if r, err := containerenv.Resolve(in); err != nil || len(r.Notes) > 0 {
		t.Errorf("of a service account without a mounted token: %v, %v", r.Notes, err)
	}
	in.Template.Spec.AutomountServiceAccountToken = new(true)
	if r, err := containerenv.Resolve(in); err != nil || len(r.Notes) != 1 {
		t.Errorf("the pod overrides it: %v, %v", r.Notes, err)
	}
}

func TestNoFileLeavesItsVolume(t *testing.T) {
	for _, path := range []string{"../x", "/etc/passwd", "a/../../x"} {
		in := input(t, `
template:
  spec:
    automountServiceAccountToken: false
    containers: [{name: a, volumeMounts: [{name: v, mountPath: /v}]}]
    volumes: [{name: v, configMap: {name: m, items: [{key: k, path: "`+path+`"}]}}]
configMaps: [{metadata: {name: m}, data: {k: v}}]
`)
		if r, err := containerenv.Resolve(in); err == nil {
			t.Errorf("%s resulted in %+v", path, r.Files)
		}
	}
}

func TestTheEnvironmentOfALocalProcess(t *testing.T) {
	user := []string{"PATH=/usr/bin", "HOME=/home/me", "COLOR=mine", "EDITOR=vi", "=C:=x"}
	vars := []containerenv.Var{{Name: "PATH", Value: "/app"}, {Name: "COLOR", Value: "blue"}, {Name: "USER", Value: "app"}, {Name: "NUL", Value: "a\x00b"}}
	if got := strings.Join(containerenv.Environ(user, vars, false), " "); got != "COLOR=blue EDITOR=vi HOME=/home/me PATH=/usr/bin USER=app" {
		t.Errorf("it is %s", got)
	}
	if got := strings.Join(containerenv.Environ(user, vars, true), " "); got != "COLOR=blue HOME=/home/me PATH=/usr/bin USER=app" {
		t.Errorf("a clean one is %s", got)
	}
}

// A shell reads back whatever a variable has.
func TestAShellReadsVariablesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := strings.ReplaceAll(rapid.StringOfN(rapid.RuneFrom([]rune("a'\"$`\\ \n\t!*~#;&|(){}[]<>=é%")), 0, 20, -1).Draw(t, "value"), "\x00", "")
		script := containerenv.Shell([]containerenv.Var{{Name: "X", Value: value}}, false) + `printf '%s.' "$X"`
		out, err := exec.Command("sh", "-c", script).Output()
		if err != nil || string(out) != value+"." {
			t.Fatalf("%q came back as %q, %v", value, out, err)
		}
	})
}

// Expanding is total, and preserves text without references.
func TestReferencesInValues(t *testing.T) {
	in := input(t, `
template:
  spec:
    automountServiceAccountToken: false
    containers:
    - name: a
      env:
      - {name: A, value: x}
      - {name: B, value: "$(A)$(A"}
      - {name: C, value: "$$$(A)$$(A)$$$$"}
      - {name: D, value: "$()$(B)"}
`)
	r, err := containerenv.Resolve(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := containerenv.Shell(r.Env, false); got != "A=x\nB='x$(A'\nC='$x$(A)$$'\nD='$()x$(A'\n" {
		t.Errorf("got %s", got)
	}
	if len(r.Notes) > 0 {
		t.Errorf("it notes %q", r.Notes)
	}
}

// A program gets the text of a reference that is not resolved, and fails somewhere else.
func TestReferencesThatAreNotResolvedAreNoted(t *testing.T) {
	in := input(t, `
template:
  spec:
    automountServiceAccountToken: false
    containers:
    - name: a
      env:
      - {name: URL, value: "http://$(CART_SERVICE_HOST):$(PORT)/$(CART_SERVICE_HOST)"}
      - {name: PORT, value: "80"}
      - {name: SELF, value: "$(SELF)x"}
      - {name: FINE, value: "$(PORT)$$(NOT)"}
`)
	r, err := containerenv.Resolve(in)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Variable URL keeps $(CART_SERVICE_HOST) as written: no variable CART_SERVICE_HOST is known here. In a pod it may be one of a Service. Set URL with --env.",
		"Variable URL keeps $(PORT) as written, as in a pod: PORT stands after it in the list. Place PORT before URL.",
		"Variable SELF keeps $(SELF) as written, as in a pod: a variable cannot refer to itself.",
	}
	if !slices.Equal(r.Notes, want) {
		t.Errorf("it notes\n%s", strings.Join(r.Notes, "\n"))
	}
}

// codePod has a variable that runs code from each of its sources.
const codePod = `
template:
  spec:
    automountServiceAccountToken: false
    containers:
    - name: a
      envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: db}, prefix: PYTHON}]
      env:
      - {name: BASH_ENV, value: /config/start.sh}
      - {name: COPY, value: $(BASH_ENV)}
      - {name: GIT_SSH_COMMAND, valueFrom: {configMapKeyRef: {name: settings, key: COLOR}}}
      - {name: ENV, value: production}
      volumeMounts: [{name: v, mountPath: /config}]
    volumes: [{name: v, configMap: {name: settings, items: [{key: COLOR, path: start.sh}]}}]
configMaps: [{metadata: {name: settings}, data: {COLOR: blue, LD_PRELOAD: /config/evil.so}}]
secrets: [{metadata: {name: db}, data: {PATH: L2NvbmZpZw==}}]
`

// What a loader, a shell or an interpreter obeys comes from the cluster by no way.
func TestVariablesThatRunCodeAreWithheld(t *testing.T) {
	in := input(t, codePod)
	const own = `containers: [{name: a, env: [{name: NODE_OPTIONS, value: --require /config/start.sh}, {name: PERL5OPT, value: -Mx}]}]`
	if err := customized(t, &in, own); err != nil {
		t.Fatal(err)
	}
	in.Outputs = map[string]map[string][]byte{"db": {"lib": []byte("/lib")}}
	in.Extra = []containerenv.Extra{{Name: "PERL5OPT", Value: "-W"}, {Name: "RUBYLIB", Resource: "db", Output: "lib"}}
	in.Allow = []string{"NODE_OPTIONS"}
	r, err := containerenv.Resolve(in)
	if err != nil {
		t.Fatal(err)
	}
	const want = "COLOR=blue\nCOPY=/config/start.sh\nENV=production\nNODE_OPTIONS='--require /config/start.sh'\nPERL5OPT=-W\nRUBYLIB=/lib\n"
	if got := containerenv.Shell(r.Env, false); got != want {
		t.Errorf("the process has\n%s\nnot\n%s", got, want)
	}
	if got := strings.Join(r.Withheld, " "); got != "BASH_ENV GIT_SSH_COMMAND LD_PRELOAD PYTHONPATH" {
		t.Errorf("withheld: %s", got)
	}
	vars, _, _ := r.Below("/tmp/x")
	got := strings.Join(containerenv.Environ([]string{"BASH_ENV=mine", "LD_PRELOAD=mine.so"}, vars, false), " ")
	if want := "BASH_ENV=mine COLOR=blue COPY=/tmp/x/config/start.sh ENV=production LD_PRELOAD=mine.so NODE_OPTIONS=--require /tmp/x/config/start.sh PERL5OPT=-W RUBYLIB=/lib"; got != want {
		t.Errorf("the environment is %s, not %s", got, want)
	}
}

// A value that no variable can have is left out and named, whatever it comes from: the rule is that
// of pods. As a file it is there.
func TestValuesThatNoVariableCanHave(t *testing.T) {
	in := input(t, `
template:
  spec:
    automountServiceAccountToken: false
    containers:
    - name: a
      envFrom: [{secretRef: {name: db}}]
      env:
      - {name: DUMP, valueFrom: {secretKeyRef: {name: outputs, key: make.dump}}}
      - {name: COPY, value: "x$(DUMP)"}
      - {name: LATIN, valueFrom: {secretKeyRef: {name: db, key: latin}}}
secrets:
- {metadata: {name: db}, data: {latin: Y2Fm6Q==, fine: Y2Fmw6k=}}
- {metadata: {name: outputs}, data: {make.dump: YQBi}}
`)
	in.OutputSecrets = map[string]string{"outputs": "store"}
	in.Outputs = map[string]map[string][]byte{"store": {"make.dump": []byte("a\x00b")}}
	in.Extra = []containerenv.Extra{{Name: "OWN", Resource: "store", Output: "make.dump"}}
	r, err := containerenv.Resolve(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := containerenv.Shell(r.Env, false); got != "fine='café'\n" {
		t.Errorf("it has %s", got)
	}
	text := strings.Join(r.Notes, "\n")
	for _, want := range []string{
		"Variable DUMP is left out: its value (resource store, output make.dump) has a NUL byte (byte 2)", "Variable COPY is left out: its value (the container) has a NUL byte (byte 3)",
		"Variable LATIN is left out: its value (Secret db, key latin) is not UTF-8 (byte 4)", "Variable latin is left out: its value (Secret db) is not UTF-8 (byte 4)", "Variable OWN is left out: its value (resource store, output make.dump)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not note %q:\n%s", want, text)
		}
	}
	if len(r.Files) != 1 || string(r.Files[0].Data) != "a\x00b" {
		t.Errorf("the file is %v", r.Files)
	}
}
