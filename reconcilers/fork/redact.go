package fork

import (
	"errors"
	"fmt"
	"strings"
)

// withoutContent returns an error of the patch libraries without values of the patch or the workload. The
// libraries quote whole objects, including passwords, and more users can read conditions and Events than
// can read the patch.
func withoutContent(err error) error {
	text := err.Error()
	if strings.HasPrefix(text, "expected a ") { // Only names of Go types follow.
		return err
	}
	if strings.HasPrefix(text, "map: ") {
		const marker = " does not contain declared merge key: "
		if i := strings.LastIndex(text, marker); i >= 0 {
			return fmt.Errorf("an entry of a list has no %s, the merge key of that list", text[i+len(marker):])
		}
	}
	if cause := errors.Unwrap(err); cause != nil && strings.HasPrefix(text, "invalid operation ") {
		return fmt.Errorf("an operation is not valid: %w", cause)
	}
	known, _, quotes := strings.Cut(text, " in map: ")
	for _, opens := range []string{"map[", "[", "{"} {
		before, _, found := strings.Cut(known, opens)
		known, quotes = before, quotes || found
	}
	switch known = strings.TrimRight(known, " :\n"); {
	case !quotes:
		return err
	case known == "":
		return errors.New("it is not written as such a patch has to be")
	}
	return errors.New(known)
}
