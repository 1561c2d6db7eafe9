package inject

import (
	"slices"
	"strings"
)

// levels are those that the sidecar's programs know.
var levels = []string{"debug", "info", "warn", "error"}

// LogLevel reads the level for one container from the annotation
// signadot.com/log-level, LEVEL[,CONTAINER=LEVEL]*, where a level with the
// container's name wins over the one without. It returns the empty string when
// there is none, and in unknown the words it does not know, which have no
// effect.
func LogLevel(annotation, container string) (level string, unknown []string) {
	named := false
	for item := range strings.SplitSeq(annotation, ",") {
		item = strings.TrimSpace(item)
		name, value, forOne := strings.Cut(item, "=")
		if !forOne {
			value = name
		}
		value = canonical(strings.TrimSpace(value))
		switch {
		case item == "":
		case !slices.Contains(levels, value):
			unknown = append(unknown, item)
		case forOne && strings.TrimSpace(name) == container:
			level, named = value, true
		case !forOne && !named:
			level = value
		}
	}
	return level, unknown
}

func canonical(level string) string {
	level = strings.ToLower(level)
	if level == "warning" {
		return "warn"
	}
	return level
}
