package fork_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	livebaseline "switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/services"
)

// maxFork is more than the API server takes; no patch may make more of a baseline.
const maxFork = 4 << 20

// FuzzClone tries whatever may stand in patches, one after the other, in each form, with
// and without variables, for a Deployment and a Rollout: there is a fork that is ours and
// has no more power than its baseline, or a problem that says which patch it is about,
// and never a panic.
func FuzzClone(f *testing.F) {
	for i, seed := range []string{
		`{"spec":{"replicas":2}}`, `[]`, `null`, `{}`, `{"$patch":"delete"}`, `{"$patch":"replace"}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"x"}]}}}}`,
		`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"a"}]}}}}`,
		`{"spec":{"template":{"spec":{"containers":[null,1,"x",{}]}}}}`,
		`{"spec":{"template":{"spec":{"$retainKeys":["containers"],"containers":null}}}}`,
		`{"spec":{"template":{"spec":{"$deleteFromPrimitiveList/finalizers":["a"],"volumes":[{"name":"logs","$patch":"delete"}]}}}}`,
		`{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"n","image":"i","securityContext":{"privileged":true}}}`,
		`{"op":"copy","from":"","path":"/spec/x"}`, `{"op":"move","from":"/spec","path":"/spec/a"}`,
		`{"op":"remove","path":""}`, `{"op":"test","path":"/spec/replicas","value":1}`,
		`{"op":"replace","path":"/spec/template/spec/volumes/0/hostPath/path","value":"/"}`,
		`{"op":"copy","from":"/spec/template/spec/volumes/0","path":"/spec/template/spec/volumes/-"}`,
		`{"spec":{"selector":null}}`, `{"metadata":null}`, `{"spec":null}`,
		`{"spec":{"template":{"spec":{"hostNetwork":true,"serviceAccountName":"admin","serviceAccount":"admin","nodeName":"n"}}}}`,
		`{"spec":{"template":{"spec":{"securityContext":null,"runtimeClassName":null,"hostUsers":null}}}}`,
		`{"spec":{"strategy":{"canary":{"canaryService":"a","maxSurge":3}},"workloadRef":{"name":"x"}}}`,
		`{"metadata":{"annotations":{"a":"{{ .sandbox.name }}"}},"spec":{"template":{"metadata":{"labels":{"a":"{{ .resources.db.objectName }}"}}}}}`,
		`{"spec":{"template":{"spec":{"hostname":"{{ \"{{\" }}{{.resources.db.outputKind}}","containers":[{"name":"main","env":[{"name":"SIGNADOT_SANDBOX_NAME","value":"x"}]}]}}}}`,
		`{"spec":{"template":{"spec":{"initContainers":[{"name":"init","restartPolicy":"Always","ports":[{"containerPort":1,"hostPort":1}]}]}}}}`,
		`{"spec":{"template":{"spec":{"volumes":[{"name":"logs","hostPath":null,"csi":{"driver":"d"}}]}}}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"strict","image":"x","securityContext":{"allowPrivilegeEscalation":null,"capabilities":{"drop":["NET_RAW"]}}}]}}}}`,
		`{"op":"remove","path":"/spec/template/spec/containers/2/securityContext"}`,
	} {
		f.Add(byte(i), seed, `{"spec":{"replicas":3}}`)
		f.Add(byte(i+7), seed, seed)
	}
	live := map[string]*livebaseline.Workload{}
	for _, s := range subjects() {
		live[s.kind] = s.live(f, podWithoutPower)
	}
	f.Fuzz(func(t *testing.T, choice byte, first, second string) {
		for kind, w := range live {
			before := string(document(t, w.Object))
			tryClone(t, w, []crdv1.Patch{patchOf(choice, first), patchOf(choice/16, second)})
			if string(document(t, w.Object)) != before {
				t.Fatalf("the %s was changed", kind)
			}
		}
	})
}

// patchOf makes a patch of a text: two bits of choice say of which form, the next one
// whether it is a template.
func patchOf(choice byte, text string) crdv1.Patch {
	p := crdv1.Patch{Template: choice&4 != 0}
	switch choice & 3 {
	case 0:
		p.Strategic = raw(text)
	case 1:
		p.Merge = raw(text)
	case 2:
		p.JSON = operations(text).JSON
	default: // Several operations in one text.
		var list []json.RawMessage
		if json.Unmarshal([]byte(text), &list) != nil {
			list = []json.RawMessage{[]byte(text)}
		}
		for _, operation := range list {
			p.JSON = append(p.JSON, *raw(string(operation)))
		}
	}
	return p
}

// tryClone makes the fork and looks at what came of it.
func tryClone(t *testing.T, live *livebaseline.Workload, list []crdv1.Patch) {
	t.Helper()
	plan := fork.Plan{Identity: identity(), Patches: list, Resources: resources(), PreservedLabels: []string{"version"}}
	got, problem := fork.Clone(live, plan)
	if problem != nil {
		if got != nil || problem.Reason == "" || !strings.Contains(problem.Message, live.Ref.Name) || len(problem.Message) > 32<<10 {
			t.Fatalf("a problem without words, or with too many: %s: %.500s", problem.Reason, problem.Message)
		}
		return
	}
	mappings := services.Of(livebaseline.Forms{Template: live.Template}, got.Template.Spec, []corev1.Service{service(t, `{metadata: {name: s}, spec: {selector: {app: customer}, ports: [{port: 80, targetPort: http}]}}`)}, identity())
	if len(mappings) != 1 {
		t.Fatalf("%d Services", len(mappings))
	}
	for _, o := range []fork.Object{got.Object, fork.Writable(got.Object)} {
		text := document(t, o)
		if len(text) > maxFork {
			t.Fatalf("the fork has %d bytes", len(text))
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		isOurs(t, live, fields)
		template := under(under(fields, "spec"), "template")
		for _, power := range powersOf(under(template, "spec")) {
			t.Fatalf("the fork got %s:\n%s", power, text)
		}
	}
}

// under returns an object in an object.
func under(fields map[string]any, key string) map[string]any {
	out, _ := fields[key].(map[string]any)
	return out
}

// isOurs looks at who the fork is.
func isOurs(t *testing.T, live *livebaseline.Workload, fields map[string]any) {
	t.Helper()
	metadata, spec := under(fields, "metadata"), under(fields, "spec")
	id := identity()
	owners, _ := metadata["ownerReferences"].([]any)
	labels := under(under(under(spec, "template"), "metadata"), "labels")
	containers, _ := under(under(spec, "template"), "spec")["containers"].([]any)
	switch {
	case fields["kind"] != live.Ref.Kind || fields["apiVersion"] != live.Ref.APIVersion:
		t.Fatalf("it is a %v %v", fields["apiVersion"], fields["kind"])
	case metadata["name"] != id.DeploymentName("customer") || metadata["namespace"] != "hotrod" || metadata["finalizers"] != nil:
		t.Fatalf("its metadata are %v", metadata)
	case len(owners) != 1 || owners[0].(map[string]any)["uid"] != "fw-uid":
		t.Fatalf("its owners are %v", owners)
	case labels[crdv1.LabelForkedWorkload] != id.ForkedWorkload || labels["app"] == "customer":
		t.Fatalf("its pods have the labels %v", labels)
	case len(under(spec, "selector")) != 1 || under(under(spec, "selector"), "matchLabels")[crdv1.LabelForkedWorkload] != id.ForkedWorkload:
		t.Fatalf("its selector is %v", spec["selector"])
	case len(containers) == 0:
		t.Fatal("it has no containers")
	}
	if live.Ref.Kind == livebaseline.KindRollout {
		for key := range under(under(spec, "strategy"), "canary") {
			if key != "maxSurge" && key != "maxUnavailable" {
				t.Fatalf("its strategy has %s", key)
			}
		}
		if spec["workloadRef"] != nil || spec["paused"] != nil || len(under(spec, "strategy")) != 1 {
			t.Fatalf("it works on its baseline: %v", spec)
		}
	}
}

// powersOf looks for power in a pod made from podWithoutPower by names of fields alone,
// wherever they stand. It knows nothing of what Kubernetes makes of them.
func powersOf(pod map[string]any) []string {
	var found []string
	must := func(key string, want any) {
		if pod[key] != want {
			found = append(found, key)
		}
	}
	must("serviceAccountName", "customer")
	must("serviceAccount", nil)
	must("automountServiceAccountToken", false)
	must("hostUsers", false)
	must("runtimeClassName", "gvisor")
	if name := pod["nodeName"]; name != nil && name != "" {
		found = append(found, "nodeName")
	}
	if under(under(pod, "securityContext"), "seccompProfile")["type"] != "RuntimeDefault" {
		found = append(found, "securityContext.seccompProfile")
	}
	volumes, _ := pod["volumes"].([]any)
	for _, v := range volumes {
		source, _ := v.(map[string]any)
		for key, value := range source {
			plain := []string{"name", "emptyDir", "secret", "configMap", "downwardAPI", "projected", "persistentVolumeClaim", "ephemeral", "image"}
			logs := key == "hostPath" && under(source, key)["path"] == "/var/log" && under(source, key)["type"] == nil
			if value != nil && !slices.Contains(plain, key) && !logs {
				found = append(found, "volumes."+key)
			}
		}
	}
	for _, list := range []string{"containers", "initContainers"} {
		items, _ := pod[list].([]any)
		for _, item := range items {
			if c, _ := item.(map[string]any); c["name"] == "strict" && !isStrict(under(c, "securityContext")) {
				found = append(found, list+"[strict]")
			}
		}
	}
	return append(found, fieldsOfPower(pod, "")...)
}

// isStrict reports whether a container still has what confines the one that is called strict.
func isStrict(context map[string]any) bool {
	drop, _ := under(context, "capabilities")["drop"].([]any)
	all := slices.ContainsFunc(drop, func(c any) bool {
		text, _ := c.(string)
		return strings.TrimPrefix(strings.ToUpper(text), "CAP_") == "ALL"
	})
	return all && context["allowPrivilegeEscalation"] == false
}

// fieldsOfPower looks through all objects below a value.
func fieldsOfPower(value any, path string) []string {
	var found []string
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			found = append(found, fieldsOfPower(item, path)...)
		}
	case map[string]any:
		for key, item := range v {
			power := false
			switch key {
			case "hostNetwork", "hostPID", "hostIPC", "privileged", "allowPrivilegeEscalation", "hostProcess":
				power = item == true
			case "hostPort":
				n, isNumber := item.(float64)
				power = isNumber && n != 0 && path != "limits" && path != "requests"
			case "procMount":
				power = item != nil && item != "" && item != "Default"
			case "sysctls":
				list, _ := item.([]any)
				power = len(list) > 0
			case "seccompProfile", "appArmorProfile":
				profile, _ := item.(map[string]any)
				power = profile["type"] == "Unconfined" || profile["type"] == "Localhost"
			case "seLinuxOptions":
				options, _ := item.(map[string]any)
				for _, said := range options {
					power = power || said != nil && said != ""
				}
			case "add":
				list, _ := item.([]any)
				for _, c := range list {
					text, _ := c.(string)
					power = power || path == "capabilities" && strings.TrimPrefix(strings.ToUpper(text), "CAP_") != "NET_BIND_SERVICE"
				}
			case "serviceAccountToken", "podCertificate":
				power = item != nil && path == "sources"
			case "host":
				power = (path == "httpGet" || path == "tcpSocket") && item != nil && item != ""
			}
			if power {
				found = append(found, path+"."+key)
			}
			found = append(found, fieldsOfPower(item, key)...)
		}
	}
	return found
}
