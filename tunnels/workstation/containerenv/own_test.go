package containerenv_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/golden"
	"switchyard.dev/tunnels/workstation/containerenv"
)

const cartPod = `
template:
  spec:
    automountServiceAccountToken: false
    containers:
    - name: log
    - name: main
      env:
      - {name: FIRST, value: old}
      - {name: REF, valueFrom: {secretKeyRef: {name: gone, key: k}}}
      - {name: AWAY, value: x}
      - {name: LAST, value: $(FIRST)}
      volumeMounts: [{name: config, mountPath: /etc/cart}]
    volumes: [{name: config, configMap: {name: settings}}]
configMaps:
- {metadata: {name: settings}, data: {cart.yaml: theirs, other.yaml: theirs}}
- {metadata: {name: rates}, data: {rates.yaml: "1.5"}}
secrets:
- {metadata: {name: db}, data: {password: aHVudGVy}}
`

// given is what compile writes of such env and files.
const given = `
containers:
- name: main
  env:
  - {name: FIRST, value: new, valueFrom: null}
  - {name: REF, value: plain, valueFrom: null}
  - {name: AWAY, $patch: delete}
  - {name: PASSWORD, value: null, valueFrom: {secretKeyRef: {name: db, key: password, optional: null}, configMapKeyRef: null, fieldRef: null}}
  - {name: RATES, value: /etc/rates.yaml, valueFrom: null}
  - {name: MAYBE, value: null, valueFrom: {configMapKeyRef: {name: absent, key: k, optional: true}}}
- {name: log, env: [{name: LEVEL, value: debug}]}
files:
- {path: /etc/cart/cart.yaml, value: mine}
- {path: etc/rates.yaml, valueFrom: {configMapKeyRef: {name: rates, key: rates.yaml}}}
- {path: /run/../password, valueFrom: {secretKeyRef: {name: db, key: password}}}
- {path: /maybe, valueFrom: {secretKeyRef: {name: absent, key: k, optional: true}}}
- {path: /empty}
`

func customized(t *testing.T, in *containerenv.Input, text string) error {
	t.Helper()
	var changes crdv1.LocalWorkload
	if err := yaml.UnmarshalStrict([]byte(text), &changes); err != nil {
		t.Fatal(err)
	}
	return in.Customize(changes)
}

func TestAdditionsOfASandbox(t *testing.T) {
	var out strings.Builder
	for _, container := range []string{"main", "log"} {
		in := input(t, cartPod)
		in.Container = container
		if err := customized(t, &in, given); err != nil {
			t.Fatal(err)
		}
		needs, err := containerenv.Needs(in)
		if err != nil {
			t.Fatal(err)
		}
		r, err := containerenv.Resolve(in)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "container %s, which needs %v\n\n%s\n", r.Container, needs, containerenv.Shell(r.Env, true))
		for _, f := range r.Files {
			fmt.Fprintf(&out, "%s %04o %q (%s)\n", f.Path, f.Mode, f.Data, f.Source)
		}
		vars, changed, _ := r.Below("/tmp/x")
		for _, v := range vars {
			if slices.Contains(changed, v.Name) {
				fmt.Fprintf(&out, "below /tmp/x: %s=%s\n", v.Name, v.Value)
			}
		}
		out.WriteString(strings.Join(append(r.Notes, "\n"), "\n"))
	}
	golden.Compare(t, "testdata/own.golden", out.String())
}

func TestInvalidAdditionsOfASandbox(t *testing.T) {
	for text, says := range map[string]string{
		`containers: [{name: main, env: [{name: A, value: null, valueFrom: {secretKeyRef: {name: db, key: user}}}]}]`: `variable A needs key "user" of Secret shop/db, which is not there`,
		`files: [{path: /a, valueFrom: {secretKeyRef: {name: hidden, key: k}}}]`:                                      "file /a needs Secret shop/hidden, which was not read: you may not",
		`files: [{path: /etc/cart, value: x}]`:                                                                        "file /etc/cart cannot be where /etc/cart/",
		`files: [{path: /etc/cart/cart.yaml/x}]`:                                                                      "file /etc/cart/cart.yaml/x cannot be where /etc/cart/cart.yaml is",
		`files: [{path: ..}]`:                                                                                         "file / cannot be where",
		`containers: [{name: mian, env: [{name: A}]}]`:                                                                `its env is for container "mian", which the baseline does not have; it has log, main`,
		`containers: [{name: main, env: [{value: x}]}]`:                                                               "its env",
		`containers: [{name: main, env: [null]}]`:                                                                     "its env",
		`containers: [{name: main, env: [{name: 5}]}]`:                                                                "its env",
		`containers: [{name: main, env: [{name: FIRST, value: {a: b}}]}]`:                                             "its env",
		`containers: [{name: main, env: [{name: FIRST, $patch: 5}]}]`:                                                 "its env",
		`containers: [{name: main, env: [{name: REF, valueFrom: {secretKeyRef: x}}]}]`:                                "its env",
	} {
		in := input(t, cartPod)
		in.Container, in.Unread["Secret/hidden"] = "main", "you may not"
		in.Template.Spec.Containers[1].Env[1].ValueFrom = nil
		err := customized(t, &in, text)
		if err == nil {
			_, err = containerenv.Resolve(in)
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, without %q", text, err, says)
		}
	}
}
