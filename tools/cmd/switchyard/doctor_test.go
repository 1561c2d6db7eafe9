package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/trust/trusttest"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command/exit"
)

func portText(port int32) string { return strconv.Itoa(int(port)) }

func metaNamed(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// saysOfIt is doctor's name of what a sandbox's conditions are.
const saysOfIt = "the operator's report"

func TestTheDoctorNamesTheProblem(t *testing.T) {
	f := newFarSide(t, "local-doctor")
	f.shop()
	f.mayRead(true)
	f.sandbox("local-well", localServer(t), 80)
	f.sandbox("local-down", "127.0.0.1:1", 80)
	f.sandbox("local-port", "127.0.0.1:1", 8080)
	f.sandbox("local-not-mine", localServer(t), 80)
	f.sandboxes = f.sandboxes[:3]
	for name, says := range map[string][2]string{"local-lost": {"False", "TunnelDisconnected"}, "local-new": {"Unknown", "NoTunnel"}, "local-broken": {"False", "BaselineNotFound"}} {
		f.sandbox(name, localServer(t), 80)
		f.says(name, says[0], says[1])
	}
	f.sandbox("local-changed", localServer(t), 80)
	o := &crdv1.SignadotSandbox{}
	f.Must(f.Client.Get(t.Context(), client.ObjectKey{Name: "local-changed"}, o))
	o.Spec.ExternalWorkloads[0].Tunnel.BaselineToLocals[0].LocalAddress = localServer(t)
	f.Must(f.Client.Update(t.Context(), o))
	f.Namespaces("local-doctor-empty")
	f.Grant("narrow-doctor", f.namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}})
	b := f.bench(t)
	other := b.file("other.crt", string(trusttest.New(t, "somebody else").Bundle()))
	usual := b.args
	for name, c := range map[string]struct {
		args       []string
		flags      []string
		wrong, say string
		do         string
	}{
		"no kubeconfig":        {[]string{"--kubeconfig", os.DevNull}, nil, "kubeconfig", "there is no kubeconfig", "--address"},
		"not known":            {[]string{"--kubeconfig", as(t, "", "wrong")}, nil, "API server", "does not know who you are", "log in to it again"},
		"no rights":            {[]string{"--kubeconfig", as(t, "narrow-doctor", ""), "--namespace-of-operator", f.namespace}, nil, "rights to forward a port", "you may not create pods/portforward", "--address"},
		"no proxy":             {[]string{"--kubeconfig", as(t, "", ""), "--namespace-of-operator", "local-doctor-empty"}, nil, "a tunnel proxy is reached", "there is no tunnel proxy in namespace local-doctor-empty", "kubectl get pods"},
		"no token":             {[]string{"--kubeconfig", as(t, "", ""), "--namespace-of-operator", f.namespace}, nil, "token", "authenticates without a token", "--as-service-account"},
		"another authority":    {usual, []string{"--ca", other}, "the proxy accepts this workstation", "certificate is not trusted", "do not go on"},
		"no sandbox":           {usual, []string{"--sandbox", "local-none"}, "sandbox", "not found", "sandbox list"},
		"a wrong port":         {usual, []string{"--sandbox", "local-port"}, "sandbox", "maps port 8080, which no container of the baseline names; they name 80", "map the port of the container"},
		"it is cut off":        {usual, []string{"--sandbox", "local-lost"}, saysOfIt, "Ready is False (TunnelDisconnected): Some message.", "run switchyard connect; if it runs already, see switchyard connect status"},
		"nothing connects":     {usual, []string{"--sandbox", "local-new"}, saysOfIt, "Ready is Unknown (NoTunnel): Some message.", "run switchyard connect"},
		"not ready":            {usual, []string{"--sandbox", "local-broken"}, saysOfIt, "Ready is False (BaselineNotFound): Some message.", "kubectl describe signadotsandbox local-broken"},
		"not reported yet":     {usual, []string{"--sandbox", "local-changed"}, saysOfIt, "has not reported on the current generation of sandbox local-changed", "kubectl get pods"},
		"nothing listens":      {usual, []string{"--sandbox", "local-down"}, "local processes listen", "nothing listens on 127.0.0.1:1", "start the local process"},
		"another user's":       {usual, []string{"--sandbox", "local-not-mine"}, "you may write the sandbox", "you cannot update sandbox local-not-mine", "ask for the right"},
		"nothing of a cluster": {usual, nil, "", "", ""},
		"nothing":              {usual, []string{"--sandbox", "local-well"}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b.T, b.args = t, c.args
			code, out, errs := b.does(t.Context(), append([]string{"doctor"}, c.flags...)...)
			if c.wrong == "" {
				if code != exit.OK || strings.Contains(out, "wrong") || strings.Contains(out, "skipped") {
					t.Errorf("exit code %d\n%s%s", code, out, errs)
				}
				return
			}
			says, do := "", ""
			all := strings.Split(out, "\n")
			for i, line := range all {
				if strings.HasPrefix(line, "wrong    "+c.wrong+": ") {
					says, do = line, all[i+1]
				}
			}
			if code != exit.No || !strings.Contains(says, c.say) || !strings.Contains(do, c.do) {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}
