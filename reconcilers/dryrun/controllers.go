package dryrun

import (
	"context"
	"time"

	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/member"
)

// controllersOn returns the real controllers, at work on a world, by the kind that they
// look at.
func controllersOn(w *world, facts *statements, c Config, now time.Time) (map[string]controller.Controller, error) {
	return kinds.Controllers(kinds.Config{
		Needs: member.Needs{
			Access:    apply.Access{Client: w, Live: w, Now: func() time.Time { return now }},
			Publisher: facts,
		},
		Namespaces: c.Namespaces, OperatorNamespace: c.OperatorNamespace, PatchPowers: c.Powers, AuthorsAsked: true,
		Dial: func(context.Context, string) error { return nil }, // Nothing runs that could answer.
	})
}
