package spec

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Starting points of a lifetime.
const (
	FromCreated = "createdAt"
	FromUpdated = "updatedAt"
	// FromUnmatched, of a route group: when the last of its sandboxes was deleted.
	FromUnmatched = "noMatchedSandboxes"
)

// lifetime matches a duration.
var lifetime = regexp.MustCompile(`^([0-9]+)([mhdw])$`)

// units are the units of a lifetime.
var units = map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}

// Lifetime reads a duration such as 2d. A duration longer than a time.Duration can be, 292 years,
// is truncated to that. The text of the error is the end of a sentence.
func Lifetime(text string) (time.Duration, error) {
	m := lifetime.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("is %q; write a number and m, h, d or w, such as 2d for two days", text)
	}
	n, err := strconv.ParseUint(m[1], 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("is %q; the number must be between 1 and %d", text, uint32(math.MaxUint32))
	}
	unit := units[m[2]]
	if n > uint64(math.MaxInt64/unit) {
		return math.MaxInt64, nil
	}
	return time.Duration(n) * unit, nil
}

// Expires returns when a sandbox is to be deleted, according to its annotations; false when it
// has no lifetime. The text of the error names the annotation.
func Expires(sandbox metav1.Object) (at time.Time, ends bool, err error) {
	noted := sandbox.GetAnnotations()
	text, ends := noted[crdv1.AnnotationTTL]
	if !ends {
		return time.Time{}, false, nil
	}
	life, err := Lifetime(text)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("annotation %s %w", crdv1.AnnotationTTL, err)
	}
	from := sandbox.GetCreationTimestamp().Time
	switch noted[crdv1.AnnotationTTLFrom] {
	case "", FromCreated:
	case FromUpdated:
		if updated, given := noted[crdv1.AnnotationUpdatedAt]; given {
			if from, err = time.Parse(time.RFC3339, updated); err != nil {
				return time.Time{}, false, fmt.Errorf("annotation %s is %q; write a time as RFC 3339 has it", crdv1.AnnotationUpdatedAt, updated)
			}
		}
	default:
		return time.Time{}, false, fmt.Errorf("annotation %s is %q; use %s or %s", crdv1.AnnotationTTLFrom, noted[crdv1.AnnotationTTLFrom], FromCreated, FromUpdated)
	}
	return from.Add(life), true, nil
}
