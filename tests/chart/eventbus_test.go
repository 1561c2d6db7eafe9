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
		if !taken && (err == nil || !strings.Contains(err.Error(), "Make it 400Mi or more")) {
			t.Errorf("%s: the message does not say what to do: %v", size, err)
		}
	}
	// The bus of somebody else has its own volumes.
	if _, err := render(t, "eventBus: {persistence: {size: 100Mi}, external: {url: 'nats://there:4222'}}"); err != nil {
		t.Errorf("for a bus of somebody else: %v", err)
	}
}
