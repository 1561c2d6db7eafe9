package workstation

import (
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// A workstation that is connected does not advise to connect it.
func TestAConnectedWorkstationAdvisesNoConnection(t *testing.T) {
	for message, want := range map[string]string{
		crdv1.NoWorkstation + ": run `switchyard connect` there.": "the operator has not confirmed the connection yet",
		"The baseline is not there.":                              "The baseline is not there.", "": "",
	} {
		if got := unconfirmed(message, false); got != want {
			t.Errorf("%q became %q", message, got)
		}
	}
	if got := unconfirmed("The tunnel at pod p has lost its workstation.", true); got != "the operator has not confirmed the connection yet" {
		t.Errorf("while it settles it is %q", got)
	}
}
