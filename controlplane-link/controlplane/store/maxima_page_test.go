package store

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Users find the maxima on the page of the control plane, by the words of the errors.
func TestTheMaximaAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("a specification of %d KiB or more", smallSpec>>10), fmt.Sprintf("%d pending device logins", maxDeviceLogins)} {
		if !strings.Contains(string(page), text) {
			t.Errorf("the page lacks: %s", text)
		}
	}
	for _, m := range []maximum{clusters, clusterTokens, accounts, apiKeys, sandboxes, routeGroups, versions, secrets, devboxes, objectBytes, pluginBytes} {
		number := fmt.Sprint(m.most)
		if strings.HasPrefix(m.what, "bytes ") {
			number = fmt.Sprintf("%d MiB", m.most>>20)
		}
		if row := fmt.Sprintf("\n| %s | %s |\n", m.what, number); !strings.Contains(string(page), row) {
			t.Errorf("the page lacks the row %s", row)
		}
	}
}
