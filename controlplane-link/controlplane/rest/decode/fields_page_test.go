package decode

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Users find the sizes of fields on the page of the control plane.
func TestTheSizesOfFieldsAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, bytes := range map[string]int{"value of a secret": maxFields["value"], "other field of such a body": maxField} {
		if row := fmt.Sprintf("\n| %s | %d KiB |\n", what, bytes>>10); !strings.Contains(string(page), row) {
			t.Errorf("the page lacks the row %s", row)
		}
	}
}
