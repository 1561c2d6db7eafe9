package main

import (
	"strings"

	"switchyard.dev/xds/routingkey"
)

// unfit says in which forms of headers no request can carry a key; see switchyard.Config.
func unfit(key string) string {
	defects := routingkey.Check(key)
	switch len(defects) {
	case 0:
		return ""
	case len(routingkey.Forms()):
		return "No header can carry this key: it " + defects[0].Why + "."
	}
	forms := make([]string, 0, len(defects))
	for _, d := range defects {
		forms = append(forms, string(d.Form))
	}
	return "No request can carry this key in " + strings.Join(forms, " or ") + ": it " + defects[0].Why + "."
}
