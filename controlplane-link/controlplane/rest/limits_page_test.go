package rest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Users find sizes and lifetimes on the page of the control plane.
func TestTheLimitsAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, limit := range map[string]string{
		"body with a specification":                  fmt.Sprintf("%d MiB", maxSpec>>20),
		"other body":                                 fmt.Sprintf("%d KiB", maxBody>>10),
		"code of a device login":                     fmt.Sprintf("%d min", loginFor/time.Minute),
		"access token of a login":                    fmt.Sprintf("%d h", accessFor/time.Hour),
		"login, by refreshes":                        fmt.Sprintf("%d h", refreshFor/time.Hour),
		"session of a devbox after its last renewal": fmt.Sprintf("%d min", sessionFor/time.Minute),
	} {
		if row := fmt.Sprintf("\n| %s | %s |\n", what, limit); !strings.Contains(string(page), row) {
			t.Errorf("the page lacks the row %s", row)
		}
	}
}
