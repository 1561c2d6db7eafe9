package main

import (
	"strings"
	"testing"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/publisher"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/command/exit"
)

func TestAuditOfTheLogThatIsServed(t *testing.T) {
	tip, address := serving(t)
	w := world.Shared(t)
	other, began := tip, tip
	other.Chain[0]++
	began.Epoch = "before"
	admin := as(t, "", "")
	for name, c := range map[string]struct {
		config string
		args   []string
		kept   event.Mark
		code   exit.Code
		want   string
	}{
		"held against the mark of the operator":  {admin, nil, tip, exit.OK, "held against the mark that the operator keeps, " + tip.Epoch + "/1"},
		"sealed anew":                            {admin, nil, other, exit.No, "event 1 is another one than when the mark was taken"},
		"a mark that was given counts":           {admin, []string{"--mark", tip.Epoch + "/1/" + tip.Chain.String()}, other, exit.OK, "held against --mark"},
		"the log has begun again":                {admin, nil, began, exit.OK, "keeps the mark of another epoch, before"},
		"the operator keeps nothing":             {admin, nil, event.Mark{}, exit.OK, "the operator keeps no mark"},
		"it may not be read":                     {as(t, "mallory", ""), nil, tip, exit.OK, "could not be read: "},
		"the cluster of a server that was named": {"", nil, other, exit.OK, "its cluster is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			operator := w.In(t).NewNamespace("audit")
			if c.kept != (event.Mark{}) {
				must(t, publish.Epochs{Reader: w.Client, Writer: w.Client, Namespace: operator}.Save(t.Context(), publisher.Witness{Mark: c.kept}))
			}
			args := append([]string{"audit", "verify", "--live", "--server", address, "--namespace-of-operator", operator}, c.args...)
			if c.config != "" {
				args = append(args, "--kubeconfig", c.config)
			}
			code, out, errs := ask(t, args...)
			if code != c.code || !strings.Contains(out, c.want) || strings.Contains(out, "of the file") {
				t.Errorf("exit code %d, want %q\n%s%s", code, c.want, out, errs)
			}
		})
	}
}
