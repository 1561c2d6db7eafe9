package execunit_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/iocontext"
)

// written is a unit by its parts; an empty part is as in a plain unit.
type written struct {
	// meta and pod are fields of the pod template's metadata and spec, main those of its
	// main container, exec those of execUnitTemplate, unit those of the unit.
	meta, pod, main, exec, unit string
}

// text is the unit in YAML.
func (w written) text() string {
	main := w.main
	if main == "" {
		main = `image: "runner:1"`
	}
	pod := w.pod
	if !strings.Contains(pod, "containers: ") || strings.Contains(pod, "initContainers: ") && !strings.Contains(pod, " containers: ") {
		pod = strings.TrimPrefix(pod+", containers: [{name: main, "+main+"}]", ", ")
	}
	exec := w.exec
	if !strings.Contains(exec, "script") {
		exec = strings.TrimPrefix(exec+`, script: "#!/bin/sh"`, ", ")
	}
	unit := w.unit
	if unit != "" {
		unit = ", " + unit
	}
	return fmt.Sprintf("{name: make, type: ExecUnit, execUnitTemplate: {%s, podTemplate: {metadata: {%s}, spec: {%s}}}%s}", exec, w.meta, pod, unit)
}

// refusals are units that are refused, with the reason and a part of the message.
func refusals() map[string]struct {
	written
	reason, says string
} {
	in := func(unit, exec string) written {
		return written{unit: "inputs: [" + unit + "]", exec: "inputInjects: [" + exec + "]"}
	}
	out := func(unit, exec string) written {
		return written{unit: "outputs: [" + unit + "]", exec: "outputExports: [" + exec + "]"}
	}
	type r = struct {
		written
		reason, says string
	}
	return map[string]r{
		"no container":                  {written{pod: "containers: []"}, "PodTemplateRefused", "has no container. Add one, named main"},
		"neither script nor command":    {written{exec: `script: ""`}, "NothingToRun", "neither a script nor a command"},
		"no interpreter":                {written{exec: `script: "echo"`}, "NoInterpreter", "Begin it with #!"},
		"a name":                        {written{meta: "name: x"}, "PodTemplateRefused", "names the pod"},
		"a generated name":              {written{meta: "generateName: x"}, "PodTemplateRefused", "names the pod"},
		"finalizers":                    {written{meta: "finalizers: [example.com/x]"}, "PodTemplateRefused", "such as finalizers"},
		"an owner":                      {written{meta: "ownerReferences: [{name: x, kind: X, apiVersion: v1, uid: x}]"}, "PodTemplateRefused", "sets metadata other than"},
		"restarted by the pod":          {written{pod: "restartPolicy: OnFailure"}, "PodTemplateRefused", `restartPolicy "OnFailure"`},
		"restarted by the container":    {written{main: "image: i, restartPolicy: Always"}, "PodTemplateRefused", "runs once"},
		"restarted by rules":            {written{main: "image: i, restartPolicy: Never, restartPolicyRules: [{action: Restart}]"}, "PodTemplateRefused", "restartPolicyRules"},
		"restarted by rules of another": {written{pod: "initContainers: [{name: i, image: i, restartPolicyRules: [{action: RestartAllContainers}]}]"}, "PodTemplateRefused", `container "i" of step "make" has restartPolicyRules`},
		"ephemeral containers":          {written{pod: "ephemeralContainers: [{name: x, image: x}]"}, "PodTemplateRefused", "ephemeralContainers"},
		"windows":                       {written{pod: "os: {name: windows}"}, "PodTemplateRefused", "run on Linux"},
		"the volume's name":             {written{pod: "volumes: [{name: signadot-execunit-io, emptyDir: {}}]"}, "PodTemplateRefused", "a volume named signadot-execunit-io"},
		"the token's name":              {written{pod: "volumes: [{name: signadot-execunit-token, emptyDir: {}}]"}, "PodTemplateRefused", "a volume named signadot-execunit-token"},
		"the token mounted":             {written{main: "image: i, volumeMounts: [{name: signadot-execunit-token, mountPath: /t}]"}, "PodTemplateRefused", `mounts the volume "signadot-execunit-token"`},
		"a container's name":            {written{pod: "initContainers: [{name: signadot-execunit-output-manager, image: i}]"}, "PodTemplateRefused", "the operator's own"},
		"an init container's name":      {written{pod: "containers: [{name: main, image: i}, {name: signadot-execunit-input-manager, image: i}]"}, "PodTemplateRefused", "the operator's own"},
		"a container without a name":    {written{pod: "containers: [{image: i}]"}, "PodTemplateRefused", "not a valid name"},
		"a container twice":             {written{pod: "containers: [{name: a, image: i}, {name: a, image: i}]"}, "PodTemplateRefused", `two containers named "a"`},
		"no image":                      {written{pod: "containers: [{name: a}]"}, "PodTemplateRefused", "has no image"},
		"a volume twice":                {written{pod: "volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]"}, "PodTemplateRefused", `two volumes named "a"`},
		"over our files":                {written{pod: "volumes: [{name: a, emptyDir: {}}]", main: "image: i, volumeMounts: [{name: a, mountPath: /signadot/./io/}]"}, "PodTemplateRefused", "Choose another path"},
		"an input in our folder":        {in("{name: a, value: x}", "{inputName: a, dst: {localPath: /signadot/x}}"), "InputRefused", "is the operator's own"},
		"an unknown input":              {in("{name: a, value: x}", "{inputName: b, dst: {env: B}}"), "InputRefused", `names the input "b"`},
		"an input to nowhere":           {in("{name: a, value: x}", "{inputName: a, dst: {}}"), "InputRefused", "Add dst.env or dst.localPath"},
		"no variable's name":            {in("{name: a, value: x}", `{inputName: a, dst: {env: "1="}}`), "InputRefused", `the variable "1="`},
		"a variable twice":              {in("{name: a, value: x}, {name: b, value: x}", "{inputName: a, dst: {env: A}}, {inputName: b, dst: {env: A}}"), "InputRefused", `two inputs of step "make" are to be the variable "A"`},
		"a file without a root":         {in("{name: a, value: x}", "{inputName: a, dst: {localPath: x}}"), "InputRefused", "is not absolute"},
		"a file with dots":              {in("{name: a, value: x}", "{inputName: a, dst: {localPath: /x/../y}}"), "InputRefused", `shortest form, "/y"`},
		"the root":                      {in("{name: a, value: x}", "{inputName: a, dst: {localPath: /}}"), "InputRefused", "is the operator's own"},
		"a colon":                       {in("{name: a, value: x}", `{inputName: a, dst: {localPath: "/a:b"}}`), "InputRefused", "colon"},
		"a file twice":                  {in("{name: a, value: x}, {name: b, value: x}", "{inputName: a, dst: {localPath: /x}}, {inputName: b, dst: {localPath: /x}}"), "InputRefused", "where another input or a volume is"},
		"a NUL in a variable":           {in(`{name: a, value: "x\0y"}`, "{inputName: a, dst: {env: A}}"), "InputRefused", "NUL byte"},
		"a value too long":              {in("{name: a, value: "+strings.Repeat("x", iocontext.MaxVariable-2)+"}", "{inputName: a, dst: {env: A}}"), "InputRefused", "131070 bytes, and a variable at most 131072"},
		"a value too large":             {in("{name: a, value: "+strings.Repeat("x", 1<<20+1)+"}", "{inputName: a, dst: {localPath: /a}}"), "InputRefused", "1048577 bytes, and at most 1048576"},
		"another context":               {in("{name: a, iocontext: {name: other, key: k}}", "{inputName: a, dst: {env: A}}"), "InputRefused", `this version reads only the object's own`},
		"an unknown output":             {out("{name: a}", "{outputName: b, fromPath: /x}, {outputName: a, fromPath: /y}"), "OutputRefused", `names the output "b"`},
		"an output without an export":   {out("{name: a}", ""), "OutputRefused", "so it has no value"},
		"an output twice":               {out("{name: a}", "{outputName: a, fromPath: /x}, {outputName: a, fromPath: /y}"), "OutputRefused", "twice"},
		"an output's file twice":        {out("{name: a}, {name: b}", "{outputName: a, fromPath: /x}, {outputName: b, fromPath: /x}"), "OutputRefused", `are the file "/x"`},
		"an output in our folder":       {out("{name: a}", "{outputName: a, fromPath: /signadot/io/result.json}"), "OutputRefused", "is the operator's own"},
		"a namespace not managed":       {written{meta: "namespace: kube-system"}, "NamespaceNotAllowed", "signadot, shop"},
		"a namespace that is none":      {written{meta: "namespace: A B"}, "NamespaceNotAllowed", "not a valid name"},
		"an account of the operator":    {written{pod: "serviceAccountName: a"}, "PodNotAllowed", `serviceAccountName "a" in the operator's namespace "signadot"`},
		"the same by its older name":    {written{pod: "serviceAccount: a"}, "PodNotAllowed", `serviceAccountName "a" in the operator's namespace`},
		"the same, named by namespace":  {written{meta: "namespace: signadot", pod: "serviceAccountName: a"}, "PodNotAllowed", "run the unit in another one"},
		"a token in its namespace":      {written{pod: "automountServiceAccountToken: true"}, "PodNotAllowed", "automountServiceAccountToken in the operator's namespace"},
		"a projected token":             {written{meta: "namespace: shop", pod: "serviceAccountName: a, volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: t, audience: io-context.signadot.com}}]}}]"}, "PodNotAllowed", `a serviceAccountToken in the volume "a"`},
		"a certificate":                 {written{pod: "volumes: [{name: a, projected: {sources: [{podCertificate: {signerName: a/b, keyType: ED25519}}]}}]"}, "PodNotAllowed", "podCertificate"},
		"the node's network":            {written{pod: "hostNetwork: true"}, "PodNotAllowed", "host namespaces (hostNetwork=true). Take it out, or, for every step, let the operator's chart have workflows.runner.allow: [hostNamespaces]"},
		"a directory of the node":       {written{pod: "volumes: [{name: a, hostPath: {path: /}}]"}, "PodNotAllowed", `hostPath volumes (volume "a")`},
		"a port of the node":            {written{main: "image: i, ports: [{containerPort: 80, hostPort: 80}]"}, "PodNotAllowed", "[hostPorts]"},
		"privileged":                    {written{main: "image: i, securityContext: {privileged: true}"}, "PodNotAllowed", `container "main" must not set securityContext.privileged=true`},
		"an init container with all":    {written{pod: "initContainers: [{name: i, image: i, securityContext: {capabilities: {add: [ALL]}}}]"}, "PodNotAllowed", "[capabilities]"},
		"an unmasked proc":              {written{main: "image: i, securityContext: {procMount: Unmasked}"}, "PodNotAllowed", "[privileged]"},
		"no seccomp":                    {written{pod: "securityContext: {seccompProfile: {type: Unconfined}}"}, "PodNotAllowed", "[securityProfiles]"},
		"no AppArmor, by an annotation": {written{meta: "annotations: {container.apparmor.security.beta.kubernetes.io/main: unconfined}"}, "PodNotAllowed", "[securityProfiles]"},
		"a setting of the kernel":       {written{pod: "securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}"}, "PodNotAllowed", "[sysctls]"},
		"a probe of another host":       {written{main: "image: i, livenessProbe: {httpGet: {host: a, port: 80}}"}, "PodNotAllowed", "[probeHosts]"},
	}
}

// The author needs the right to create pods in the namespace, which includes its service accounts.
func TestAServiceAccountIsForAuthorsThatAreAsked(t *testing.T) {
	unasked := settings
	unasked.AuthorAsked = false
	for spec, mounted := range map[string]*bool{
		"serviceAccountName: a": nil, "serviceAccount: a": nil, "automountServiceAccountToken: true": new(true),
		"serviceAccountName: a, automountServiceAccountToken: false": new(false), "terminationGracePeriodSeconds: 1": new(false),
	} {
		u := unit(t, written{meta: "namespace: shop", pod: spec}.text())
		if p := execunit.Accept(u, "own", settings); p != nil {
			t.Errorf("%s: %+v", spec, p)
		}
		if got := execunit.Pod(u, identity, settings).Spec.AutomountServiceAccountToken; (got == nil) != (mounted == nil) || got != nil && *got != *mounted {
			t.Errorf("%s: automountServiceAccountToken is %v", spec, got)
		}
		p := execunit.Accept(u, "own", unasked)
		if uses := strings.Contains(spec, "ccount"); uses != (p != nil) || uses && !strings.Contains(p.Message, "workflows.runner.allow: [serviceAccount]") {
			t.Errorf("%s without asking the author: %+v", spec, p)
		}
	}
}

// sentences are how many a message has.
var sentences = regexp.MustCompile(`[.!?]( |$)`)

func TestRefusedUnits(t *testing.T) {
	s := settings
	s.Namespaces = []string{"signadot", "shop"}
	for name, r := range refusals() {
		t.Run(name, func(t *testing.T) {
			u := unit(t, r.text())
			p := execunit.Accept(u, "own", s)
			if p == nil {
				t.Fatalf("it was taken:\n%s", r.text())
			}
			if p.Reason != r.reason || !strings.Contains(p.Message, r.says) {
				t.Errorf("%s: %s", p.Reason, p.Message)
			}
			if n := len(sentences.FindAllString(strings.ReplaceAll(p.Message, "#! ", ""), -1)); n > 2 || len(p.Message) > 2048 {
				t.Errorf("%d sentences, %d bytes: %s", n, len(p.Message), p.Message)
			}
			if strings.Contains(p.Message, "xxx") || strings.Contains(p.Message, "x\x00y") {
				t.Errorf("it shows a value: %s", p.Message)
			}
		})
	}
	if p := execunit.Accept(unit(t, "{name: make, type: ExecUnit}"), "", s); p == nil || p.Reason != execunit.ReasonNoTemplate {
		t.Errorf("%+v", p)
	}
}

func TestAcceptedUnits(t *testing.T) {
	s := settings
	s.Namespaces = []string{"signadot", "shop"}
	for name, w := range map[string]written{
		"a plain one":          {},
		"a command":            {exec: `script: ""`, main: "image: i, command: [a]"},
		"another container":    {pod: "containers: [{name: other, image: i}]"},
		"its own context":      {unit: "inputs: [{name: a, iocontext: {name: own, key: k}}]", exec: "inputInjects: [{inputName: a, dst: {env: A, localPath: /a}}]"},
		"the longest variable": {unit: "inputs: [{name: a, value: " + strings.Repeat("x", iocontext.MaxVariable-3) + "}]", exec: "inputInjects: [{inputName: a, dst: {env: A}}]"},
		"a NUL in a file":      {unit: `inputs: [{name: a, value: "\0"}]`, exec: "inputInjects: [{inputName: a, dst: {localPath: /a}}]"},
		"an input unused":      {unit: "inputs: [{name: a, value: x}]"},
		"a Secret":             {main: "image: i, envFrom: [{secretRef: {name: s}}]"},
		"a namespace":          {meta: "namespace: shop, labels: {a: b}"},
		"a native sidecar":     {pod: "initContainers: [{name: i, image: i, restartPolicy: Always}]"},
	} {
		t.Run(name, func(t *testing.T) {
			u := unit(t, w.text())
			if p := execunit.Accept(u, "own", s); p != nil {
				t.Errorf("%s: %s", p.Reason, p.Message)
			}
		})
	}
}

// Each power permits exactly the fields that are refused without it.
func TestPowersLetThroughWhatTheyName(t *testing.T) {
	let := map[execunit.Power]int{}
	for name, r := range refusals() {
		if r.reason != execunit.ReasonNotAllowed {
			continue
		}
		var by []execunit.Power
		for _, p := range execunit.All() {
			s := settings
			s.Allow = execunit.Powers{p}
			if execunit.Accept(unit(t, r.text()), "own", s) == nil {
				by = append(by, p)
				let[p]++
			}
		}
		if len(by) != 1 || !strings.Contains(r.says+fmt.Sprint(execunit.Accept(unit(t, r.text()), "own", settings)), "["+string(by[0])+"]") {
			t.Errorf("%s: let through by %v", name, by)
		}
	}
	asked := written{pod: "imagePullSecrets: [{name: s}]"}
	for _, s := range []execunit.Settings{{AuthorAsked: true}, {Allow: execunit.Powers{execunit.Secrets}}} {
		if p := execunit.Accept(unit(t, asked.text()), "", s); p != nil {
			t.Errorf("%+v: %s", s, p.Message)
		}
	}
	if p := execunit.Accept(unit(t, asked.text()), "", execunit.Settings{}); p == nil || !strings.Contains(p.Message, `Secret "s", while the operator does not ask`) {
		t.Errorf("%+v", p)
	}
	let[execunit.Secrets]++
	if len(let) != len(execunit.All()) {
		t.Errorf("%v of %v", let, execunit.All())
	}
}

func TestPowersAreReadByTheirNames(t *testing.T) {
	if p, err := execunit.Parse([]string{"hostPath", "serviceAccount"}); err != nil || len(p) != 2 {
		t.Error(p, err)
	}
	if _, err := execunit.Parse([]string{"root"}); err == nil || !strings.Contains(err.Error(), "hostNamespaces, hostPorts, privileged") {
		t.Error(err)
	}
}
