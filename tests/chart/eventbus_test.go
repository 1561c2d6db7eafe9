package chart

import (
	"strings"
	"testing"
)

func TestAVolumeThatCannotHoldTheLogIsRefused(t *testing.T) {
	for size, taken := range map[string]bool{"100Mi": false, "399Mi": false, "400Mi": true, "1Gi": true} {
		_, err := render(t, "eventBus: {persistence: {size: "+size+"}}")
		if taken && err != nil {
			t.Errorf("%s: %v", size, err)
		}
		if !taken && (err == nil || !strings.Contains(err.Error(), "Set it to 400Mi or more")) {
			t.Errorf("%s: the message does not say what to do: %v", size, err)
		}
	}
	// The bus of somebody else has its own volumes.
	if _, err := render(t, "eventBus: {persistence: {size: 100Mi}, external: {url: 'nats://there:4222'}}"); err != nil {
		t.Errorf("for a bus of somebody else: %v", err)
	}
}

func TestTheLogsSizeFitsItsVolume(t *testing.T) {
	for values, says := range map[string]string{
		"{history: {size: 512Mi}}":                              "",
		"{history: {size: 1Gi}}":                                "Set it to 1600Mi or more",
		"{history: {size: 1Gi}, persistence: {size: 1600Mi}}":   "",
		"{history: {size: 8Mi}}":                                "Set it to 16Mi or more",
		"{history: {size: 4Gi}, external: {url: 'nats://a:1'}}": "",
		"{history: {size: lots}}":                               "history",
		"{history: {size: 16M}, persistence: {size: 100Mi}}":    "Set it to 16Mi or more",
		"{history: {size: 20M}, persistence: {size: 100Mi}}":    "",
	} {
		_, err := render(t, "eventBus: "+values)
		if says == "" && err != nil {
			t.Errorf("%s: %v", values, err)
		}
		if says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: it does not say %q: %v", values, says, err)
		}
	}
	if text, err := render(t, "eventBus: {history: {size: 512Mi}}"); err != nil || !strings.Contains(text, "--history-bytes=536870912") {
		t.Errorf("the manager is not told: %v", err)
	}
}
