package admission

import (
	"fmt"
	"strings"
)

// mostTold is how many rights a refusal names. No further ones are asked about then.
const mostTold = 5

// Refusal returns the message to the author about the rights that are lacking; empty when
// none is.
func Refusal(lacking []Want) string {
	var out []string
	for _, w := range lacking[:min(len(lacking), mostTold)] {
		text := fmt.Sprintf("you may not %s, so you cannot %s (%s): ask for that right", w.Access, w.Purpose, w.At)
		if w.Instead != "" {
			text += ", or " + w.Instead
		}
		out = append(out, text)
	}
	if len(lacking) > mostTold {
		out = append(out, "and more rights are lacking")
	}
	return strings.Join(out, "; ")
}

// String names the right as kubectl auth can-i does.
func (a Access) String() string {
	text := a.Verb + " " + a.Resource
	if a.Group != "" {
		text += "." + a.Group
	}
	switch {
	case a.Name != "":
		text += fmt.Sprintf(" %q", a.Name)
	case a.Verb != "create":
		text = a.Verb + " all " + strings.TrimPrefix(text, a.Verb+" ")
	}
	if a.Namespace != "" {
		text += " in namespace " + a.Namespace
	}
	return text
}
