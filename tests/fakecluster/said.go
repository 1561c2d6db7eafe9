package fakecluster

import (
	"context"
	"fmt"
	"regexp"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// sentenceEnd is where a sentence of a message ends.
var sentenceEnd = regexp.MustCompile(`[.?!]( [A-Z]|$)`)

// mostSentences is how many the message of a condition may have.
const mostSentences = 2

// EverythingIsSaid returns nil when every object that is not being deleted has each condition of
// its kind, and no condition message is too long to read. Ready of a route group is not measured:
// it repeats all problems, each of which has a separate condition.
func (w *Cluster) EverythingIsSaid(ctx context.Context) error {
	for _, kind := range w.Kinds() {
		objects, err := w.List(ctx, kind)
		if err != nil {
			return err
		}
		for _, o := range objects {
			c, ok := o.(crdv1.Conditioned)
			if !ok {
				continue
			}
			for _, t := range c.ConditionTypes() {
				said := crdv1.FindCondition(*c.StatusConditions(), t)
				if said == nil && o.GetDeletionTimestamp() != nil {
					continue
				}
				if said == nil {
					return fmt.Errorf("%s %s/%s has no condition %s", kind, o.GetNamespace(), o.GetName(), t)
				}
				if kind == crdv1.KindRouteGroup && t == crdv1.ConditionReady {
					continue
				}
				if n := len(sentenceEnd.FindAllString(said.Message, -1)); n > mostSentences {
					return fmt.Errorf("%s of %s %s/%s has %d sentences, of which at most %d are read: %s", t, kind, o.GetNamespace(), o.GetName(), n, mostSentences, said.Message)
				}
			}
		}
	}
	return nil
}
