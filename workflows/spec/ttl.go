package spec

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// What a lifetime may count from.
const (
	FromCreated = "createdAt"
	FromUpdated = "updatedAt"
)

// lifetime is how a duration is written.
var lifetime = regexp.MustCompile(`^([0-9]+)([mhdw])$`)

// units are those of a lifetime.
var units = map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}

// Lifetime reads a duration such as 2d. What is longer than a time.Duration can be is cut to
// that, 292 years. The text of the error is the end of a sentence.
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
